// The members of animals and sales. Each is declared once: forms, panels, conflicts, export and import follow from this.

import { ApiError } from "./api.js";
import { parsePrice, typedPrice } from "./typed-price.js";

/** @import { Member } from "../types" */

/** @param {string} text */
const orNull = (text) => (/\S/.test(text) ? text : null);

/**
 * The kinds of members that are not just text: as they are typed into a form, and as the API takes them.
 * @type {Record<string, { typed?(value: any): string, parse?(text: string): any }>}
 */
const KINDS = {
  id: { typed: String, parse: (text) => /\d/.test(text) && BigInt(text) },
  lines: { typed: (text) => text.replace(/\r\n?/g, "\n") },
  chip: { parse: (text) => orNull(text.replace(/[\s-]/g, "")) },
  price: { typed: typedPrice, parse: parsePrice },
  // Sorted, as the service does.
  pairs: { typed: (pairs) => Object.entries(pairs).map(([key, text]) => `${key}: ${text}`).sort().join("\n"), parse: pairsOf },
};

/** In the order of the service. The first part of the form has those without a section, and those of the head. */
export const animal = recordOf({
  name: { label: "Name", max: 255, required: true, section: "head" },
  categoryId: { label: "Category", kind: "id", section: "head" },
  status: { label: "Status", kind: "choice", section: "head", choices: { available: "available", pending: "pending", sold: "sold", "": "no status" } },
  breed: { label: "Breed" },
  sex: { label: "Sex", kind: "choice", choices: { "": "–", female: "female", male: "male", unknown: "unknown" } },
  birthDate: { label: "Date of birth", kind: "birth", short: "Age" },
  color: { label: "Colour" },
  microchip: { label: "Chip", kind: "chip", placeholder: "9, 10 or 15 digits" },
  price: { label: "Price", kind: "price" },
  description: { label: "Description", kind: "lines", section: "Description", placeholder: "For customers" },
  notes: { label: "Notes", kind: "lines", section: "Notes for staff", placeholder: "For staff only" },
  location: { label: "Location", placeholder: "Such as Kennel 4" },
  acquiredOn: { label: "Acquired on", kind: "date", section: "Origin", short: "Acquired" },
  "source.name": { label: "Acquired from", max: 200, section: "Origin", short: "From" },
  "source.address": { label: "Their address", max: 200, section: "Origin", short: "Address" },
  "source.licence": { label: "Their licence", max: 200, section: "Origin", short: "Licence" },
  metadata: { label: "Other details", kind: "pairs", section: "Other details", placeholder: "One per line, such as litter: 2026-07" },
});

export const sale = recordOf({
  price: { label: "Price", kind: "price" },
  "buyer.name": { label: "Buyer", max: 200 },
  "buyer.contact": { label: "Phone or email", max: 200, short: "Contact" },
  "buyer.address": { label: "Address", max: 200 },
  reference: { label: "Reference", placeholder: "Receipt number" },
});

/** The values of a record as a form has them are text; what is not set is "". @template {string} Name @param {Record<Name, Member>} members */
export function recordOf(members) {
  const names = /** @type {Name[]} */ (Object.keys(members));
  /** @template T @param {(name: Name, member: Member) => T} what */
  const each = (what) => /** @type {Record<Name, T>} */ (Object.fromEntries(names.map((name) => [name, what(name, members[name])])));
  /** @param {Record<Name, string>} values */
  const membersOf = (values) => nest(each((name, { kind = "", required }) =>
    required ? values[name] : (KINDS[kind]?.parse ?? orNull)(values[name])));
  /** @param {object} resource */
  const valuesOf = (resource) => each((name, { kind = "" }) => {
    const value = valueAt(resource, name) ?? null;
    return value === null ? "" : (KINDS[kind]?.typed?.(value) ?? /** @type {string} */ (value));
  });
  return {
    names,
    members: /** @type {[Name, Member][]} */ (Object.entries(members)),
    label: (/** @type {Name} */ name) => members[name].label,
    valuesOf,
    noValues: valuesOf({}),
    /** The values as they are when they are saved and read again. @param {Record<Name, string>} values */
    normalise: (values) => valuesOf(membersOf(values)),
    /** The members that differ, as the API takes them. @param {Record<Name, string>} after @param {Record<Name, string>} [before] */
    changes: (after, before) => mergePatch(membersOf(after), before ? membersOf(before) : {}),
  };
}

/** A member by its path, such as `source.name`. @param {any} resource @param {string} path */
export function valueAt(resource, path) {
  return path.split(".").reduce((object, name) => object?.[name], resource);
}

/** The name of a member, and that of the one inside of it, which is empty if there is none. */
export const splitPath = (path = "") => path.match(/^([^.]*)\.?(.*)$/s)?.slice(1) ?? [];

/** Puts members such as `source.name` into their object, which is null if it has none. @param {Record<string, any>} flat */
export function nest(flat) {
  /** @type {Record<string, any>} */
  const all = {};
  for (const [path, value] of Object.entries(flat)) {
    const [name, inner] = splitPath(path);
    if (!inner) all[name] = value;
    else all[name] = value === null ? (all[name] ?? null) : { ...all[name], [inner]: value };
  }
  return all;
}

/** Reads lines such as "litter: 2026-07". */
function pairsOf(text = "") {
  const pairs = text.split("\n").filter(orNull).map((line) => {
    const [, key, value] = line.match(/^\s*([^\s:]+)\s*: ?(.*\S.*)$/) ?? [];
    if (!key) throw new ApiError(400, "", `metadata: “${line.trim()}” must be a word, a colon and a text, as in litter: 2026-07.`);
    return [key, value];
  });
  return pairs.length ? Object.fromEntries(pairs) : null;
}

/** @param {any} value */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * A merge patch (RFC 7396) from one state to another; null: not set. Keys of the metadata can be names that every
 * object inherits, such as `constructor`.
 * @param {Record<string, any>} after
 * @param {Record<string, any>} before
 */
function mergePatch(after, before) {
  /** @type {Record<string, any>} */
  const patch = Object.create(null);
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [now, then] = [after, before].map((object) => (Object.hasOwn(object, name) ? object[name] : null));
    if (isObject(now) && isObject(then)) {
      const inner = mergePatch(now, then);
      if (Object.keys(inner).length) patch[name] = inner;
    } else if (now !== then) patch[name] = now;
  }
  return patch;
}
