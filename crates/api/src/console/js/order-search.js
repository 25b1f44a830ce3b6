// Finds orders by their number, by their animal, or by buyer and reference, with a limited number of requests.

import { get } from "./api.js";
import { matchesWords, names, searchOf } from "./names.js";
import { can } from "./session.js";

/** @import { Order, Result } from "../types" */

/** The newest orders, whose buyers and references are looked through: pages of 100. */
const PAGES = 5;
/** The animals with a name whose orders are loaded. */
const MAX_ANIMALS = 20;

/**
 * Newest first. `isLimited`: there are older orders, whose buyers were not looked through.
 * @param {AbortSignal} end
 */
export async function findOrders(text = "", end) {
  /** @type {Map<number, Order>} */
  const found = new Map();
  const take = (/** @type {Order[]} */ orders) => orders.forEach((order) => found.set(order.id, order));
  const ofAnimal = async (id = "") => take((await get(`store/orders?petId=${id}&sort=desc&limit=100`, end)).data);
  const isNumber = /^\d{1,15}$/.test(text);
  const [isLimited] = await Promise.all([
    recentOrders(text, take, end),
    isNumber && get(`store/orders/${text}`, end).then(({ data }) => take([data]), ignoreMissing),
    isNumber && ofAnimal(text),
    animalsOf(text, end).then((ids) => Promise.all(ids.map(ofAnimal))),
  ]);
  return { orders: [...found.values()].sort((a, b) => b.id - a.id), isLimited };
}

/** @param {{ status?: number }} error */
function ignoreMissing(error) {
  if (error.status !== 404) throw error;
}

/** The ids of animals by name. @param {AbortSignal} end @returns {Promise<string[]>} */
async function animalsOf(text = "", end) {
  const search = searchOf(text);
  if (!search || !can("pets:read")) return [];
  const { data } = await get(`pets?limit=${MAX_ANIMALS}&sort=desc&q=${encodeURIComponent(search)}`, end);
  for (const { id, name } of data) names.pets.set(id, name);
  return data.map(({ id = 0 }) => String(id));
}

/** Returns whether there are more orders. @param {(orders: Order[]) => void} take @param {AbortSignal} end */
async function recentOrders(text = "", take, end) {
  let next = "?sort=desc&limit=100";
  for (let page = 0; page < PAGES && next; page++) {
    /** @type {Result} */
    const { data, next: more } = await get(`store/orders${next}`, end);
    take(/** @type {Order[]} */ (data).filter(({ buyer, reference = "" }) =>
      matchesWords([buyer?.name, buyer?.contact, reference].join(" "), text)));
    next = more ?? "";
  }
  return next !== "";
}
