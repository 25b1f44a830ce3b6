// Saves orders as CSV.

import { get } from "./api.js";
import { escapeFormula, saveCsv } from "./csv.js";
import { count } from "./format.js";
import { names } from "./names.js";
import { decimal } from "./price.js";

/** @import { Order, Result } from "../types" */

/** @type {Record<string, (order: Order) => string | undefined>} */
const COLUMNS = {
  id: ({ id }) => String(id),
  status: ({ status }) => status,
  petId: ({ petId }) => String(petId),
  animal: ({ petId }) => escapeFormula(names.pets.get(petId) ?? ""),
  price: ({ price }) => price && decimal(price),
  currency: ({ price }) => price?.currency,
  "buyer.name": ({ buyer }) => escapeFormula(buyer?.name),
  "buyer.contact": ({ buyer }) => escapeFormula(buyer?.contact),
  "buyer.address": ({ buyer }) => escapeFormula(buyer?.address),
  reference: ({ reference }) => escapeFormula(reference),
  createdAt: ({ createdAt }) => createdAt,
  updatedAt: ({ updatedAt }) => updatedAt,
};

/** @param {Order[] | string} orders the orders, or their list @param {(text: string) => void} progress */
export async function exportOrders(orders, progress) {
  const all = typeof orders === "string" ? await loadAll(orders, progress) : orders;
  await names.load([], all.map(({ petId }) => petId));
  saveCsv("orders.csv", [Object.keys(COLUMNS), ...all.map((order) => Object.values(COLUMNS).map((cell) => cell(order) ?? ""))]);
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
