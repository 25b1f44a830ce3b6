// Saves the groups of a report as CSV, with the names of the API.

import { load } from "../app.js";
import { loadEscape, saveCsv } from "../csv.js";
import { decimal } from "../price.js";
import { totalOf } from "./money.js";

/** @import { Days, Sales, SalesGroup, SalesTotal } from "../../types" */

const COLUMNS = ["currency", "sold", "returned", "soldAmount", "returnedAmount", "amount"];

/** @param {SalesTotal} total */
function cellsOf({ currency = "", sold, returned, soldAmount, returnedAmount, amount }) {
  const price = (/** @type {unknown} */ amount) => (currency ? decimal({ amount: Number(amount), currency }) : "");
  return [currency, String(sold), String(returned), price(soldAmount), price(returnedAmount), price(amount)];
}

/**
 * With `starts`, also the days, weeks or months without a sale.
 * @param {Sales} sales
 * @param {{ by: string, days: Days, starts?: string[], nameOf(group: SalesGroup): string }} options
 */
export async function saveSales({ groups, totals }, { by, days, starts, nameOf }) {
  const escape = await load(loadEscape());
  const byStart = new Map(groups.map((group) => [group.start, group]));
  const rows = starts
    ? starts.flatMap((start) => totals.map(({ currency }) => [start, ...cellsOf(totalOf(byStart.get(start) ?? { totals: [] }, currency))]))
    : groups.flatMap((group) => group.totals.map((total) =>
      [String(group.categoryId ?? group.keyId ?? ""), escape(nameOf(group)), ...cellsOf(total)]));
  const heads = starts ? [by] : [by === "category" ? "categoryId" : "keyId", by];
  saveCsv(`sales-by-${by}-${days.from}-${days.to}.csv`, [[...heads, ...COLUMNS], ...rows]);
}
