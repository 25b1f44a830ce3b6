// Prices as they are typed.

import { parseNumber } from "./amount.js";
import { ApiError } from "./api.js";
import { el } from "./dom.js";
import { DIGITS, decimal, digitsOf } from "./price.js";

/** @import { Price } from "../types" */

const EURO = "AT BE BG CY DE EE ES FI FR GR HR IE IT LT LU LV MT NL PT SI SK".split(" ");
/** @type {Record<string, string>} */
const BY_REGION = { AU: "AUD", BR: "BRL", CA: "CAD", CH: "CHF", CN: "CNY", CZ: "CZK", DK: "DKK", GB: "GBP", IN: "INR",
  JP: "JPY", KR: "KRW", MX: "MXN", NO: "NOK", NZ: "NZD", PL: "PLN", SE: "SEK", SG: "SGD", TR: "TRY", ZA: "ZAR" };
/** In the smallest units of a currency. */
const MAX_AMOUNT = 1_000_000_000_000;
/** The currency that was used last on this device is kept under this name. */
const LAST = "petstore-currency";

/** "450.00 USD", as the fields have it; "" without a price. @param {Price | null} [price] */
export const typedPrice = (price) => (price ? `${decimal(price)} ${price.currency}` : "");

/** The amount and the currency of a typed price. */
const splitPrice = (typed = "") => [typed.slice(0, -4), typed.slice(-3)];

/** Reads an amount such as 450, 450,00, $1,450.00 or 1.450,00 €, as `petstore import` does. @returns {number | null} */
export function parseAmount(text = "", currency = "") {
  const digits = digitsOf(currency);
  const [, before = "", number, after = ""] = text.trim().match(/^(\D*)(\d(?:.*\d)?)[.,]?(\D*)$/s) ?? [];
  const sign = (before + after).trim();
  const isItsSign = /^\p{Sc}?$/u.test(sign) || sign.toUpperCase() === currency;
  const amount = number && isItsSign ? parseNumber(number) : null;
  // The comma of 1,450 may separate thousands.
  if (!amount || amount.fraction.length > digits || (amount.isAmbiguous && amount.mark === ",")) return null;
  return Number(amount.whole + amount.fraction.padEnd(digits, "0"));
}

/** A typed price as the API takes it. @returns {Price | null} */
export function parsePrice(typed = "") {
  const [text, currency] = splitPrice(typed);
  if (!text.trim()) return null;
  const amount = parseAmount(text, currency);
  if (amount === null) {
    throw new ApiError(400, "", `price: Must be an amount such as ${decimal({ amount: 145_000, currency })}, without thousands separators.`);
  }
  if (amount > MAX_AMOUNT) throw new ApiError(400, "", `price: Must be at most ${decimal({ amount: MAX_AMOUNT, currency })}.`);
  return { amount, currency };
}

let shopCurrency = "";
export const setShopCurrency = (code = "") => (shopCurrency = code);
export const currencyOfShop = () => shopCurrency;

/** The currency of the shop, the one that was used last on this device, or the one of the browser's region. */
export function usualCurrency() {
  const last = shopCurrency || localStorage.getItem(LAST) || "";
  // `navigator.language` may be no valid locale, such as en-US@posix.
  const region = new Intl.Locale(Intl.NumberFormat().resolvedOptions().locale).maximize().region ?? "";
  return DIGITS.has(last) ? last : EURO.includes(region) ? "EUR" : (BY_REGION[region] ?? "USD");
}

/** The fields of a price: its amount, and its currency. */
export function priceInputs() {
  const amount = el("input", { name: "price", inputmode: "decimal", autocomplete: "off", maxlength: 20 });
  const currency = el("select", { "aria-label": "Currency", onchange: () => localStorage.setItem(LAST, currency.value) },
    [...DIGITS.keys()].sort().map((code) => el("option", code)));
  currency.value = usualCurrency();
  return {
    element: el("div.price", amount, currency),
    amount,
    /** Shows the usual currency, unless there is a price already. */
    suggest() {
      if (!amount.value) currency.value = usualCurrency();
    },
    get value() {
      return amount.value.trim() && `${amount.value} ${currency.value}`;
    },
    set value(typed) {
      if (typed === this.value) return;
      const [text, code] = splitPrice(typed);
      amount.value = text;
      if (code) currency.value = code;
    },
  };
}
