// Finds orders by their number, by their animal, or by buyer and reference, with a limited number of requests.

import { get } from "./api.js";
import { isUnsearchable, matchesWords, names, searchOf } from "./names.js";
import { can } from "./session.js";

/** @import { Order, Result } from "../types" */

const PER_PAGE = 100;
/** The newest orders, whose buyers and references are looked through: pages of 100. */
const PAGES = 5;
/** The animals with a name whose orders are loaded. */
const MAX_ANIMALS = 20;

export const LIMITS = `There may be more: the newest ${PAGES * PER_PAGE} orders were searched, and the newest ${PER_PAGE} of each of up to ${MAX_ANIMALS} animals.`;

/**
 * Newest first. `isLimited`: there are orders or animals that were not looked through.
 * @param {AbortSignal} end
 */
export async function findOrders(text = "", end) {
  /** @type {Map<number, Order>} */
  const found = new Map();
  const take = (/** @type {Order[]} */ orders) => orders.forEach((order) => found.set(order.id, order));
  let isLimited = false;
  const ofAnimal = async (id = "") => {
    const { data, next } = await get(`store/orders?petId=${id}&sort=desc&limit=${PER_PAGE}`, end);
    take(data);
    isLimited ||= !!next;
  };
  if (isUnsearchable(text)) return { orders: [], isLimited };
  const isNumber = /^\d{1,15}$/.test(text);
  const [hasOlder, animals] = await Promise.all([
    recentOrders(text, take, end),
    animalsOf(text, end),
    isNumber && get(`store/orders/${text}`, end).then(({ data }) => take([data]), ignoreMissing),
    isNumber && ofAnimal(text),
  ]);
  await Promise.all(animals.ids.map(ofAnimal));
  return { orders: [...found.values()].sort((a, b) => b.id - a.id), isLimited: isLimited || hasOlder || animals.hasMore };
}

/** @param {{ status?: number }} error */
function ignoreMissing(error) {
  if (error.status !== 404) throw error;
}

/** The ids of animals by name, and whether there are more. @param {AbortSignal} end @returns {Promise<{ ids: string[], hasMore: boolean }>} */
async function animalsOf(text = "", end) {
  if (!can("pets:read")) return { ids: [], hasMore: false };
  const search = searchOf(text);
  const { data, next } = await get(`pets?limit=${MAX_ANIMALS}&sort=desc&q=${encodeURIComponent(search)}`, end);
  for (const { id, name } of data) names.pets.set(id, name);
  return { ids: data.map(({ id = 0 }) => String(id)), hasMore: !!next };
}

/** Returns whether there are more orders. @param {(orders: Order[]) => void} take @param {AbortSignal} end */
async function recentOrders(text = "", take, end) {
  let next = `?sort=desc&limit=${PER_PAGE}`;
  for (let page = 0; page < PAGES && next; page++) {
    /** @type {Result} */
    const { data, next: more } = await get(`store/orders${next}`, end);
    take(/** @type {Order[]} */ (data).filter(({ buyer, reference = "" }) =>
      matchesWords([buyer?.name, buyer?.contact, reference].join(" "), text)));
    next = more ?? "";
  }
  return next !== "";
}
