// The rows of a table against the store: which animals are new, changed or unchanged, and which rows are invalid.

import { nest, valueAt } from "../members.js";
import { fold } from "../names.js";
import { decimal } from "../price.js";
import { columnLabel, isInt64 } from "./records.js";

/** @import { CheckedRow, ImportRecord, Int64, Pet, StoreView } from "../../types" */

/** A category that the import creates before its animals has this instead of a number. */
export const NEW_CATEGORY = "new";
const MAX_CATEGORY = 100;

/** A value as text. @param {any} value */
function textOf(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "object" ? `${decimal(value)} ${value.currency}` : String(value);
}

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
  .map(([path, value]) => `${columnLabel(path)}: ${textOf(value)}`).join("\n");

/** The members that differ, as a merge patch, and what differs, as texts. @param {Pet} pet @param {Record<string, any>} members */
function changesOf(pet, members) {
  /** @type {Record<string, any>} */
  const patch = Object.create(null);
  const texts = [];
  for (const [path, value] of Object.entries(members)) {
    const before = memberOf(pet, path);
    // Blanks around a name are not read from a table, so they are no difference.
    if (isSame(before, value) || (typeof before === "string" && before.trim() === value)) continue;
    texts.push(`${columnLabel(path)}: ${textOf(before)} → ${textOf(value)}`);
    const [, name, inner] = path.match(/^([^.]*)\.?(.*)$/s) ?? [];
    if (inner) patch[name] = Object.assign(patch[name] ?? Object.create(null), { [inner]: value });
    else patch[name] = value;
  }
  // Without a name there is no source.
  if (patch.source && patch.source.name === null) patch.source = null;
  return { patch, texts };
}

/**
 * The number of a record's category, or what is wrong. A name that no category has is that of a new one.
 * @param {NonNullable<ImportRecord["category"]>} category
 * @param {StoreView} store
 * @returns {{ id?: string, newName?: string, problem?: string }}
 */
function resolveCategory({ id, name }, store) {
  const found = name === undefined ? undefined : store.categoryIds.get(fold(name));
  if (id === undefined) {
    if (found !== undefined) return { id: found };
    if (isInt64(name)) return { id: String(BigInt(name ?? "")) };
    return { id: NEW_CATEGORY, newName: name };
  }
  if (name === undefined || found === id) return { id };
  const other = store.categoryNames.get(id);
  if (found === undefined && other === undefined) return { id, newName: name };
  const contradiction = found === undefined ? `${id} is “${other}”` : `“${name}” is ${found}`;
  return { problem: `The number ${id} and the name “${name}” contradict each other: ${contradiction}.` };
}

/** The first line of each thing that a table must not repeat. */
class Lines {
  /** @type {Map<string, number>} */
  #lines = new Map();

  /** The earlier line that had this, if there is one. */
  repeated(key = "", line = 0) {
    const before = this.#lines.get(key);
    if (before === undefined) this.#lines.set(key, line);
    return before;
  }
}

/** Compares rows one after the other: later ones must not repeat an animal or a microchip. @param {StoreView} store */
export function comparer(store) {
  const lines = new Lines();
  /** @type {Map<string, string>} the names of new categories, by number */
  const newCategories = new Map();

  /** The reason why a category cannot be created, or "". @param {string} id @param {string} name */
  const newCategoryProblem = (id, name) => {
    if (!store.createsCategories) return `No category is named “${name}”.`;
    if ([...name].length > MAX_CATEGORY) return `The name of a category has at most ${MAX_CATEGORY} characters.`;
    if (id === NEW_CATEGORY) return "";
    const earlier = newCategories.get(id) ?? name;
    newCategories.set(id, earlier);
    return fold(earlier) === fold(name) ? "" : `The number ${id} has another name in an earlier row: “${earlier}”.`;
  };

  const categoryName = (/** @type {Int64 | string} */ id) => store.categoryNames.get(String(id)) ?? `no. ${id}`;

  /** @param {ImportRecord} record @returns {CheckedRow} */
  return (record) => {
    const { line, cells, id, members } = record;
    const problems = { ...record.problems };
    const category = record.category ? resolveCategory(record.category, store) : {};
    const { newName } = category;
    const categoryProblem = category.problem ?? (newName === undefined ? "" : newCategoryProblem(category.id ?? "", newName));
    if (categoryProblem) problems.category = categoryProblem;

    const holder = members.microchip ? store.byChip.get(members.microchip) : undefined;
    const known = id === undefined ? undefined : store.byId.get(id);
    const target = known ?? (store.matchesChips ? holder : undefined);
    // The number of a chip is free again when its animal is sold.
    const chip = members.status === "sold" ? null : members.microchip;
    if (chip && holder && holder !== target) problems.microchip = `${holder.name} (animal ${holder.id}) has this microchip.`;
    const sameAnimal = target && lines.repeated(`animal ${target.id}`, line);
    const sameChip = chip && lines.repeated(`chip ${chip}`, line);
    if (sameAnimal) problems.id = `Line ${sameAnimal} is about the same animal.`;
    else if (sameChip) problems.microchip = `Line ${sameChip} has the same microchip.`;
    if (!target && !problems.id) {
      const lacksName = members.name === undefined && !problems.name;
      const lacksCategory = !record.category && !problems.category && !problems.categoryId;
      if (id !== undefined && (lacksName || lacksCategory)) problems.id = `No animal has the number ${id}.`;
      else if (lacksName) problems.name = "A name is missing.";
      else if (lacksCategory) problems.category = "A category is missing.";
    }

    const categoryId = category.id ?? target?.categoryId;
    const all = { name: target?.name, status: target?.status, ...members };
    const defaultStatus = !target && members.status === undefined ? store.defaultStatus : "";
    /** @type {CheckedRow} */
    const row = {
      line, cells, kind: "invalid", problems, target, holder, newName, isRenumbered: id !== undefined && !target,
      shown: {
        name: all.name ?? "",
        category: record.category?.name ?? (categoryId === undefined ? (record.category?.id ?? "") : categoryName(categoryId)),
        status: all.status ?? defaultStatus,
      },
    };
    if (Object.keys(problems).length) return row;
    if (!target) {
      const withStatus = defaultStatus ? { ...members, status: defaultStatus } : members;
      const filled = Object.fromEntries(Object.entries(withStatus).filter(([, value]) => value !== null));
      return { ...row, kind: "new", create: nest(filled), categoryId: category.id, difference: summaryOf(filled) };
    }
    const { patch, texts } = changesOf(target, members);
    const isMoved = category.id !== undefined && category.id !== String(target.categoryId);
    if (isMoved) texts.unshift(`Category: ${categoryName(target.categoryId)} → ${row.shown.category}`);
    return { ...row, kind: texts.length ? "changed" : "unchanged", update: patch, categoryId: isMoved ? category.id : undefined,
      difference: texts.join("\n") };
  };
}
