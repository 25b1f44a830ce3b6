//! Tables of text.

use super::escape_for_terminal;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Formats a table with aligned columns.
pub fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows = rows.map(|row| row.map(|cell| escape_for_terminal(&cell)));
    let rows: Vec<_> = [header.map(String::from)].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| width(&row[column])).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut table = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells.map(|(cell, width)| pad(cell, width)).collect();
        table += &format!("{}\n", cells.join("  ").trim_end());
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

fn pad(cell: &str, columns: usize) -> String {
    let padding = columns.saturating_sub(width(cell));
    format!("{cell}{}", " ".repeat(padding))
}
