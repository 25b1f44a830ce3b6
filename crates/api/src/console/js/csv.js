// CSV, and cells that are pasted from a spreadsheet, as `petstore import` and `petstore
// export` read and write them.

import { el } from "./dom.js";

/** @import { Row } from "../types" */

/** Size limit of a cell: far more than an animal needs. */
const MAX_CELL = 65_536;

/** Reads the rows that are not empty. A spreadsheet separates cells that are copied from it by tabs. */
export function readRows(text = "", pasted = false) {
  const [sep, named] = text.match(/^\uFEFF?(?:sep=([\t -~]?).*\r?\n)?\uFEFF?/i) ?? [""];
  const [header] = text.slice(sep.length).split("\n", 1);
  const count = (mark = "") => header.split(mark).length;
  const likely = [";", "\t", ","].reduce((best, mark) => (count(mark) >= count(best) ? mark : best));
  const delimiter = named || (pasted && header.includes("\t") ? "\t" : likely);
  const quoted = /"([^"]*(?:""[^"]*)*)"/y;
  const plain = new RegExp(`[^\\r\\n\\x${delimiter.charCodeAt(0).toString(16).padStart(2, "0")}]*`, "y");
  const newline = /\r?\n|\r/y;
  let at = sep.length;
  /** @param {RegExp} pattern */
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  /** @type {Row[]} */
  const rows = [];
  for (let line = sep.includes("\n") ? 2 : 1; at < text.length;) {
    const start = at;
    const cells = [];
    do {
      const quote = text[at] === '"';
      const found = quote && take(quoted);
      if (quote && (!found || found[0].length > MAX_CELL)) throw new Error(`Line ${line}: a quote is not closed.`);
      cells.push((found ? found[1].replaceAll('""', '"') : "") + take(plain));
    } while (text[at] === delimiter && ++at);
    take(newline);
    if (cells.some((cell) => cell.trim())) rows.push({ line, cells });
    line += text.slice(start, at).match(/\r\n?|\n/g)?.length ?? 0;
  }
  return rows;
}

// What a spreadsheet takes for a formula, also behind apostrophes. It skips spaces, and
// quotes that are not around a whole cell; full-width forms are as good as the others.
const FORMULA = /^'*(?:(?![\t\r\n])["\p{White_Space}])*[=+\-@＝＋－＠\t\r\n]/u;

/** Neutralises formulas (CSV injection), also behind a semicolon. */
export const escapeFormula = (text = "") =>
  text.split(";").map((part) => (FORMULA.test(part) ? `'${part}` : part)).join(";");

export const unescapeFormula = (cell = "") =>
  cell.split(";").map((part) => (part[0] === "'" && FORMULA.test(part.slice(1)) ? part.slice(1) : part)).join(";");

/** Saves a file, with a byte order mark, without which spreadsheets do not expect UTF-8. @param {string[][]} rows */
export function saveCsv(name = "", rows) {
  const quoted = (cell = "") => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const lines = rows.map((cells) => `${cells.map(quoted).join(",")}\r\n`);
  const href = URL.createObjectURL(new Blob(["\uFEFF", ...lines], { type: "text/csv" }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
