// The header of a table: the row that names the columns, and the member of an animal that each column has.

import { simplify } from "./words.js";

/** @import { Header, Row, Sheet, Table, Words } from "../../types" */

/** The rows in which a header is looked for: titles and notes may be above. */
const SEARCHED_ROWS = 20;

/** The member that a heading stands for: by its own name, or by another word. @param {Words} words */
function memberOf(heading = "", words) {
  const key = heading.trim().match(/^metadata\.(.*)$/is)?.[1];
  if (key !== undefined) return { column: `metadata.${key}`, isOwn: true };
  const word = simplify(heading);
  if (!word) return { column: "", isOwn: false };
  const own = words.members.get(word);
  const flag = words.flags.get(word);
  const column = own ?? words.headings.get(word) ?? (flag ? `status=${flag}` : "");
  return { column, isOwn: own !== undefined };
}

/**
 * The columns that headings name. A member's own name wins over other words; of several other words that mean the same,
 * none is right for sure.
 * @param {string[]} headings
 * @param {Words} words
 */
function recognise(headings, words) {
  const found = headings.map((heading) => memberOf(heading, words));
  /** @type {Map<string, { at: number, isOwn: boolean }[]>} */
  const byMember = new Map();
  for (const [at, { column, isOwn }] of found.entries()) {
    const [member] = column.split("=");
    if (member) byMember.set(member, [...(byMember.get(member) ?? []), { at, isOwn }]);
  }
  const columns = headings.map(() => "");
  /** @type {{ member: string, headings: string[] }[]} */
  const conflicts = [];
  for (const [member, all] of byMember) {
    const own = all.filter(({ isOwn }) => isOwn);
    const [first, ...others] = own.length ? own : all;
    columns[first.at] = found[first.at].column;
    if (others.length) conflicts.push({ member, headings: [first, ...others].map(({ at }) => headings[at].trim()) });
  }
  return { columns, conflicts };
}

/** The header at a row. Cells that are merged with those below extend it. @param {Table} table */
function headerAt({ rows, merged }, at = 0) {
  const { line } = rows[at];
  const last = merged.reduce((last, [[, from], [, to]]) => (from === line && to > last ? to : last), line);
  let end = at + 1;
  while (end < rows.length && rows[end].line <= last) end++;
  const parts = rows.slice(at, end);
  const headings = Array.from({ length: Math.max(...parts.map(({ cells }) => cells.length)) }, (_, column) =>
    parts.map(({ cells }) => (cells[column] ?? "").trim()).findLast((text) => text) ?? "");
  return { end, headings };
}

/** @param {Table} table @param {Words} words @returns {Header} */
const readHeader = (table, at = 0, words) => {
  const header = headerAt(table, at);
  return { ...header, ...recognise(header.headings, words) };
};

/** Finds the first row that names the columns, if there is one. @param {Table} table @param {Words} words */
function findHeader(table, words) {
  const { length } = table.rows.slice(0, SEARCHED_ROWS);
  for (let at = 0; at < length; at++) {
    const header = readHeader(table, at, words);
    const has = (/** @type {string[]} */ ...names) => names.some((name) => header.columns.includes(name));
    if (has("name") && has("category", "categoryId")) return header;
  }
  return null;
}

/**
 * The first visible sheet that has a header, or else the first that is not empty; with its table.
 * @param {Sheet[]} sheets
 * @param {Words} words
 */
export async function firstTable(sheets, words) {
  let first = null;
  for (const sheet of sheets.filter(({ isHidden }) => !isHidden)) {
    const table = await sheet.rows();
    if (findHeader(table, words)) return { sheet, table };
    if (table.rows.length) first ??= { sheet, table };
  }
  return first;
}

/** True if a row that names these columns is a header. Words such as “sold” are also cells. @param {string[]} columns */
const isLikely = (columns) =>
  columns.filter(Boolean).length > 1 || columns.some((column) => ["name", "category", "categoryId", "id"].includes(column));

/** The likelihood that a row is the header: by the columns that it names. A title is one cell only. @param {Header} header */
const rankOf = ({ columns, headings }) => columns.filter(Boolean).length * 2 + (headings.filter(Boolean).length > 1 ? 1 : 0);

/**
 * The header, or what may be one: the row that names most columns. Without one, the columns are in the usual order.
 * @param {Table} table
 * @param {Words} words
 * @param {boolean} [isHeader] what a person says
 * @returns {Header}
 */
export function guessHeader(table, words, isHeader) {
  const found = isHeader === false ? null : findHeader(table, words);
  if (found) return found;
  const { length } = table.rows.slice(0, isHeader === false ? 1 : SEARCHED_ROWS);
  const candidates = Array.from({ length }, (_, at) => readHeader(table, at, words));
  const best = candidates.reduce((best, other) => (rankOf(other) > rankOf(best) ? other : best));
  if (isHeader ?? isLikely(best.columns)) return best;
  const width = candidates[0].headings.length;
  const columns = ["name", "category", "status"].slice(0, width);
  return { end: 0, headings: [], columns: [...columns, ...Array(width - columns.length).fill("")], conflicts: [] };
}

/** The rows behind the header. @param {Table} table @param {Header} header @returns {Row[]} */
export const rowsOf = ({ rows }, { end }) => rows.slice(end);
