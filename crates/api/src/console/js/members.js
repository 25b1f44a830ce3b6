// The members of animals and sales: as text in the fields of a form, and as the API takes them.

import { ApiError } from "./api.js";
import { parsePrice, typedPrice } from "./price.js";

/** @import { Order, Pet, SaleValues, Values } from "../types" */

/** @type {Values} */
export const LABELS = {
  name: "Name", categoryId: "Category", status: "Status", breed: "Breed", color: "Colour", sex: "Sex",
  birthDate: "Date of birth", microchip: "Chip", location: "Location", price: "Price", description: "Description",
  notes: "Notes", acquiredOn: "Acquired on", "source.name": "Acquired from", "source.address": "Their address",
  "source.licence": "Their licence", metadata: "Other details",
};
export const FIELDS = /** @type {(keyof Values)[]} */ (Object.keys(LABELS));
export const NO_VALUES = /** @type {Values} */ (Object.fromEntries(FIELDS.map((name) => [name, ""])));

/** @type {SaleValues} */
export const SALE_LABELS = {
  price: "Price", "buyer.name": "Buyer", "buyer.contact": "Phone or email", "buyer.address": "Address", reference: "Reference",
};
export const SALE_FIELDS = /** @type {(keyof SaleValues)[]} */ (Object.keys(SALE_LABELS));

/** Text of several lines, as a field has it. @param {string | null} [text] */
const lines = (text) => (text ?? "").replace(/\r\n?/g, "\n");
/** @param {string} text */
const orNull = (text) => (/\S/.test(text) ? text : null);

/** @param {Pick<Pet, "name" | "categoryId"> & Partial<Pet>} pet @returns {Values} */
export const valuesOf = (pet) => ({
  name: pet.name,
  categoryId: String(pet.categoryId),
  status: pet.status ?? "",
  breed: pet.breed ?? "",
  color: pet.color ?? "",
  sex: pet.sex ?? "",
  birthDate: pet.birthDate ?? "",
  microchip: pet.microchip ?? "",
  location: pet.location ?? "",
  price: typedPrice(pet.price),
  description: lines(pet.description),
  notes: lines(pet.notes),
  acquiredOn: pet.acquiredOn ?? "",
  "source.name": pet.source?.name ?? "",
  "source.address": pet.source?.address ?? "",
  "source.licence": pet.source?.licence ?? "",
  metadata: Object.entries(pet.metadata ?? {}).map(([key, value]) => `${key}: ${value}`).join("\n"),
});

/** @param {Values} values @returns {Record<string, any>} null: not set */
const membersOf = (values) => ({
  name: values.name,
  categoryId: /\d/.test(values.categoryId) && BigInt(values.categoryId),
  status: orNull(values.status),
  breed: orNull(values.breed),
  color: orNull(values.color),
  sex: orNull(values.sex),
  birthDate: orNull(values.birthDate),
  microchip: orNull(values.microchip.replace(/[\s-]/g, "")),
  location: orNull(values.location),
  price: parsePrice(values.price),
  description: orNull(values.description),
  notes: orNull(values.notes),
  acquiredOn: orNull(values.acquiredOn),
  source: objectOf({ name: values["source.name"], address: values["source.address"], licence: values["source.licence"] }),
  metadata: objectOf(pairsOf(values.metadata)),
});

/** The members that have text; null: none has. @param {Record<string, string>} all */
function objectOf(all) {
  const members = Object.entries(all).filter(([, text]) => orNull(text));
  return members.length ? Object.fromEntries(members) : null;
}

/** Reads lines such as "litter: 2026-07". */
function pairsOf(text = "") {
  return Object.fromEntries(text.split("\n").filter(orNull).map((line) => {
    const [, key, value] = line.match(/^\s*([^\s:]+)\s*: ?(.*\S.*)$/) ?? [];
    if (!key) throw new ApiError(400, "", `metadata: “${line.trim()}” must be a word, a colon and a text, as in litter: 2026-07.`);
    return [key, value];
  }));
}

/** The values as they are when they are saved and read again. @param {Values} values */
export const normalise = (values) => ({
  ...valuesOf(/** @type {any} */ (membersOf(values))), categoryId: values.categoryId,
});

/** The members of an animal that differ, as the API takes them. @param {Values} after @param {Values} [before] */
export const changes = (after, before) => mergePatch(membersOf(after), before ? membersOf(before) : {});

/** @param {Partial<Pick<Order, "price" | "reference" | "buyer">>} order @returns {SaleValues} */
export const saleValuesOf = ({ price, reference, buyer }) => ({
  price: typedPrice(price),
  reference: reference ?? "",
  "buyer.name": buyer?.name ?? "",
  "buyer.address": buyer?.address ?? "",
  "buyer.contact": buyer?.contact ?? "",
});

/** @param {SaleValues} values @returns {Record<string, any>} null: not set */
const saleOf = (values) => ({
  price: parsePrice(values.price),
  reference: orNull(values.reference),
  buyer: objectOf({ name: values["buyer.name"], address: values["buyer.address"], contact: values["buyer.contact"] }),
});

/** The members of a sale that differ. @param {SaleValues} after @param {SaleValues} [before] */
export const saleChanges = (after, before) => mergePatch(saleOf(after), before ? saleOf(before) : {});

/** @param {any} value */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * A merge patch (RFC 7396) from one state to another; null: not set.
 * @param {Record<string, any>} after
 * @param {Record<string, any>} before
 */
function mergePatch(after, before) {
  /** @type {Record<string, any>} */
  const patch = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [now, then] = [after[name] ?? null, before[name] ?? null];
    if (isObject(now) && isObject(then)) {
      const inner = mergePatch(now, then);
      if (Object.keys(inner).length) patch[name] = inner;
    } else if (now !== then) patch[name] = now;
  }
  return patch;
}
