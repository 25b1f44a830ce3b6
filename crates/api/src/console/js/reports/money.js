// Totals of sales: in a currency, or of animals that were sold without a price.

import { count, plural } from "../format.js";
import { digitsOf, formatPrice } from "../price.js";

/** @import { SalesGroup, SalesTotal } from "../../types" */

/** Sales without a price are compared by their number. @param {SalesTotal} total */
export const valueOf = ({ currency, amount, sold, returned }) => (currency ? Number(amount) : sold - returned);

/** @param {SalesGroup} group @returns {SalesTotal} */
export const totalOf = ({ totals }, currency = "") =>
  totals.find((total) => (total.currency ?? "") === currency) ?? { currency, sold: 0, returned: 0, soldAmount: 0, returnedAmount: 0, amount: 0 };

/** "$450.00", or "3 animals". */
export const formatValue = (value = 0, currency = "") => (currency ? formatPrice({ amount: value, currency }) : plural(value, "animal"));

/** "3 sold, 1 returned". @param {SalesTotal} total */
export const soldText = ({ sold, returned }) => `${count(sold)} sold${returned ? `, ${count(returned)} returned` : ""}`;

/** As short as an axis needs it: "$200", "$12K". @param {number[]} ticks @returns {string[]} */
export function formatTicks(ticks, currency = "") {
  const divisor = currency ? 10 ** digitsOf(currency) : 1;
  const values = ticks.map((tick) => tick / divisor);
  const isShort = values.some((value) => Math.abs(value) >= 10_000);
  const digits = values.every(Number.isInteger) ? 0 : digitsOf(currency);
  const format = new Intl.NumberFormat(undefined, {
    ...(currency && { style: "currency", currency }),
    ...(isShort ? { notation: "compact", minimumFractionDigits: 0, maximumFractionDigits: 1 } : { minimumFractionDigits: digits, maximumFractionDigits: digits }),
  });
  return values.map((value) => format.format(value));
}
