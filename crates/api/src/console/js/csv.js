// CSV as `petstore export` writes it.

import { el } from "./dom.js";
import { loadWords } from "./import/words.js";

/** @import { Escape } from "../types" */

// The characters that a spreadsheet skips in front of a formula: spaces, and quotes that are not around a whole cell. A text that looks
// escaped gets one more apostrophe.
const SKIPPED = /^'*(?:(?![\t\r\n])["\p{White_Space}])*/u;
/** The characters with which a formula begins. Full-width forms are as good as the others. */
const TRIGGER = /^[=+\-@＝＋－＠\t\r\n]/;
/** @type {ReadonlySet<string>} */
const NO_ERRORS = new Set();

/** Returns true if a text is a formula, or an error of a spreadsheet such as `#N/A`. */
function isSpecial(text = "", errors = NO_ERRORS) {
  const rest = text.replace(SKIPPED, "");
  return TRIGGER.test(rest) || errors.has(rest.trim());
}

const hasOuterBlanks = (text = "") => /^'*\p{White_Space}|\p{White_Space}$/u.test(text);

/** Neutralises formulas (CSV injection) in a cell of another file, which stays as it is otherwise; also behind a semicolon. */
export const escapeFormula = (cell = "") => cell.split(";").map((part) => (isSpecial(part) ? `'${part}` : part)).join(";");

/** Does so with a text of the store, and keeps it from being taken for an error, and the blanks around it. */
export const escapeText = (text = "", errors = NO_ERRORS) =>
  text.split(";").map((part, at) => (isSpecial(part, errors) || (at === 0 && hasOuterBlanks(text)) ? `'${part}` : part)).join(";");

/** The function that escapes texts of the store as `petstore export` does. @returns {Promise<Escape>} */
export async function loadEscape() {
  const { errors } = await loadWords();
  return (text) => escapeText(text, errors);
}

/** Reverts it. An apostrophe that is not in front of something special is kept. */
export const unescapeText = (cell = "", errors = NO_ERRORS) => cell.split(";").map((part, at) => {
  const isEscaped = part[0] === "'" && (isSpecial(part.slice(1), errors) || (at === 0 && hasOuterBlanks(cell.slice(1))));
  return isEscaped ? part.slice(1) : part;
}).join(";");

/** Does so, and removes the blanks around a text, which people rarely intend, unless they were exported. */
export function unescapeAndTrim(cell = "", errors = NO_ERRORS) {
  const text = unescapeText(cell, errors);
  return text === cell ? text.trim() : text;
}

/** Saves a file, with a byte order mark, without which spreadsheets do not expect UTF-8. @param {string[][]} rows */
export function saveCsv(name = "", rows) {
  const quoted = (cell = "") => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const lines = rows.map((cells) => `${cells.map(quoted).join(",")}\r\n`);
  const href = URL.createObjectURL(new Blob(["\uFEFF", ...lines], { type: "text/csv" }));
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}
