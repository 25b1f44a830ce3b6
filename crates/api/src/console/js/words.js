// Events in words.

import { el } from "./dom.js";
import { names } from "./names.js";

/** @import { StoreEvent } from "../types" */

/** @type {Record<string, string>} */
const WORDS = {
  "pet.created": "added",
  "pet.deleted": "deleted",
  "category.deleted": "deleted",
  "order.placed": "reserved",
  "order.completed": "sold",
  "order.cancelled": "reservation cancelled",
  "order.returned": "returned",
  // The status of an animal, before and after.
  "available pending": "reserved",
  "pending sold": "sold",
  "pending available": "released",
  "sold available": "returned",
};

/** What happened to an animal, an order or a category, and who did it. @param {StoreEvent} event */
export function describe({ type, data: after, before, keyid }) {
  const isReleased = before?.status === "pending" && after.status !== "pending";
  if (!keyid && (type === "order.cancelled" || isReleased)) return "reservation expired";
  const what = [WORDS[type]];
  if (before && !WORDS[type]) {
    if (before.name !== after.name) what.push(`renamed from “${before.name}”`);
    if (before.categoryId !== after.categoryId) {
      what.push(`moved from ${names.category(before.categoryId)} to ${names.category(after.categoryId)}`);
    }
    if (before.status !== after.status) {
      const word = WORDS[`${before.status} ${after.status}`];
      what.push(word ?? (after.status ? `marked as ${after.status}` : "taken off sale"));
    }
  }
  const text = what.filter(Boolean).join(", ") || (type === "category.updated" ? "named" : "changed");
  return `${text} by ${names.who(keyid)}`;
}

/** The animal of an event, if it is about one. @param {StoreEvent} event @returns {number | undefined} */
export const petOf = ({ type, data }) => (type.startsWith("order.") ? data.petId : type.startsWith("pet.") ? data.id : undefined);

/** The same with the name of what it happened to, which leads there. @param {StoreEvent} event */
export function sentence(event) {
  const { type, subject, data } = event;
  const id = petOf(event);
  const known = id && names.pets.get(id);
  const name = data.name ?? (known || `Animal ${id}`);
  const order = type.startsWith("order.") && `, order ${subject.slice("orders/".length)}`;
  return el("span",
    known ? el("a", { href: `#/animals/${id}` }, name) : el("b", id ? name : `Category ${name}`),
    `: ${describe(event)}`, order);
}
