// The table of a register.

import { localDay } from "../days.js";
import { el, pill } from "../dom.js";
import { groupDigits } from "../format.js";
import { formatPrice } from "../price.js";
import { categoryName } from "./names.js";

/** @import { Child, RegisterEntry } from "../../types" */

const date = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });
/** "2 Aug 2026". */
const short = (day = "") => date.format(new Date(day));
const dayOf = (time = "") => short(localDay(time));

/** @param {...(Child)} lines */
const lines = (...lines) => lines.filter(Boolean).map((line) => el("div", line));

/** @param {RegisterEntry} entry */
const animalCell = ({ petId, name, categoryId, breed, deletedAt }) => el("td.main",
  !name ? el("b", "Animal") : el("a", { href: `#/animals/${petId}` }, name), el("small.muted", ` no. ${petId}`),
  lines(name ? el("small", [categoryName({ categoryId }), breed].filter(Boolean).join(", ")) : el("small.muted", "Deleted long ago"),
    deletedAt && pill("failed", `Deleted ${dayOf(deletedAt)}`)));

/** @param {RegisterEntry} entry */
const descriptionCell = ({ name, sex, birthDate, color, microchip }) => el("td",
  name && lines([sex, color].filter(Boolean).join(", "), birthDate && `Born ${short(birthDate)}`,
    microchip ? el("span.chip-number", groupDigits(microchip)) : el("span.muted", "No chip")));

/** @param {RegisterEntry} entry */
const sourceCell = ({ source, acquiredOn }, kind = "") => el("td", { "data-label": "From" },
  lines(source?.name ?? el("span.muted", "Not recorded"), source?.address && el("small.lines", source.address), source?.licence && el("small", `Licence ${source.licence}`),
    kind === "sold" && acquiredOn && el("small.muted", `Acquired ${short(acquiredOn)}`)));

/** @param {RegisterEntry} entry */
function buyerCell({ sale }, kind = "") {
  if (!sale) return el("td.unsold", el("span.muted", "Not sold"));
  const { orderId, soldAt, buyer, reference, returnedAt } = sale;
  return el("td", { "data-label": "To" }, lines(buyer?.name ?? el("span.muted", "Not recorded"), buyer?.address && el("small.lines", buyer.address),
    el("small.muted", el("a", { href: `#/orders/${orderId}` }, kind === "sold" ? `Order ${orderId}` : `Sold ${dayOf(soldAt)}`), reference && `, ${reference}`),
    returnedAt && pill("warn", `Returned ${dayOf(returnedAt)}`)));
}

/** @typedef {"acquired" | "sold"} Kind */

/** @param {Kind} kind @param {RegisterEntry[]} entries */
export function registerTable(kind, entries) {
  const row = (/** @type {RegisterEntry} */ entry) => {
    const { acquiredOn = "", sale } = entry;
    const day = kind === "sold" ? localDay(sale?.soldAt) : acquiredOn;
    return el("tr", el("td.date", el("time", { datetime: day }, short(day))), animalCell(entry), descriptionCell(entry), sourceCell(entry, kind), buyerCell(entry, kind),
      el("td.amount", { "data-label": "Price" }, sale?.price && el("div", formatPrice(sale.price))));
  };
  const heads = ["Animal", "Description", "Acquired from", kind === "sold" ? "Buyer" : "Sold to"];
  return el("table.entries", el("thead", el("tr", el("th", "Date"), heads.map((head) => el("th", head)), el("th.amount", "Price"))),
    el("tbody", entries.map(row)));
}
