// The rows of a spreadsheet as animals to add, or what is wrong with them.

import { unescapeFormula } from "./csv.js";
import { stringify } from "./json.js";
import { fold } from "./names.js";

/** @import { Columns, PetRow, Row } from "../types" */

/** @type {Record<keyof Columns, string>} */
export const COLUMNS = { name: "Name", category: "Category name", categoryId: "Category number", status: "Status" };
const LIMIT = 2n ** 63n;

/** @param {string[]} header */
export function findColumns(header) {
  const names = header.map((cell) => cell.replace(/[^a-z0-9]/gi, "").toLowerCase());
  const columns = Object.keys(COLUMNS).map((column) => [column, names.indexOf(column.toLowerCase())]);
  return /** @type {Columns} */ (Object.fromEntries(columns));
}

/**
 * @param {Row} row
 * @param {Columns} columns
 * @param {Map<string, string>} ids the categories by folded name
 * @param {number} width the number of columns
 * @returns {PetRow}
 */
export function readPet({ line, cells }, columns, ids, width) {
  const cell = (/** @type {keyof Columns} */ column) => cells[columns[column]] ?? "";
  const name = unescapeFormula(cell("name"));
  const category = unescapeFormula(cell("category"));
  const number = cell("categoryId").trim();
  const status = cell("status").trim().toLowerCase();
  const id = number || (ids.get(fold(category)) ?? ids.get(fold(category.trim())) ?? category.trim());
  const isId = /^[+-]?\d+$/.test(id) && BigInt(id) < LIMIT && BigInt(id) >= -LIMIT;
  const nameProblem = !/\P{White_Space}/u.test(name) ? "A name is missing."
    : /\p{Cc}/u.test(name) ? "No line breaks and control characters."
    : [...name].length > 255 ? "At most 255 characters."
    : cells.slice(width).some((cell) => cell.trim()) ? `More cells than the ${width} columns.` : "";
  const problems = [
    nameProblem,
    isId ? "" : number ? "Not a whole number of 64 bits." : id ? `No category is named “${id}”.` : "A category is missing.",
    ["", "available", "pending", "sold"].includes(status) ? "" : "Must be available, pending, sold or empty.",
  ];
  const pet = problems.join("") ? null : { name, categoryId: BigInt(id), ...(status && { status }) };
  return { line, cells, shown: [name, isId ? String(BigInt(id)) : number || category, status], problems, pet };
}

/** A hash for idempotency keys, which no one attacks. (`crypto.subtle` exists only over HTTPS.) */
function hash(text = "") {
  let [a, b] = [0x811c9dc5, 0x9e3779b9];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code ^ (b >>> 15), 0x85ebca6b);
  }
  return [a, b].map((half) => (half >>> 0).toString(16).padStart(8, "0")).join("");
}

/** The `Idempotency-Key` of each row: the same for the same file and animal. */
export function keysOf(text = "") {
  const file = hash(text);
  return (/** @type {PetRow} */ { line, pet }) => `import-${file}-${line}-${hash(stringify(pet))}`;
}
