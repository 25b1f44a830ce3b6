// The dates of a table, as people write them in different countries. `petstore import` reads them in the same way.

import { animal } from "../members.js";

/** @import { DateColumn, DateOrder, Mapping, Row } from "../../types" */

const YEAR_FIRST = /^(\d{4})([./-])(\d{1,2})\2(\d{1,2})$/;
const YEAR_LAST = /^(\d{1,2})([./-])(\d{1,2})\2(\d{4})$/;

/** A date that cannot be read for sure. */
export class DateError extends Error {}

const isoOf = (year = "", month = "", day = "") => `${year}-${month.padStart(2, "0")}-${day.padStart(2, "0")}`;

/**
 * The orders that a date with the year at its end can have, each with the date; null if it is none. With points, the
 * day is first. Days that a month does not have are not excluded here.
 * @returns {Partial<Record<DateOrder, string>> | null}
 */
function ordersOf(text = "") {
  const [, first, mark, second, year] = text.match(YEAR_LAST) ?? [];
  if (!year) return null;
  const isPossible = (/** @type {string} */ day, /** @type {string} */ month) => Number(day) >= 1 && Number(day) <= 31 && Number(month) >= 1 && Number(month) <= 12;
  return {
    ...(isPossible(first, second) && { dmy: isoOf(year, second, first) }),
    ...(mark !== "." && isPossible(second, first) && { mdy: isoOf(year, first, second) }),
  };
}

/** The date in a cell as YYYY-MM-DD, which may not exist; "" if there is none. @param {DateColumn} [column] */
export function readDate(text = "", column = {}) {
  const [, year, , month, day] = text.match(YEAR_FIRST) ?? [];
  if (year) return isoOf(year, month, day);
  const { dmy = "", mdy = "" } = ordersOf(text) ?? {};
  if (!dmy || !mdy || dmy === mdy) return dmy || mdy;
  if (column.order) return column.order === "dmy" ? dmy : mdy;
  throw new DateError(`Dates such as “${column.ambiguous ?? text}” may have the day or the month first, and no other date of the column tells. Choose which, in the step before.`);
}

/** The order that the cells of a column have, if they tell and agree, and the first cell that may have either. @param {string[]} cells @returns {DateColumn} */
function columnOf(cells) {
  /** @type {Set<DateOrder>} */
  const orders = new Set();
  let ambiguous;
  for (const cell of cells) {
    const text = cell.trim();
    if (!/[/-]\d{4}$/.test(text)) continue;
    const { dmy, mdy } = ordersOf(text) ?? {};
    if (dmy && mdy) ambiguous ??= dmy === mdy ? undefined : text;
    else if (dmy || mdy) orders.add(dmy ? "dmy" : "mdy");
  }
  const [order] = orders;
  return { order: orders.size === 1 ? order : undefined, ambiguous };
}

/** The columns of dates, by member: each has its own order, or else the one that the person has chosen. @param {Row[]} rows @param {Mapping} mapping */
export function dateColumnsOf(rows, { columns, dateOrder }) {
  /** @type {Map<string, DateColumn>} */
  const all = new Map();
  for (const [name, { kind }] of animal.members) {
    const at = columns.indexOf(name);
    if (at < 0 || (kind !== "birth" && kind !== "date")) continue;
    const { order, ambiguous } = columnOf(rows.map(({ cells }) => cells[at] ?? ""));
    all.set(name, { order: order ?? dateOrder, ambiguous });
  }
  return all;
}

/** The columns whose dates may have either order, unless the person chooses one. @param {Row[]} rows @param {Mapping} mapping */
export const ambiguousDates = (rows, mapping) =>
  [...dateColumnsOf(rows, { ...mapping, dateOrder: undefined })].filter(([, { order, ambiguous }]) => !order && ambiguous);
