// The names of animals, categories and API keys, which events and orders refer to by id.

import { api, get, getAll } from "./api.js";
import { chipOf } from "./microchip.js";
import { can } from "./session.js";

/** @import { Int64, Pet, StoreEvent } from "../types" */

/** The most deleted animals whose names are looked up at a time. */
const MAX_DELETED = 50;

/** The last event of an animal, if it is kept. @returns {Promise<StoreEvent | undefined>} */
export const lastEventOf = async (id = 0) => (await get(`events?subject=pets/${id}&sort=desc&limit=1`)).data[0];

export const names = {
  /** @type {Map<string, string>} */
  categories: new Map(),
  /** @type {Map<string, string>} */
  keys: new Map(),
  /** @type {Map<number, string>} "" if there is no such animal */
  pets: new Map(),
  /** @type {Map<number, string>} animals that were deleted; "" if nothing about them is kept */
  deleted: new Map(),

  async loadCategories() {
    // Events keep the names up to date, also while nothing can be loaded.
    if (!api.isOnline && names.categories.size) return;
    names.categories = new Map((await getAll("categories")).map(({ id, name }) => [String(id), name]));
  },

  /**
   * Loads the names of these keys and animals, if they are new.
   * @param {(string | undefined)[]} keys
   * @param {(number | undefined)[]} pets
   */
  async load(keys, pets = []) {
    if (keys.some((id) => id && !names.keys.has(id))) {
      const all = await getAll("keys").catch(() => []);
      for (const { id, name } of all) names.keys.set(String(id), name);
    }
    const unknown = [...new Set(pets)].filter((id) => id !== undefined && !names.pets.has(id));
    while (unknown.length && can("pets:read")) {
      const some = unknown.splice(0, 100);
      const page = await get(`pets?limit=100&id=${some}`).catch(() => null);
      for (const id of page ? some : []) names.pets.set(Number(id), "");
      for (const { id, name } of page?.data ?? []) names.pets.set(id, name);
    }
  },

  /** Loads the names that animals had when they were deleted, after it is known that there are no such animals. @param {(number | undefined)[]} pets */
  async loadDeleted(pets) {
    const unknown = [...new Set(pets)].filter((id) => id !== undefined && names.pets.get(id) === "" && !names.deleted.has(id));
    await Promise.all(unknown.slice(0, MAX_DELETED).map(async (id = 0) => {
      const last = await lastEventOf(id).catch(() => null);
      if (last !== null) names.deleted.set(id, last?.type === "pet.deleted" ? last.data.name : "");
    }));
  },

  /** The name of an animal, also if it was deleted; "" if it is not known. */
  animal: (id = 0) => names.pets.get(id) || names.deleted.get(id) || "",

  /** @param {StoreEvent} event */
  onEvent({ type, data }) {
    if (type.startsWith("pet.")) names.pets.set(data.id, type === "pet.deleted" ? "" : data.name);
    if (type === "pet.deleted") names.deleted.set(data.id, data.name);
    if (type.startsWith("key.")) names.keys.set(String(data.id), data.name);
    if (type === "category.updated") names.categories.set(String(data.id), data.name);
    if (type === "category.deleted") names.categories.delete(String(data.id));
  },

  sorted: () => [...names.categories].sort(([, a], [, b]) => a.localeCompare(b)),

  category: (/** @type {Int64 | string} */ id) => names.categories.get(String(id)) ?? `no. ${id}`,

  /** Who made a change. */
  who: (id = "") => (id ? `“${names.keys.get(id) ?? `key ${id}`}”` : "the service"),
};

/** As the service ignores case and accents in a search: case folding, and NFKD without combining marks. */
function simplify(text = "") {
  const plain = (/** @type {string} */ part) => part.normalize("NFKD").replace(/\p{M}/gu, "");
  return plain(plain(text).toLowerCase().replace(/[^ı]+/g, (part) => part.toUpperCase()));
}

/** The distinct words of a text, simplified, of which the service compares the first 64 characters. */
const wordsOf = (text = "") => [...new Set((simplify(text).match(/[\p{Alphabetic}\p{N}]+/gu) ?? [])
  .map((word) => [...word].slice(0, 64).join("")))];

/** The service takes so many terms. */
const MAX_TERMS = 8;

/** The terms of a search, as the service has them: its words, or one microchip. */
function termsOf(text = "") {
  const chip = chipOf(text);
  return chip ? [chip] : wordsOf(text);
}

/** A search as the service takes it: at most eight terms, or "" if it has none. */
export function searchOf(text = "") {
  const terms = termsOf(text);
  return terms.length > MAX_TERMS ? terms.slice(0, MAX_TERMS).join(" ") : terms.length ? chipOf(text) || text : "";
}

/** True if a text is typed that cannot be looked for. */
export const isUnsearchable = (text = "") => text !== "" && !termsOf(text).length;
export const UNSEARCHABLE = "Type a letter or digit";

/** A note if a search has more terms than are looked for, or "". */
export const longSearchNote = (text = "") =>
  (termsOf(text).length > MAX_TERMS ? `Only the first ${MAX_TERMS} words were looked for.` : "");

/** True if each term is the start of a word. As many are compared as the service takes. */
export function matchesWords(text = "", terms = "") {
  const words = wordsOf(text);
  return wordsOf(terms).slice(0, MAX_TERMS).every((term) => words.some((word) => word.startsWith(term)));
}

/** Returns true if a search finds an animal: each term is the start of a word of it or of its chip, or is its id. @param {Pet} pet */
export function matchesSearch({ id, name, breed = "", microchip = "" }, q = "") {
  if (isUnsearchable(q)) return false;
  const words = wordsOf(`${name} ${breed} ${microchip}`);
  return termsOf(searchOf(q)).every((term) => term === String(id) || words.some((word) => word.startsWith(term)));
}

/** As the service ignores case: ß is SS, but ı is not I. */
export const fold = (name = "") =>
  name.normalize("NFD").toLowerCase().replace(/[^ı]+/g, (text) => text.toUpperCase()).normalize();
