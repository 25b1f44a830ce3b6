// An import that runs: batches of changes, which can be paused, and resumed after the tab was closed.

import { send } from "../api.js";
import { sentenceOf } from "../app.js";
import { BatchJob, batchesOf } from "../batches.js";
import { createCategory } from "../categories.js";
import { fold, names } from "../names.js";
import { NEW_CATEGORY } from "./compare.js";
import { remember } from "./history.js";
import { forgetImport, keepChunk, keepImport } from "./kept.js";
import { mapInTurns } from "./pace.js";

/** @import { BatchResult, CheckedRow, KeptChunk, KeptImport } from "../../types" */

/** The service keeps idempotency keys for at least 24 hours. */
export const RESUME_WITHIN = 20 * 3_600_000;

/** The change of a row, as a batch takes it. @param {CheckedRow} row @param {Map<string, string>} newCategories */
function changeOf({ create, update, target, categoryId, newName }, newCategories) {
  const id = categoryId === NEW_CATEGORY ? newCategories.get(fold(newName ?? "")) : categoryId;
  const category = id === undefined ? {} : { categoryId: BigInt(id) };
  return create ? { create: { ...create, ...category } } : { id: target?.id ?? 0, update: { ...update, ...category } };
}

/** Names a category that has a number and no name yet. */
async function nameCategory(id = "", name = "") {
  await send("PUT", `categories/${id}`, { name }, { "If-None-Match": "*" });
  names.categories.set(id, name);
  return id;
}

/** Creates the categories that rows need. Returns their numbers by folded name. @param {CheckedRow[]} rows */
async function createCategories(rows) {
  /** @type {Map<string, string>} */
  const ids = new Map();
  for (const { newName, categoryId } of rows) {
    if (newName === undefined || ids.has(fold(newName))) continue;
    if (categoryId === NEW_CATEGORY) ids.set(fold(newName), await createCategory(newName));
    else ids.set(fold(newName), await nameCategory(categoryId ?? "", newName));
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
  constructor(kept, chunks) {
    const total = chunks.reduce((sum, { rows, outcome }) => sum + (outcome?.rows ?? rows.length), 0);
    super(kept.id, total, chunks.filter(({ outcome }) => !outcome));
    this.kept = kept;
    for (const { outcome } of chunks) {
      if (!outcome) continue;
      this.done += outcome.rows;
      this.#count(outcome);
    }
  }

  /** Starts an import: creates its categories, and keeps it. @param {Omit<KeptImport, "time">} about @param {CheckedRow[]} rows */
  static async start(about, rows) {
    const newCategories = await createCategories(rows);
    const changes = await mapInTurns(rows, (row) => ({ line: row.line, cells: row.cells, change: changeOf(row, newCategories) }));
    const chunks = (await batchesOf(changes)).map((batch) => ({ import: about.id, ...batch }));
    const kept = { ...about, time: Date.now() };
    await keepImport(kept, chunks);
    return new ImportJob(kept, chunks);
  }

  /** @param {NonNullable<KeptChunk["outcome"]>} outcome */
  #count({ added, changed, rejected }) {
    this.added += added;
    this.changed += changed;
    this.rejected.push(...rejected);
  }

  /** @override @param {KeptChunk} chunk @param {BatchResult[]} results */
  async take({ at, rows }, results) {
    const outcome = { rows: rows.length, added: 0, changed: 0, rejected: /** @type {typeof this.rejected} */ ([]) };
    for (const [index, { line, cells, change }] of rows.entries()) {
      const { status, error } = results[index];
      if (status >= 400) outcome.rejected.push({ line, cells, reason: sentenceOf(error?.message ?? `Rejected with ${status}.`) });
      else "create" in change ? outcome.added++ : outcome.changed++;
    }
    this.#count(outcome);
    await keepChunk({ import: this.id, at, rows: [], outcome });
    remember(this.past);
  }

  /** Its entry in the history, as far as it is done. */
  get past() {
    const { id, name, time, hash } = this.kept;
    return { id, name, time, hash, added: this.added, changed: this.changed };
  }

  /** Ends it: what is not done is not done any more. */
  async end() {
    await this.pause();
    await forgetImport(this.kept.id);
  }
}
