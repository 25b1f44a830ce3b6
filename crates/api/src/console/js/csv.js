// CSV as `petstore export` writes it.

import { el } from "./dom.js";

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
