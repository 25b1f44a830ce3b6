// The rows of a table against the store: which animals are new, changed or unchanged, and which rows are invalid.

import { nest, valueAt } from "../members.js";
import { fold } from "../names.js";
import { decimal } from "../price.js";
import { columnLabel } from "./records.js";

/** @import { CheckedRow, ImportRecord, Pet, Price, StoreView } from "../../types" */

/** A category that the import creates before its animals has this instead of a number. */
export const NEW_CATEGORY = "new";

/** A value as text. @param {any} value */
const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? `${decimal(value)} ${value.currency}` : String(value));

/** @param {any} a @param {any} b */
const isSame = (a, b) => (a && b && typeof a === "object" ? a.amount === b.amount && a.currency === b.currency : a === b);

/** A member of an animal, or null. Keys of the metadata can be names that every object inherits. @param {Pet} pet @param {string} path */
function memberOf(pet, path) {
  const key = path.match(/^metadata\.(.*)$/s)?.[1];
  if (key !== undefined) return pet.metadata && Object.hasOwn(pet.metadata, key) ? pet.metadata[key] : null;
  return valueAt(pet, path) ?? null;
}

/** The members of a new animal that have no column of their own, as a text. @param {Record<string, any>} members */
const summaryOf = (members) => Object.entries(members).filter(([path]) => path !== "name" && path !== "status")
  .map(([path, value]) => `${columnLabel(path)}: ${shown(value)}`).join("\n");

/** The members that differ, as a merge patch, and what differs, as a text. @param {Pet} pet @param {Record<string, any>} members */
function changesOf(pet, members) {
  /** @type {Record<string, any>} */
  const patch = Object.create(null);
  const texts = [];
  for (const [path, value] of Object.entries(members)) {
    const before = memberOf(pet, path);
    // Blanks around a name are not read from a table, so they are no difference.
    if (isSame(before, value) || (typeof before === "string" && before.trim() === value)) continue;
    texts.push(`${columnLabel(path)}: ${shown(before)} → ${shown(value)}`);
    const [, name, inner] = path.match(/^([^.]*)\.?(.*)$/s) ?? [];
    if (inner) patch[name] = Object.assign(patch[name] ?? Object.create(null), { [inner]: value });
    else patch[name] = value;
  }
  // Without a name there is no source.
  if (patch.source && patch.source.name === null) patch.source = null;
  return { patch, text: texts.join("\n") };
}

/**
 * The number of a record's category, or what is wrong. A name that no category has is that of a new one.
 * @param {NonNullable<ImportRecord["category"]>} category
 * @param {StoreView} store
 */
function resolveCategory({ id, name }, store) {
  const found = name === undefined ? undefined : store.categoryIds.get(fold(name));
  if (id === undefined) {
    if (found !== undefined) return { id: found };
    if (/^[+-]?\d{1,19}$/.test(name ?? "")) return { id: String(BigInt(name ?? "")) };
    return { id: NEW_CATEGORY, newName: name };
  }
  if (name === undefined || found === id) return { id };
  const other = store.categoryNames.get(id);
  if (found === undefined && other === undefined) return { id, newName: name };
  const contradiction = found === undefined ? `${id} is “${other}”` : `“${name}” is ${found}`;
  return { problem: `The number ${id} and the name “${name}” contradict each other: ${contradiction}.` };
}

/** Compares rows one after the other: later ones must not repeat an animal or a microchip. @param {StoreView} store */
export function comparer(store) {
  /** @type {Map<string, string>} the names of new categories, by number */
  const newCategories = new Map();
  /** @type {Map<string, number>} the lines of animals and microchips */
  const seen = new Map();
  const repeats = (key = "", line = 0) => {
    const before = seen.get(key);
    seen.set(key, before ?? line);
    return before;
  };

  /** @param {ImportRecord} record @returns {CheckedRow} */
  return (record) => {
    const { line, cells, members } = record;
    const problems = { ...record.problems };
    const category = record.category && resolveCategory(record.category, store);
    if (category?.problem) problems.category = category.problem;
    const newName = category?.newName;
    if (newName !== undefined && !store.createsCategories) problems.category = `No category is named “${newName}”.`;
    if (newName !== undefined && [...newName].length > 100) problems.category = "The name of a category has at most 100 characters.";
    if (newName !== undefined && category?.id !== NEW_CATEGORY) {
      const earlier = newCategories.get(category?.id ?? "") ?? newName;
      newCategories.set(category?.id ?? "", earlier);
      if (fold(earlier) !== fold(newName)) problems.category = `The number ${category?.id} has another name in an earlier row: “${earlier}”.`;
    }

    const holder = members.microchip && members.status !== "sold" ? store.byChip.get(members.microchip) : undefined;
    const target = record.id !== undefined ? store.byId.get(record.id) : store.matchesChips ? holder : undefined;
    if (record.id !== undefined && !target && !problems.id) problems.id = `No animal has the number ${record.id}.`;
    if (holder && holder !== target) problems.microchip = `${holder.name} (animal ${holder.id}) has this microchip.`;
    if (!target && !problems.id) {
      if (members.name === undefined && !problems.name) problems.name = "A name is missing.";
      if (!record.category && !problems.category && !problems.categoryId) problems.category = "A category is missing.";
    }
    const sameAnimal = target && repeats(`animal ${target.id}`, line);
    if (sameAnimal) problems.id = `Line ${sameAnimal} is about the same animal.`;
    const sameChip = members.microchip && members.status !== "sold" && repeats(`chip ${members.microchip}`, line);
    if (sameChip && !sameAnimal) problems.microchip = `Line ${sameChip} has the same microchip.`;

    const categoryId = category?.id;
    /** @type {CheckedRow} */
    const row = { line, cells, kind: "invalid", problems, target, newName, holder,
      shown: { name: members.name ?? target?.name ?? "", category: categoryText(record, categoryId, target, store), status: members.status ?? (members.status === undefined ? target?.status : "") ?? "" } };
    if (Object.keys(problems).length) return row;
    if (!target) {
      const status = members.status === undefined && store.defaultStatus ? { status: store.defaultStatus } : {};
      const filled = Object.fromEntries(Object.entries({ ...members, ...status }).filter(([, value]) => value !== null));
      return { ...row, kind: "new", create: nest(filled), categoryId, difference: summaryOf(filled), shown: { ...row.shown, status: row.shown.status || (status.status ?? "") } };
    }
    const { patch, text } = changesOf(target, members);
    const moves = categoryId !== undefined && categoryId !== String(target.categoryId);
    const moved = moves && `Category: ${store.categoryNames.get(String(target.categoryId)) ?? `no. ${target.categoryId}`} → ${row.shown.category}`;
    const isChanged = Object.keys(patch).length > 0 || moves;
    return { ...row, kind: isChanged ? "changed" : "unchanged", update: patch, categoryId: moves ? categoryId : undefined,
      difference: [moved, text].filter(Boolean).join("\n") };
  };
}

/** @param {ImportRecord} record @param {string | undefined} id @param {Pet | undefined} target @param {StoreView} store */
function categoryText({ category }, id, target, store) {
  if (!category) return target ? (store.categoryNames.get(String(target.categoryId)) ?? `no. ${target.categoryId}`) : "";
  return category.name ?? store.categoryNames.get(id ?? "") ?? `no. ${id ?? category.id}`;
}
