// Many changes, sent in batches that have one id, by which they can be undone. The idempotency key of each batch is made
// of the id and its position, so a batch that is sent again is not applied twice.

import { ApiError, send } from "./api.js";
import { message } from "./app.js";
import { pacer } from "./import/pace.js";
import { stringify } from "./json.js";

/** @import { BatchResult } from "../types" */

/** The limits of a batch: the service accepts 1,000 changes and 1 MiB. */
const MAX_CHANGES = 1000;
const MAX_BYTES = 1_000_000;
/** One batch is sent while the service works on another. */
const PARALLEL = 2;
/** The rate is that of the last batches. */
const RATE_OVER = 8;

/** A random id, as batches have it. */
export const newBatchId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Splits rows into batches, in turns. @template {{ change: object }} Row @param {Row[]} rows */
export async function batchesOf(rows) {
  /** @type {{ at: number, rows: Row[] }[]} */
  const batches = [];
  const turn = pacer();
  let size = Infinity;
  for (const row of rows) {
    const bytes = new TextEncoder().encode(stringify(row.change)).length + 1;
    await turn();
    if (size + bytes > MAX_BYTES || (batches.at(-1)?.rows.length ?? 0) >= MAX_CHANGES) {
      batches.push({ at: batches.length, rows: [] });
      size = 100;
    }
    batches.at(-1)?.rows.push(row);
    size += bytes;
  }
  return batches;
}

/** Batches that are sent until all are done, or until it is paused. @template {{ at: number, rows: { change: object }[] }} Batch */
export class BatchJob {
  /** False if it is paused; batches may still be under way then. */
  #isWanted = false;
  /** @type {Promise<string | undefined> | null} */
  #run = null;
  /** @type {Batch[]} */
  #queue;
  /** @type {{ time: number, rows: number }[]} when the last batches were done */
  #pace = [];
  done = 0;

  /** @param {string} id @param {number} total the number of changes @param {Batch[]} queue the batches that are not done */
  constructor(id, total, queue) {
    this.id = id;
    this.total = total;
    this.#queue = queue;
  }

  /** Takes the results of a batch, one for each row. @param {Batch} batch @param {BatchResult[]} results @returns {Promise<void>} */
  async take(batch, results) {
    throw new Error("not implemented");
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
    const locked = async () => navigator.locks ? await navigator.locks.request(this.id, work) : work();
    this.#run = locked();
    return this.#run;
  }

  /** @param {() => void} progress */
  async #work(progress) {
    for (let batch; this.#isWanted && (batch = this.#queue.shift()); progress()) {
      try {
        await this.#send(batch);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        this.#isWanted = false;
        this.#queue = [batch, ...this.#queue].sort((a, b) => a.at - b.at);
        return message(error);
      }
    }
  }

  /** @param {Batch} batch */
  async #send(batch) {
    const { data } = await send("POST", "pets/batch", { batchId: this.id, changes: batch.rows.map(({ change }) => change) },
      { "Idempotency-Key": `batch-${this.id}-${batch.at}` });
    this.done += batch.rows.length;
    this.#pace = [...this.#pace, { time: performance.now(), rows: batch.rows.length }].slice(-RATE_OVER);
    await this.take(batch, data.results);
  }

  /** True if a tab runs the job. */
  static async isRunning(id = "") {
    return (await navigator.locks?.query())?.held?.some(({ name }) => name === id) ?? false;
  }
}
