// The prices of a table: amounts as people and spreadsheets write them, and their currencies. `petstore import` reads
// them in the same way.

import { parseNumber } from "../amount.js";
import { DIGITS, digitsOf } from "../price.js";

/** @import { Mapping, Row, Words } from "../../types" */

/** The currencies that a sign beside an amount may stand for. @param {Words} words */
function currenciesOf(sign = "", words) {
  const code = sign.toUpperCase();
  return DIGITS.has(code) ? [code] : words.signs.get(sign.toLowerCase());
}

/**
 * The amount in a cell, and the currencies that a sign in front of it or behind it may stand for.
 * @param {Words} words
 * @returns {{ amount: string, currencies?: string[] } | null}
 */
function split(cell = "", words) {
  const [, before, amount, after] = cell.match(/^(\D*)(\d(?:.*\d)?)(\D*)$/s) ?? [];
  if (!amount) return null;
  const signs = [before, after].map((sign) => sign.trim()).filter(Boolean);
  if (!signs.length) return { amount };
  const currencies = signs.length === 1 ? currenciesOf(signs[0], words) : undefined;
  return currencies ? { amount, currencies } : null;
}

/** The fault of a price. */
export class PriceError extends Error {}

/** The currency of a price: that of its row, of its sign, or of the table. @param {Mapping} mapping */
function currencyOf(text = "", code = "", mapping) {
  const { currencies } = split(text, mapping.words) ?? {};
  const named = code.trim().toUpperCase();
  if (named && !DIGITS.has(named)) throw new PriceError(`“${named}” is not the code of a currency, such as EUR.`);
  if (named && currencies && !currencies.includes(named)) throw new PriceError(`“${text.trim()}” is not in ${named}, the currency of the row.`);
  if (named) return named;
  if (currencies?.length === 1) return currencies[0];
  if (!mapping.currency) throw new PriceError("The currency is missing.");
  if (currencies && !currencies.includes(mapping.currency)) throw new PriceError(`“${text.trim()}” may be in several currencies. Choose which one.`);
  return mapping.currency;
}

/** Reads a price; `amount` is null if it is none. @param {Mapping} mapping */
export function readPrice(text = "", code = "", mapping) {
  const currency = currencyOf(text, code, mapping);
  const digits = digitsOf(currency);
  const found = parseNumber(split(text, mapping.words)?.amount ?? "x", mapping.isSheet ?? false);
  if (!found) return { amount: null, currency };
  let { whole, fraction } = found;
  const { mark, isAmbiguous } = found;
  if (isAmbiguous && (mapping.decimalMark ? mapping.decimalMark !== mark : digits === 0)) [whole, fraction] = [whole + fraction, ""];
  else if (isAmbiguous && !mapping.decimalMark && !(digits === 3 && mark === ".")) {
    throw new PriceError(`“${text.trim()}” may be ${whole}${fraction} or ${whole}.${fraction}, and no other price tells. Write it without a mark between thousands.`);
  }
  return { amount: fraction.length <= digits ? Number(whole + fraction.padEnd(digits, "0")) : null, currency };
}

/** The decimal mark of the prices of a table, if they have one that cannot be anything else, and always the same. @param {Row[]} rows @param {Mapping} mapping */
export function decimalMarkOf(rows, { columns, words, isSheet = false }) {
  const at = columns.indexOf("price");
  if (at < 0) return "";
  const marks = new Set();
  for (const { cells } of rows) {
    const found = parseNumber(split(cells[at], words)?.amount ?? "x", isSheet);
    if (found?.mark && !found.isAmbiguous) marks.add(found.mark);
  }
  const [first = ""] = marks;
  return marks.size === 1 ? first : "";
}
