// An import that runs: batches of changes, which can be paused, and resumed after the tab was closed. All batches of an
// import have its id, by which it can be undone; the idempotency key of each is made of the id and its position.

import { ApiError, send } from "../api.js";
import { message, sentenceOf } from "../app.js";
import { createCategory } from "../categories.js";
import { stringify } from "../json.js";
import { fold, names } from "../names.js";
import { NEW_CATEGORY } from "./compare.js";
import { remember } from "./history.js";
import { forgetImport, keepChunk, keepImport } from "./kept.js";
import { pacer } from "./pace.js";

/** @import { CheckedRow, KeptChunk, KeptImport } from "../../types" */

/** The limits of a batch: the service accepts 1,000 changes and 1 MiB. */
const MAX_CHANGES = 1000;
const MAX_BYTES = 1_000_000;
/** One batch is sent while the service works on another. */
const PARALLEL = 2;
/** The service keeps idempotency keys for at least 24 hours. */
export const RESUME_WITHIN = 20 * 3_600_000;
/** The rate is that of the last batches. */
const RATE_OVER = 8;

/** A random id, as batches have it. */
export const newImportId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

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

/** Splits rows into batches. @param {string} id @param {CheckedRow[]} rows @param {Map<string, string>} newCategories */
async function chunksOf(id, rows, newCategories) {
  /** @type {KeptChunk[]} */
  const chunks = [];
  const turn = pacer();
  let size = Infinity;
  for (const row of rows) {
    const change = changeOf(row, newCategories);
    const bytes = new TextEncoder().encode(stringify(change)).length + 1;
    await turn();
    if (size + bytes > MAX_BYTES || (chunks.at(-1)?.rows.length ?? 0) >= MAX_CHANGES) {
      chunks.push({ import: id, at: chunks.length, rows: [] });
      size = 100;
    }
    chunks.at(-1)?.rows.push({ line: row.line, cells: row.cells, change });
    size += bytes;
  }
  return chunks;
}

export class ImportJob {
  /** False if it is paused; batches may still be under way then. */
  #isWanted = false;
  /** @type {Promise<string | undefined> | null} */
  #run = null;
  /** @type {{ line: number, cells: string[], reason: string }[]} */
  rejected = [];
  added = 0;
  changed = 0;
  done = 0;
  /** @type {KeptChunk[]} */
  #queue;
  /** @type {{ time: number, rows: number }[]} when the last batches were done */
  #pace = [];

  /** @param {KeptImport} kept @param {KeptChunk[]} chunks */
  constructor(kept, chunks) {
    this.kept = kept;
    this.total = chunks.reduce((sum, { rows, outcome }) => sum + (outcome?.rows ?? rows.length), 0);
    this.#queue = chunks.filter(({ outcome }) => !outcome);
    for (const { outcome } of chunks) if (outcome) this.#count(outcome);
  }

  /** Starts an import: creates its categories, and keeps it. @param {Omit<KeptImport, "time">} about @param {CheckedRow[]} rows */
  static async start(about, rows) {
    const chunks = await chunksOf(about.id, rows, await createCategories(rows));
    const kept = { ...about, time: Date.now() };
    await keepImport(kept, chunks);
    return new ImportJob(kept, chunks);
  }

  /** @param {NonNullable<KeptChunk["outcome"]>} outcome */
  #count({ added, changed, rejected, rows }) {
    this.added += added;
    this.changed += changed;
    this.done += rows;
    this.rejected.push(...rejected);
  }

  get isDone() {
    return this.done === this.total;
  }

  /** Rows per second, and the seconds that are left; 0 if they are not known yet. */
  get pace() {
    const [first, last] = [this.#pace[0], this.#pace.at(-1)];
    const rows = this.#pace.slice(1).reduce((sum, { rows }) => sum + rows, 0);
    const rate = first && last && last.time > first.time ? rows / ((last.time - first.time) / 1000) : 0;
    return { rate, left: rate ? (this.total - this.done) / rate : 0 };
  }

  /** "pausing": batches are still under way. @returns {"running" | "pausing" | "paused"} */
  get state() {
    return !this.#run ? "paused" : this.#isWanted ? "running" : "pausing";
  }

  /** Sends no further batches. Waits for those that are under way. */
  async pause() {
    this.#isWanted = false;
    await this.#run;
  }

  /** Runs until all is done, or until it is paused; returns what has stopped it. @param {() => void} progress */
  run(progress) {
    this.#isWanted = true;
    this.#pace = [{ time: performance.now(), rows: 0 }];
    const work = async () => {
      const problems = await Promise.all(Array.from({ length: PARALLEL }, () => this.#work(progress)));
      this.#run = null;
      return problems.find(Boolean);
    };
    // So that other tabs see that it runs. (Locks exist only over HTTPS, and on this computer.)
    const locked = async () => navigator.locks ? await navigator.locks.request(this.kept.id, work) : work();
    this.#run = locked();
    return this.#run;
  }

  /** @param {() => void} progress */
  async #work(progress) {
    for (let chunk; this.#isWanted && (chunk = this.#queue.shift()); progress()) {
      try {
        await this.#send(chunk);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        this.#isWanted = false;
        this.#queue = [chunk, ...this.#queue].sort((a, b) => a.at - b.at);
        return message(error);
      }
    }
  }

  /** @param {KeptChunk} chunk */
  async #send({ at, rows }) {
    const { id } = this.kept;
    const { data } = await send("POST", "pets/batch", { batchId: id, changes: rows.map(({ change }) => change) },
      { "Idempotency-Key": `import-${id}-${at}` });
    const outcome = { rows: rows.length, added: 0, changed: 0, rejected: /** @type {typeof this.rejected} */ ([]) };
    for (const [index, { line, cells, change }] of rows.entries()) {
      const { status, error } = data.results[index];
      if (status >= 400) outcome.rejected.push({ line, cells, reason: sentenceOf(error?.message ?? `Rejected with ${status}.`) });
      else "create" in change ? outcome.added++ : outcome.changed++;
    }
    this.#count(outcome);
    this.#pace = [...this.#pace, { time: performance.now(), rows: rows.length }].slice(-RATE_OVER);
    await keepChunk({ import: id, at, rows: [], outcome });
    remember(this.past);
  }

  /** True if another tab runs the import. */
  static async isRunning(id = "") {
    return (await navigator.locks?.query())?.held?.some(({ name }) => name === id) ?? false;
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
