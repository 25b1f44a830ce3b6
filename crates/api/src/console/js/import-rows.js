// The rows of a spreadsheet as animals to add, or what is wrong with them.

import { ApiError } from "./api.js";
import { sentenceOf } from "./app.js";
import { unescapeFormula } from "./csv.js";
import { stringify } from "./json.js";
import { FIELDS, NO_VALUES, changes } from "./members.js";
import { fold } from "./names.js";

/** @import { Columns, MoreColumns, PetRow, Row, Values } from "../types" */

/** @type {Record<keyof Columns, string>} */
export const COLUMNS = { name: "Name", category: "Category name", categoryId: "Category number", status: "Status" };
const LIMIT = 2n ** 63n;

/** @param {string[]} header */
export function findColumns(header) {
  const names = header.map((cell) => cell.replace(/[^a-z0-9]/gi, "").toLowerCase());
  const columns = Object.keys(COLUMNS).map((column) => [column, names.indexOf(column.toLowerCase())]);
  return /** @type {Columns} */ (Object.fromEntries(columns));
}

/** The other members that the header names, in any case; keys of the metadata are as they are. @param {string[]} header */
export function findMore(header) {
  const known = new Map([...FIELDS, "currency"].map((name) => [name.toLowerCase(), name]));
  const found = header.map((cell, at) => {
    const [name, key] = [known.get(cell.trim().toLowerCase()), cell.trim().match(/^metadata\.([\w-]+)$/i)?.[1]];
    return [key ? `metadata.${key}` : (name ?? ""), at];
  });
  const rest = found.filter(([name]) => name && name !== "metadata" && !(name in COLUMNS));
  return /** @type {MoreColumns} */ (Object.fromEntries(rest.reverse()));
}

/** The other members of an animal. @param {string[]} cells @param {MoreColumns} more @returns {Partial<Values>} */
function readMore(cells, more) {
  const texts = Object.entries(more).map(([name, at]) => {
    const cell = unescapeFormula(cells[at] ?? "");
    return [name, ["description", "notes"].includes(name) ? cell : cell.trim()];
  });
  const { price = "", currency = "", ...values } = Object.fromEntries(texts);
  const pairs = texts.filter(([name, text]) => name.startsWith("metadata.") && text);
  if (price && !currency) throw new ApiError(400, "", "price: The currency is missing.");
  return {
    ...values,
    ...(values.sex && { sex: values.sex.toLowerCase() }),
    ...(price && { price: `${price} ${currency.toUpperCase()}` }),
    metadata: pairs.map(([name, text]) => `${name.slice("metadata.".length)}: ${text}`).join("\n"),
  };
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
    if (!problems.join("")) pet = changes({ ...NO_VALUES, ...readMore(cells, more), name, categoryId: String(BigInt(id)), status });
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
