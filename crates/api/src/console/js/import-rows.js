// The rows of a spreadsheet as animals to add, or what is wrong with them.

import { ApiError } from "./api.js";
import { sentenceOf } from "./app.js";
import { unescapeFormula } from "./csv.js";
import { stringify } from "./json.js";
import { animal, mergePatch, nest } from "./members.js";
import { fold } from "./names.js";
import { parsePrice } from "./typed-price.js";

/** @import { Columns, MoreColumns, PetRow, Row } from "../types" */

/** @type {Record<keyof Columns, string>} */
export const COLUMNS = { name: "Name", category: "Category name", categoryId: "Category number", status: "Status" };
const LIMIT = 2n ** 63n;

/** Case, blanks and punctuation of a header do not matter. */
const plain = (header = "") => header.replace(/[^a-z0-9]/gi, "").toLowerCase();

/** @param {string[]} header */
export function findColumns(header) {
  const names = header.map(plain);
  const columns = Object.keys(COLUMNS).map((column) => [column, names.indexOf(plain(column))]);
  return /** @type {Columns} */ (Object.fromEntries(columns));
}

/** The other members that the header names; keys of the metadata are taken as they are. @param {string[]} header */
export function findMore(header) {
  const known = new Map([...animal.names, "currency"].map((name) => [plain(name), name]));
  for (const name of ["metadata", ...Object.keys(COLUMNS)]) known.delete(plain(name));
  /** @type {MoreColumns} */
  const columns = {};
  for (const [at, cell] of header.entries()) {
    const key = cell.trim().match(/^metadata\.(.*)$/i)?.[1];
    const name = key === undefined ? known.get(plain(cell)) : `metadata.${key}`;
    if (name && name in columns) throw new Error(`More than one column is “${name}”.`);
    if (name) columns[name] = at;
  }
  return columns;
}

/** The other members of an animal. Free text is taken as it is. @param {string[]} cells @param {MoreColumns} more */
function readMore(cells, more) {
  const { price = "", currency = "", ...texts } = Object.fromEntries(
    Object.entries(more).map(([name, at]) => [name, cells[at] ?? ""]).filter(([, text]) => text.trim()));
  if (price && !currency) throw new ApiError(400, "", "price: The currency is missing.");
  const kinds = new Map(animal.members.map(([name, { kind }]) => [/** @type {string} */ (name), kind]));
  const values = Object.entries(texts).map(([name, text]) => {
    const kind = kinds.get(name);
    return [name, !kind || kind === "lines" ? unescapeFormula(text) : kind === "choice" ? text.trim().toLowerCase() : text.trim()];
  });
  return nest({ ...Object.fromEntries(values), price: parsePrice(price && `${price} ${currency.trim().toUpperCase()}`) });
}

/**
 * @param {Row} row
 * @param {Columns} columns
 * @param {MoreColumns} more
 * @param {Map<string, string>} ids the categories by folded name
 * @param {number} width the number of columns
 * @returns {PetRow}
 */
export function readPet({ line, cells }, columns, more, ids, width) {
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
  let pet = null;
  try {
    if (!problems.join("")) pet = mergePatch({ name, categoryId: BigInt(id), status: status || null, ...readMore(cells, more) }, {});
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    problems[0] = sentenceOf(error.message);
  }
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
