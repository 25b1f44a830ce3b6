//! Tables of text.

use std::array;

use super::escape_for_terminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Formats a table with aligned columns.
pub fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut all = vec![header.map(String::from)];
    all.extend(rows.map(|row| row.map(|cell| escape_for_terminal(&cell))));
    let max_width = |column: usize| all.iter().map(|row| width(&row[column])).max();
    let widths: [usize; N] = array::from_fn(|column| max_width(column).unwrap_or(0));
    let mut table = String::new();
    for row in &all {
        let mut line = String::new();
        for (cell, column) in row.iter().zip(widths) {
            let padding = column + 2 - width(cell);
            line += &format!("{cell}{:padding$}", "");
        }
        table += &format!("{}\n", line.trim_end());
    }
    table
}

/// Returns the number of terminal columns that a text takes: a Chinese character takes two.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Truncates a text that is wider than `max` columns.
pub fn cut(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.into();
    }
    let mut cut = String::new();
    let mut rest = max - 1;
    for character in text.chars() {
        let width = character.width().unwrap_or(0);
        if width > rest {
            break;
        }
        rest -= width;
        cut.push(character);
    }
    cut + "…"
}
