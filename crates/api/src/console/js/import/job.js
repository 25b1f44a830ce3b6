// An import that runs: batches of changes, which can be paused, and resumed after the tab was closed.

import { ApiError, send } from "../api.js";
import { sentenceOf } from "../app.js";
import { BatchJob, batchesOf } from "../batches.js";
import { createCategory } from "../categories.js";
import { fold, names } from "../names.js";
import { mapInTurns } from "../pace.js";
import { remember } from "../undo/past-batches.js";
import { undo } from "../undo/undo.js";
import { NEW_CATEGORY } from "./compare.js";
import { forgetImport, keepChunk, keepImport } from "./kept.js";

/** @import { BatchResult, CheckedRow, KeptChunk, KeptImport, NewCategory, PastBatch } from "../../types" */

/** The service keeps idempotency keys for at least 24 hours. */
export const RESUME_WITHIN = 20 * 3_600_000;
const LONGEST_ID = -(2n ** 63n);
const STALE = "The animal was changed since the file was checked. Import this row again to see what it would change now.";

/**
 * A row with its change, as a batch takes it. The number of a category that is new has the size of the longest one
 * until it is known: batches are split by size.
 * @param {CheckedRow} row
 * @returns {KeptChunk["rows"][number]}
 */
function changeOf({ line, cells, create, update, expected, target, categoryId, newName = "" }) {
  const isNew = categoryId === NEW_CATEGORY;
  const category = categoryId === undefined ? {} : { categoryId: isNew ? LONGEST_ID : BigInt(categoryId) };
  const change = create ? { create: { ...create, ...category } } : { id: target?.id ?? 0, update: { ...update, ...category }, expected };
  return { line, cells, change, ...(isNew && { newCategory: fold(newName) }) };
}

/** Sets the number of a category that is known by now. @param {KeptChunk["rows"][number]} row @param {Map<string, string>} ids */
function setCategory(row, ids) {
  if (row.newCategory === undefined) return;
  const id = ids.get(row.newCategory);
  if (id === undefined) throw new Error(`the category ${row.newCategory} was not created`);
  const values = "create" in row.change ? row.change.create : row.change.update;
  Object.assign(values, { categoryId: BigInt(id) });
}

/** The categories that rows need, each as the first row has it. @param {CheckedRow[]} rows */
function newCategoriesOf(rows) {
  /** @type {Map<string, NewCategory>} */
  const all = new Map();
  for (const { newName: name, categoryId: id } of rows) {
    if (name !== undefined && !all.has(fold(name))) all.set(fold(name), id === NEW_CATEGORY ? { name } : { name, id });
  }
  return [...all.values()];
}

/** Names a category that has a number and no name yet. An interrupted import may have done so. */
async function nameCategory(id = "", name = "", batchId = "") {
  if (fold(names.categories.get(id)) === fold(name)) return id;
  await send("PUT", `categories/${id}`, { name, batchId }, { "If-None-Match": "*" }).catch((error) => {
    if (error.status !== 412 && error.status !== 409) throw error;
    throw new ApiError(error.status, error.code,
      `Since the file was checked, another person has named category ${id}, or another one “${name}”. Cancel the import, and check the file again.`);
  });
  names.categories.set(id, name);
  return id;
}

/** Deletes the categories of an import that does nothing, if that is possible. */
const discardCategories = (batchId = "") => undo(batchId, () => {}).catch((error) => {
  if (!(error instanceof ApiError)) throw error;
});

/** Creates the categories of an import, as a part of its batch. Returns the numbers of all by folded name. @param {KeptImport} kept */
async function createCategories({ id: batchId, newCategories, takenNumbers }) {
  /** @type {Map<string, string>} */
  const ids = new Map();
  for (const { name, id } of newCategories) {
    ids.set(fold(name), await (id === undefined ? createCategory(name, batchId, takenNumbers) : nameCategory(id, name, batchId)));
  }
  return ids;
}

/** @extends {BatchJob<KeptChunk>} */
export class ImportJob extends BatchJob {
  /** @type {{ line: number, cells: string[], reason: string }[]} */
  rejected = [];
  added = 0;
  changed = 0;

  /** @param {KeptImport} kept @param {KeptChunk[]} chunks */
  constructor(kept, chunks, isKept = true) {
    super(kept.id, kept.total, chunks.filter(({ outcome }) => !outcome));
    this.kept = kept;
    /** False if the browser has lost a part of it, or stores nothing: it cannot be resumed once the tab is closed. */
    this.isKept = isKept && chunks.length === kept.chunks;
    for (const { outcome } of chunks) {
      if (!outcome) continue;
      this.done += outcome.rows;
      this.#count(outcome);
    }
  }

  /** Keeps an import, before anything is changed. @param {Pick<KeptImport, "id" | "key" | "name" | "hash" | "headings" | "invalid">} about @param {CheckedRow[]} rows */
  static async start(about, rows) {
    const changes = await mapInTurns(rows, changeOf);
    let row = 0;
    const chunks = (await batchesOf(changes)).map((batch) => {
      const chunk = { import: about.id, row, ...batch };
      row += batch.rows.length;
      return chunk;
    });
    const kept = { ...about, time: Date.now(), total: rows.length, chunks: chunks.length, newCategories: newCategoriesOf(rows),
      takenNumbers: new Set(rows.flatMap(({ categoryId }) => categoryId ?? [])) };
    return new ImportJob(kept, chunks, await keepImport(kept, chunks));
  }

  /** Keeps what has changed. If the browser refuses, the import cannot be resumed later. @param {() => Promise<boolean>} keep */
  async #keep(keep) {
    if (!this.isKept || (await keep())) return;
    this.isKept = false;
    await forgetImport(this.id);
  }

  /** The numbers of the new categories, which are created before the first batch is sent. */
  async #categories() {
    const { kept } = this;
    if (kept.categoryIds) return kept.categoryIds;
    if (kept.newCategories.length) await names.loadCategories();
    kept.categoryIds = await createCategories(kept);
    await this.#keep(() => keepImport(kept));
    return kept.categoryIds;
  }

  /** @param {NonNullable<KeptChunk["outcome"]>} outcome */
  #count({ added, changed, rejected }) {
    this.added += added;
    this.changed += changed;
    this.rejected.push(...rejected);
  }

  /** The first batch makes the import known to the service. @override */
  get startsAlone() {
    return true;
  }

  /** @override @param {KeptChunk} chunk */
  partOf({ row }) {
    return { import: { file: this.kept.hash, row, rows: this.total } };
  }

  /** Creates the categories that the import needs. @override @param {KeptChunk} chunk */
  async prepare(chunk) {
    const ids = await this.#categories();
    for (const row of chunk.rows) setCategory(row, ids);
  }

  /** @override @param {KeptChunk} chunk @param {BatchResult[]} results */
  async take({ at, row, rows }, results) {
    const outcome = { rows: rows.length, added: 0, changed: 0, rejected: /** @type {typeof this.rejected} */ ([]) };
    for (const [index, { line, cells, change }] of rows.entries()) {
      const { status, error } = results[index];
      const reason = status === 412 ? STALE : sentenceOf(error?.message ?? `Rejected with ${status}.`);
      if (status >= 400) outcome.rejected.push({ line, cells, reason });
      else "create" in change ? outcome.added++ : outcome.changed++;
    }
    await this.#keep(() => keepChunk({ import: this.id, at, row, rows: [], outcome }));
    this.#count(outcome);
    remember(this.past);
  }

  /** True if it was undone, or replaced by another import of the file. */
  get isStopped() {
    return this.errorCode === "import_stopped";
  }

  /** Its entry in the history, as far as it is done. @returns {PastBatch} */
  get past() {
    const { id, name, time, hash, newCategories: { length: categories } } = this.kept;
    return { id, name, kind: "import", time, hash, categories, added: this.added, changed: this.changed };
  }

  /** Ends it: what is not done is not done any more. */
  async end() {
    await this.pause();
    if (!this.added && !this.changed && this.kept.newCategories.length) await discardCategories(this.id);
    await forgetImport(this.kept.id);
  }
}
