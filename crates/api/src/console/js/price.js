// Prices as they are shown: an amount in the smallest unit of a currency.

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

export const digitsOf = (currency = "") => DIGITS.get(currency) ?? 2;

/** "$450.00", as the browser writes prices. @param {Price} price */
export function formatPrice({ amount, currency }) {
  const digits = digitsOf(currency);
  const format = { style: /** @type {const} */ ("currency"), currency, minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(undefined, format).format(amount / 10 ** digits);
}

/** "450.00". @param {Price} price */
export const decimal = ({ amount, currency }) => (amount / 10 ** digitsOf(currency)).toFixed(digitsOf(currency));
