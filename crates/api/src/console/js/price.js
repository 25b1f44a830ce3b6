// Prices: an amount in the smallest unit of a currency, as it is typed and as it is shown.

import { ApiError } from "./api.js";
import { el } from "./dom.js";

/** @import { Price } from "../types" */

/** The currencies that the service accepts, by the number of digits after the decimal point. */
const CODES = {
  2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC " +
    "CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES " +
    "KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR " +
    "NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT " +
    "TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
  3: "BHD IQD JOD KWD LYD OMR TND",
};
/** @type {Map<string, number>} The browser's own digits follow usage (none for AFN), not ISO 4217. */
export const DIGITS = new Map(Object.entries(CODES).flatMap(([digits, codes]) =>
  codes.split(" ").map((code) => /** @type {[string, number]} */ ([code, Number(digits)]))));
const EURO = "AT BE BG CY DE EE ES FI FR GR HR IE IT LT LU LV MT NL PT SI SK".split(" ");
/** @type {Record<string, string>} */
const BY_REGION = { AU: "AUD", BR: "BRL", CA: "CAD", CH: "CHF", CN: "CNY", CZ: "CZK", DK: "DKK", GB: "GBP", IN: "INR",
  JP: "JPY", KR: "KRW", MX: "MXN", NO: "NOK", NZ: "NZD", PL: "PLN", SE: "SEK", SG: "SGD", TR: "TRY", ZA: "ZAR" };
/** The currency that was used last on this device is kept under this name. */
const LAST = "petstore-currency";

const digitsOf = (currency = "") => DIGITS.get(currency) ?? 2;

/** "$450.00", as the browser writes prices. @param {Price} price */
export function formatPrice({ amount, currency }) {
  const digits = digitsOf(currency);
  const format = { style: /** @type {const} */ ("currency"), currency, minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(undefined, format).format(amount / 10 ** digits);
}

/** "450.00". @param {Price} price */
export const decimal = ({ amount, currency }) => (amount / 10 ** digitsOf(currency)).toFixed(digitsOf(currency));

/** "450.00 USD", as the fields have it; "" without a price. @param {Price | null} [price] */
export const typedPrice = (price) => (price ? `${decimal(price)} ${price.currency}` : "");

/** The amount and the currency of a typed price. */
export const splitPrice = (typed = "") => [typed.slice(0, -4), typed.slice(-3)];

/** Reads an amount such as 450, 450.00 or 450,00, as `petstore import` does. @returns {number | null} */
export function parseAmount(text = "", currency = "") {
  const digits = digitsOf(currency);
  const [, whole, mark, fraction = ""] = text.trim().match(/^(\d+)(?:([.,])(\d*))?$/) ?? [];
  // The comma of 1,450 may separate thousands.
  const isAmbiguous = mark === "," && fraction.length === 3;
  return whole && fraction.length <= digits && !isAmbiguous ? Number(whole + fraction.padEnd(digits, "0")) : null;
}

/** A typed price as the API takes it. @returns {Price | null} */
export function parsePrice(typed = "") {
  const [text, currency] = splitPrice(typed);
  if (!text.trim()) return null;
  const amount = parseAmount(text, currency);
  if (amount === null) {
    throw new ApiError(400, "", `price: Must be an amount such as ${decimal({ amount: 145_000, currency })}, without thousands separators.`);
  }
  return { amount, currency };
}

/** The currency that was used last on this device, or the one of the browser's region. */
function usualCurrency() {
  const last = localStorage.getItem(LAST) ?? "";
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
