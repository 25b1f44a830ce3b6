// Saves orders as CSV.

import { get } from "./api.js";
import { load } from "./app.js";
import { loadEscape, saveCsv } from "./csv.js";
import { count } from "./format.js";
import { names } from "./names.js";
import { decimal } from "./price.js";

/** @import { Escape, Order, Result } from "../types" */

/** @type {Record<string, (order: Order, escape: Escape) => string | undefined>} */
const COLUMNS = {
  id: ({ id }) => String(id),
  status: ({ status }) => status,
  petId: ({ petId }) => String(petId),
  animal: ({ petId }, escape) => escape(names.pets.get(petId) ?? ""),
  price: ({ price }) => price && decimal(price),
  currency: ({ price }) => price?.currency,
  "buyer.name": ({ buyer }, escape) => escape(buyer?.name),
  "buyer.contact": ({ buyer }, escape) => escape(buyer?.contact),
  "buyer.address": ({ buyer }, escape) => escape(buyer?.address),
  reference: ({ reference }, escape) => escape(reference),
  createdAt: ({ createdAt }) => createdAt,
  updatedAt: ({ updatedAt }) => updatedAt,
};

/** @param {Order[] | string} orders the orders, or their list @param {(text: string) => void} progress */
export async function exportOrders(orders, progress) {
  const escape = await load(loadEscape());
  const all = typeof orders === "string" ? await loadAll(orders, progress) : orders;
  await names.load([], all.map(({ petId }) => petId));
  saveCsv("orders.csv", [Object.keys(COLUMNS), ...all.map((order) => Object.values(COLUMNS).map((cell) => cell(order, escape) ?? ""))]);
}

/** @param {(text: string) => void} progress */
async function loadAll(path = "", progress) {
  /** @type {Order[]} */
  const all = [];
  for (let next = path; next;) {
    /** @type {Result} */
    const page = await get(next);
    all.push(...page.data);
    next = page.next ? `store/orders${page.next}` : "";
    progress(count(all.length));
  }
  return all;
}
