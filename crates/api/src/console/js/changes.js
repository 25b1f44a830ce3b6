// A change of an animal or an order in words, and the values before and after it.

import { el } from "./dom.js";
import { capitalized, groupDigits } from "./format.js";
import { stringify } from "./json.js";
import { animal, sale, valueAt } from "./members.js";
import { names } from "./names.js";
import { photoChange } from "./photos/words.js";
import { formatPrice } from "./price.js";
import { dateOf } from "./times.js";
import { statusWord } from "./words.js";

/** @import { Child, Member, StoreEvent } from "../types" */

/** The longest text that is shown of a description or of notes. */
const MAX_TEXT = 80;
/** The longest text that is emphasized. */
const MAX_BOLD = 50;

/** @type {Record<string, string>} */
const HEADLINES = {
  "pet.created": "Added",
  "pet.deleted": "Deleted",
  "order.placed": "Reserved",
  "order.updated": "Sale corrected",
  "order.completed": "Sold",
  "order.cancelled": "Reservation cancelled",
  "order.returned": "Returned",
};

/** @type {Record<string, (value: any) => string>} */
const SHOWN = {
  id: (id) => names.category(id),
  birth: dateOf,
  date: dateOf,
  chip: groupDigits,
  price: formatPrice,
  lines: (text) => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text),
};

/** Describes an event: the change, the person, and the price. @param {StoreEvent} event @param {string} href of the order, if it is not shown anyway */
export function headline({ type, subject, data, before, keyid }, href = "") {
  const isExpired = !keyid && type === "order.cancelled";
  const status = type === "pet.updated" && before && before.status !== data.status ? statusWord(before.status, data.status) : "";
  const what = HEADLINES[type] ?? (status ? status[0].toUpperCase() + status.slice(1) : "Changed");
  const price = /placed|completed/.test(type) && data.price && ` for ${formatPrice(data.price)}`;
  return el("span", el("span", isExpired ? "Reservation expired" : `${what} by ${names.who(keyid)}`, price),
    type.startsWith("order.") && href && [" · ", el("a", { href }, `order ${subject.slice("orders/".length)}`)]);
}

/** The members that have changed, each with its values before and after. @param {StoreEvent} event */
export function changesOf({ type, data, before }) {
  if (!type.endsWith(".updated") || !before) return [];
  const record = type === "pet.updated" ? animal : sale;
  const rows = record.members.flatMap(([path, member]) => rowsOf(path, member, before, data));
  const pictures = photoChange(before, data);
  if (pictures) rows.push(el("div", capitalized(pictures)));
  // Events do not have the buyer.
  return rows.length || type !== "order.updated" ? rows : [el("div", "The buyer was changed or erased.")];
}

/** @param {string} path @param {Member} member @param {any} before @param {any} after @returns {HTMLElement[]} */
function rowsOf(path, { label, kind }, before, after) {
  if (path === "status") return [];
  const [then, now] = [before, after].map((resource) => valueAt(resource, path));
  if (kind === "pairs") {
    const keys = [...new Set([then, now].flatMap((pairs) => Object.keys(pairs ?? {})))].sort();
    return keys.flatMap((key) => row(key, ...(/** @type {[any, any]} */ ([then, now].map((pairs) => pairs && Object.hasOwn(pairs, key) ? pairs[key] : undefined)))));
  }
  return row(label, then, now, SHOWN[kind ?? ""]);
}

/** @param {string} label @param {any} then @param {any} now @param {(value: any) => string} show @returns {HTMLElement[]} */
function row(label, then, now, show = String) {
  if (stringify([then]) === stringify([now])) return [];
  const [old, current] = [then, now].map((value) => (value === undefined ? "" : show(value)));
  const short = current.length > MAX_BOLD ? current : el("b", current);
  /** @type {Child[]} */
  const values = !old ? [" set to ", short] : !current ? [` removed: ${old}`] : [` ${old} → `, short];
  return [el("div", el("span.muted", label), ...values)];
}
