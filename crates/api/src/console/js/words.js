// Events in words.

import { el, nameOf } from "./dom.js";
import { count } from "./format.js";
import { animal } from "./members.js";
import { names } from "./names.js";
import { photoChange } from "./photos/words.js";
import { formatPrice } from "./price.js";
import { describeScopes } from "./roles.js";

/** @import { BatchSize, Burst, StoreEvent } from "../types" */

/** @type {Record<string, string>} */
const WORDS = {
  "pet.created": "added",
  "pet.deleted": "deleted",
  "category.deleted": "deleted",
  "order.placed": "reserved",
  "order.updated": "sale corrected",
  "order.completed": "sold",
  "order.cancelled": "reservation cancelled",
  "order.returned": "returned",
  // The status of an animal, before and after.
  "available pending": "reserved",
  "pending sold": "sold",
  "pending available": "released",
  "sold available": "returned",
};

/** Describes a change of an animal, an order or a category, and names the person. @param {StoreEvent} event */
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
      what.push(statusWord(before.status, after.status));
    }
    if (type === "pet.updated") what.push(...otherChanges(before, after));
  }
  const text = what.filter(Boolean).join(", ") || (type === "category.updated" ? "named" : "changed");
  return `${text} by ${names.who(keyid)}`;
}

/** A change of the status of an animal. */
export const statusWord = (before = "", after = "") =>
  WORDS[`${before} ${after}`] ?? (after ? `marked as ${after}` : "taken off sale");

/** Changes of the price, and the names of the other members that have changed. @param {any} before @param {any} after */
function otherChanges(before, after) {
  const differs = (/** @type {string} */ name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]);
  const prices = [before.price, after.price].map((price) => (price ? formatPrice(price) : "nothing"));
  // Of an object such as `source`, the section has a name.
  const labels = new Map(animal.members.map(([path, { label, section = "" }]) =>
    path.includes(".") ? [path.split(".")[0], section] : [path, label]));
  const others = [...labels].filter(([name]) => !["name", "categoryId", "status", "price"].includes(name) && differs(name))
    .map(([, label]) => label.toLowerCase());
  return [
    differs("price") ? `price changed from ${prices.join(" to ")}` : "",
    photoChange(before, after),
    others.length ? `${new Intl.ListFormat("en").format(others)} changed` : "",
  ];
}

/** The animal of an event, if it is about one. @param {StoreEvent} event @returns {number | undefined} */
export const petOf = ({ type, data }) => (type.startsWith("order.") ? data.petId : type.startsWith("pet.") ? data.id : undefined);

/** Access that was given or taken away, and who did that. @param {StoreEvent} event */
function accessSentence({ type, data, keyid = "" }) {
  const { id, name, scopes, invitation } = data;
  const role = describeScopes(invitation?.scopes ?? scopes);
  const who = el("b", names.keys.get(keyid) ?? `Key ${keyid}`);
  const person = el("b", name);
  // An invitation acts for the person whom it lets in, and has the same name.
  const isInvited = keyid !== String(id) && names.keys.get(keyid) === name;
  if (type === "key.rotated") return keyid ? [who, " rotated the key of ", person] : ["The key of ", person, " was rotated, on the server"];
  if (type === "key.created") {
    if (invitation) return [who, " invited ", person, ` as ${role}`, invitation.replaces && ", to renew access"];
    if (isInvited) return [person, ` accepted the invitation as ${role}`];
    return keyid ? [who, " let ", person, ` in as ${role}`] : [person, ` was let in as ${role}, on the server`];
  }
  if (invitation) return keyid ? [who, " withdrew the invitation of ", person] : ["The invitation of ", person, " was withdrawn, on the server"];
  if (isInvited) return ["The old access of ", person, " ended"];
  if (keyid === String(id)) return [person, " gave up access"];
  return keyid ? [who, " took access away from ", person] : [person, " lost access, on the server"];
}

/** Returns true if another event says the same: an invitation ends when it turns into a key. @param {StoreEvent} event */
export const isRedundant = ({ type, data, keyid }) => type === "key.revoked" && !!data.invitation && keyid === String(data.id);

/** "1,013+": there may be more. */
const numberOf = (number = 0, isLeast = false) => `${count(number)}${isLeast ? "+" : ""}`;
const animalsOf = (number = 0, isLeast = false) => `${numberOf(number, isLeast)} ${number === 1 && !isLeast ? "animal" : "animals"}`;

/** "5,000 animals imported, 20 changed". @param {Record<string, number>} types the number of events of each type */
export function batchText(types, isUndo = false, isLeast = false) {
  const verbs = { "pet.created": isUndo ? "restored" : "imported", "pet.updated": isUndo ? "changed back" : "changed", "pet.deleted": "deleted" };
  const parts = Object.entries(verbs).filter(([type]) => types[type])
    .map(([type, verb], at) => `${(at ? numberOf : animalsOf)(types[type], isLeast)} ${verb}`);
  return `${isUndo ? "Undone: " : ""}${parts.join(", ")}`;
}

/** The events of a batch, or many of one kind, and who caused them. @param {Burst} burst @param {BatchSize} size */
export function burstSentence({ newest: { type, keyid, batchid } }, { count, types, isLeast }, isUndo = false) {
  const animals = animalsOf(count, isLeast);
  const single = { "pet.created": `${animals} added`, "pet.deleted": `${animals} deleted` };
  const what = batchid ? batchText(types, isUndo, isLeast) : single[/** @type {keyof single} */ (type)] ?? `${numberOf(count, isLeast)} changes of animals`;
  return el("span", el("b", what), ` by ${names.who(keyid)}`);
}

/** The same with the name of what it happened to, which leads there. @param {StoreEvent} event */
export function sentence(event) {
  const { type, subject, data } = event;
  if (type.startsWith("key.")) return el("span", accessSentence(event));
  const id = petOf(event);
  const known = id && names.animal(id);
  const name = data.name ?? (known || `Animal ${id}`);
  const order = type.startsWith("order.") && `, order ${subject.slice("orders/".length)}`;
  return el("span",
    known ? nameOf("a", name, { href: `#/animals/${id}` }) : nameOf("b", id ? name : `Category ${name}`),
    `: ${describe(event)}`, order);
}
