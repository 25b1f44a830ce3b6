// The rows of a table as members of animals, or what is wrong with them. Nothing here depends on the store.

import { unescapeAndTrim, unescapeText } from "../csv.js";
import { animal } from "../members.js";
import { chipOf } from "../microchip.js";
import { decimal } from "../price.js";
import { DateError, readDate } from "./dates.js";
import { PriceError, readPrice } from "./prices.js";
import { simplify } from "./words.js";

/** @import { DateColumn, ImportRecord, Mapping, Member, Row } from "../../types" */

const LIMIT = 2n ** 63n;
const MAX_AMOUNT = 1_000_000_000_000;
const MAX_PAIRS = 20;
const KEY = /^metadata\.[\w-]{1,40}$/;
/** The dates that the service accepts; it may be tomorrow already somewhere else. */
const EARLIEST = "1900-01-01";
const latest = () => new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);

/** @type {Map<string, Member>} */
const MEMBERS = new Map(animal.members);
/** Members in which blanks around the text are removed. */
const TRIMMED = ["name", "breed"];

/** The name of a column for a person. */
export function columnLabel(column = "") {
  if (column === "id") return "Animal number";
  if (column === "category") return "Category";
  if (column === "categoryId") return "Category number";
  if (column === "currency") return "Currency";
  if (column.startsWith("metadata.")) return `Other detail: ${column.slice("metadata.".length)}`;
  if (column.startsWith("status=")) return column === "status=sold" ? "Sold?" : "Reserved?";
  return MEMBERS.get(column)?.label ?? column;
}

/** Whole numbers that the store has for categories. */
export const isInt64 = (text = "") => /^[+-]?\d{1,19}$/.test(text) && BigInt(text) < LIMIT && BigInt(text) >= -LIMIT;

/** A problem of a cell: its message names the column already. */
class CellError extends Error {}

/** @param {DateColumn} [column] */
const dateOf = (text = "", column) => {
  const date = readDate(text, column);
  const isDate = date && new Date(`${date}T00:00Z`).toJSON()?.startsWith(date);
  if (isDate && date >= EARLIEST && date <= latest()) return date;
  throw new CellError(`“${text}” must be a date from ${EARLIEST} to ${latest()}, such as 2025-12-31 or 31.12.2025.`);
};

const textOf = (text = "", max = 100, hasLines = false) => {
  const { length } = [...text];
  if (length > max) throw new CellError(`Must have at most ${max} characters, and has ${length}.`);
  const control = text.match(hasLines ? /(?![\t\n\r])\p{Cc}/u : /\p{Cc}/u);
  if (control) throw new CellError("Must not have line breaks and control characters.");
  return text;
};

const readChip = (text = "") => {
  const chip = chipOf(text);
  if (chip) return chip;
  throw new CellError(`“${text.trim()}” must be 9, 10 or 15 digits.`);
};

/** @param {Mapping} mapping */
function priceOf(text = "", code = "", mapping) {
  const { amount, currency } = readPrice(text, code, mapping);
  if (amount === null || amount > MAX_AMOUNT) {
    throw new CellError(`“${text.trim()}” must be an amount such as ${decimal({ amount: 145_000, currency })}.`);
  }
  return { amount, currency };
}

/**
 * A choice by its word in any language, or by what the person has chosen for it.
 * @param {string} text
 * @param {"status" | "sex"} name
 * @param {Mapping} mapping
 */
function choiceOf(text, name, mapping) {
  const word = simplify(text);
  const value = mapping.values[name]?.get(word) ?? mapping.words[name].get(word);
  if (value !== undefined) return value || null;
  const choices = Object.keys(MEMBERS.get(name)?.choices ?? {}).filter(Boolean);
  throw new CellError(`“${text.trim()}” must be ${choices.join(", ")} or empty.`);
}

/** A status in yes and no. @param {Mapping} mapping */
function flagOf(text = "", status = "", mapping) {
  const word = simplify(text);
  const answer = mapping.values.status?.has(word) ? undefined : mapping.words.flag.get(word);
  return answer === "yes" ? status : answer === "no" ? "available" : choiceOf(text, "status", mapping);
}

/** A category by its number, its name or both. @param {string} number @param {string} name @param {Mapping} mapping */
function categoryOf(number, name, { words }) {
  const digits = number.trim();
  const text = unescapeAndTrim(name, words.errors);
  if (digits && !isInt64(digits)) throw new CellError(`“${digits}” is not a whole number of 64 bits.`);
  if (!digits && !text) throw new CellError("A category is missing.");
  return { ...(digits && { id: String(BigInt(digits)) }), ...(text && { name: text }) };
}

function idOf(text = "") {
  const id = Number(text.trim());
  if (/^\d+$/.test(text.trim()) && Number.isSafeInteger(id) && id > 0) return id;
  throw new CellError(`“${text.trim()}” is not the number of an animal.`);
}

/** The value of a member. @param {Mapping} mapping @param {(column: string) => string} cell */
function valueOf(column = "", text = "", mapping, cell) {
  if (column.startsWith("status=")) return flagOf(text, column.slice("status=".length), mapping);
  if (column === "status" || column === "sex") return choiceOf(text, column, mapping);
  if (column.startsWith("metadata.")) {
    if (KEY.test(column)) return textOf(unescapeText(text, mapping.words.errors), 500);
    throw new CellError("Its name must be 1 to 40 letters (A to Z), digits, hyphens or underscores.");
  }
  const { kind, max } = MEMBERS.get(column) ?? {};
  if (kind === "price") return priceOf(text, cell("currency"), mapping);
  if (kind === "chip") return readChip(text);
  if (kind === "birth" || kind === "date") return dateOf(text.trim(), mapping.dates?.get(column));
  const read = TRIMMED.includes(column) ? unescapeAndTrim : unescapeText;
  return textOf(read(text, mapping.words.errors), kind === "lines" ? 2000 : max, kind === "lines");
}

/**
 * Reads a row. Members are by their path, such as `source.name`, and null if their cell is blank.
 * @param {Row} row
 * @param {Mapping} mapping
 * @returns {ImportRecord}
 */
export function readRecord({ line, cells }, mapping) {
  const { columns, words } = mapping;
  const cell = (column = "") => cells[columns.indexOf(column)] ?? "";
  /** @type {ImportRecord} */
  const record = { line, cells, members: Object.create(null), problems: Object.create(null) };
  /** @template T @param {string} column @param {() => T} read */
  const attempt = (column, read) => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof CellError || error instanceof DateError || error instanceof PriceError)) throw error;
      record.problems[column] = error.message;
    }
  };
  for (const [at, column] of columns.entries()) {
    const text = cells[at] ?? "";
    if (!column) continue;
    if (words.errors.has(text.trim())) record.problems[column] = `The cell is the error ${text.trim()}. Correct it in the spreadsheet.`;
    else if (column === "id") record.id = text.trim() ? attempt(column, () => idOf(text)) : undefined;
    else if (!["category", "categoryId", "currency"].includes(column)) {
      const member = column.split("=")[0];
      const value = text.trim() ? attempt(column, () => valueOf(column, text, mapping, cell)) : null;
      if (!record.problems[column]) record.members[member] = value ?? (member === "status" && mapping.defaultStatus || null);
    }
  }
  const number = cell("categoryId");
  const name = cell("category");
  const hasCategory = columns.includes("category") || columns.includes("categoryId");
  if (hasCategory && !record.problems.category && !record.problems.categoryId) {
    record.category = attempt(columns.includes("category") ? "category" : "categoryId", () => categoryOf(number, name, mapping));
  }
  checkWhole(record, mapping);
  return record;
}

/** Adds the problems of a row as a whole. @param {ImportRecord} record @param {Mapping} mapping */
function checkWhole({ cells, members, problems }, { columns, width }) {
  if (columns.includes("name") && members.name === null) problems.name = "A name is missing.";
  if (columns.includes("source.name") && members["source.name"] === null && (members["source.address"] || members["source.licence"])) {
    problems["source.name"] = "A name is missing, for the address or the licence.";
  }
  const pairs = Object.keys(members).filter((name) => name.startsWith("metadata.") && members[name] !== null);
  if (pairs.length > MAX_PAIRS) problems[pairs[0]] = `There must be at most ${MAX_PAIRS} other details.`;
  if (cells.slice(width).some((cell) => cell.trim())) problems[""] = `The row has more cells than the ${width} columns.`;
}
