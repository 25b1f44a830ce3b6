// The rows of a table against the store: which animals are new, changed or unchanged, and which rows are invalid.

import { nest, splitPath, valueAt } from "../members.js";
import { fold } from "../names.js";
import { decimal } from "../price.js";
import { columnLabel, isInt64 } from "./records.js";

/** @import { CheckedRow, ImportRecord, Int64, Pet, StoreView } from "../../types" */

/** A category that the import creates before its animals has this instead of a number. */
export const NEW_CATEGORY = "new";
const MAX_CATEGORY = 100;

/** A value as text, in quotes if it has blanks at its ends. @param {any} value */
function textOf(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return `${decimal(value)} ${value.currency}`;
  return value === value.trim() ? value : `“${value}”`;
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

/** Sets a member of a merge patch. @param {Record<string, any>} patch @param {any} value */
function setMember(patch, path = "", value) {
  const [name, inner] = splitPath(path);
  if (inner) patch[name] = Object.assign(patch[name] ?? Object.create(null), { [inner]: value });
  else patch[name] = value;
}

/**
 * The members that differ, as a merge patch, what these have now, as another one, and what differs, as texts.
 * @param {Pet} pet
 * @param {Record<string, any>} members
 */
function changesOf(pet, members) {
  /** @type {Record<string, any>} */
  const patch = Object.create(null);
  /** @type {Record<string, any>} */
  const expected = Object.create(null);
  const texts = [];
  for (const [path, value] of Object.entries(members)) {
    const before = memberOf(pet, path);
    if (isSame(before, value)) continue;
    texts.push(`${columnLabel(path)}: ${textOf(before)} → ${textOf(value)}`);
    setMember(patch, path, value);
    setMember(expected, path, before);
  }
  // Without a name there is no source. All of one is removed, including what a person has added to it since.
  if (patch.source && patch.source.name === null) {
    patch.source = null;
    expected.source = { address: null, licence: null, ...pet.source };
  }
  if (expected.source && expected.source.name === null) expected.source = null;
  return { patch, expected, texts };
}

/**
 * The number of a record's category, or what is wrong. A name that no category has is that of a new one.
 * @param {NonNullable<ImportRecord["category"]>} category
 * @param {StoreView} store
 * @returns {{ id?: string, newName?: string, problem?: string }}
 */
function resolveCategory({ id, name }, store) {
  const found = name === undefined ? undefined : store.categoryIds.get(fold(name)) ?? store.categoryIds.get(fold(name.trim()));
  if (id === undefined) {
    if (found !== undefined) return { id: found };
    if (isInt64(name)) return { id: String(BigInt(name ?? "")) };
    return { id: NEW_CATEGORY, newName: name?.trim() };
  }
  if (name === undefined || found === id) return { id };
  const other = store.categoryNames.get(id);
  if (found === undefined && other === undefined) return { id, newName: name.trim() };
  const contradiction = found === undefined ? `${id} is “${other}”` : `“${name}” is ${found}`;
  return { problem: `The number ${id} and the name “${name}” contradict each other: ${contradiction}.` };
}

/** Compares rows one after the other: they must not repeat an animal or a microchip of an earlier one that is valid. @param {StoreView} store */
export function comparer(store) {
  /** @type {Map<string, number>} the lines that have an animal or a microchip */
  const lines = new Map();
  /** @type {Map<string, string>} the names of new categories, by number */
  const newCategories = new Map();

  /** The reason why a category cannot be created, or "". @param {string} id @param {string} name */
  const newCategoryProblem = (id, name) => {
    if (!store.createsCategories) return `No category is named “${name}”.`;
    if ([...name].length > MAX_CATEGORY) return `The name of a category has at most ${MAX_CATEGORY} characters.`;
    if (id === NEW_CATEGORY) return "";
    const earlier = newCategories.get(id) ?? name;
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
    const sameAnimal = target && lines.get(`animal ${target.id}`);
    const sameChip = chip && lines.get(`chip ${chip}`);
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
    if (target) lines.set(`animal ${target.id}`, line);
    if (chip) lines.set(`chip ${chip}`, line);
    if (newName !== undefined && category.id && !newCategories.has(category.id)) newCategories.set(category.id, newName);
    if (!target) {
      const withStatus = defaultStatus ? { ...members, status: defaultStatus } : members;
      const filled = Object.fromEntries(Object.entries(withStatus).filter(([, value]) => value !== null));
      return { ...row, kind: "new", create: nest(filled), categoryId: category.id, difference: summaryOf(filled) };
    }
    const { patch, expected, texts } = changesOf(target, members);
    const isMoved = category.id !== undefined && category.id !== String(target.categoryId);
    if (isMoved) expected.categoryId = BigInt(target.categoryId);
    if (isMoved) texts.unshift(`Category: ${categoryName(target.categoryId)} → ${row.shown.category}`);
    return { ...row, kind: texts.length ? "changed" : "unchanged", update: patch, expected, categoryId: isMoved ? category.id : undefined,
      difference: texts.join("\n") };
  };
}
