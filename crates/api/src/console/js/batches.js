// Many changes, sent in batches that have one id, by which they can be undone. The idempotency key of each batch is made
// of the id and its position, so a batch that is sent again is not applied twice.

import { ApiError, send } from "./api.js";
import { message } from "./app.js";
import { stringify } from "./json.js";
import { pacer } from "./pace.js";

/** @import { BatchResult } from "../types" */

/** The limits of a batch: the service accepts 1,000 changes and 1 MiB. */
const MAX_CHANGES = 1000;
const MAX_BYTES = 1_000_000;
/** One batch is sent while the service works on another. */
const PARALLEL = 2;
/** The rate is that of the last batches. */
const RATE_OVER = 8;
const UNEXPECTED = "Something unexpected happened. Try again: nothing is done twice.";

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
  /** @type {Promise<string | void> | null} */
  #run = null;
  /** @type {Batch[]} */
  #queue;
  /** @type {{ time: number, rows: number }[]} when the last batches were done */
  #pace = [];
  done = 0;
  /** The code of the error that has stopped it last. */
  errorCode = "";

  /** @param {string} id @param {number} total the number of changes @param {Batch[]} queue the batches that are not done */
  constructor(id, total, queue) {
    this.id = id;
    this.total = total;
    this.#queue = queue;
  }

  /** More members of a batch. @param {Batch} batch @returns {object} */
  partOf(batch) {
    return {};
  }

  /** True if the other batches wait for the response to the first one. */
  get startsAlone() {
    return false;
  }

  /** Looks at a batch before it is sent. @param {Batch} batch @returns {Promise<void>} */
  async prepare(batch) {}

  /** Takes the results of a batch, one for each row; again, if it fails. @param {Batch} batch @param {BatchResult[]} results @returns {Promise<void>} */
  async take(batch, results) {
    throw new Error("not implemented");
  }

  get isDone() {
    return this.done === this.total;
  }

  /** Rows per second, and the seconds that are left; 0 if they are not known yet. */
  get pace() {
    const first = this.#pace[0];
    const last = this.#pace.at(-1);
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
      if (this.startsAlone && this.#queue[0]?.at === 0) await this.#work(progress, 1);
      const ends = await Promise.allSettled(Array.from({ length: PARALLEL }, () => this.#work(progress)));
      for (const end of ends) if (end.status === "rejected") throw end.reason;
    };
    // So that other tabs see that it runs. (Locks exist only over HTTPS, and on this computer.)
    const locked = async () => navigator.locks ? await navigator.locks.request(this.id, work) : work();
    this.#run = locked().catch((error) => {
      this.errorCode = error.code ?? "";
      if (error instanceof ApiError) return message(error);
      reportError(error);
      return UNEXPECTED;
    }).finally(() => (this.#run = null));
    return this.#run;
  }

  /** @param {() => void} progress */
  async #work(progress, most = Infinity) {
    for (let batch; most-- > 0 && this.#isWanted && (batch = this.#queue.shift()); progress()) {
      try {
        await this.#send(batch);
      } catch (error) {
        this.#isWanted = false;
        this.#queue = [batch, ...this.#queue].sort((a, b) => a.at - b.at);
        throw error;
      }
    }
  }

  /** @param {Batch} batch */
  async #send(batch) {
    await this.prepare(batch);
    const changes = batch.rows.map(({ change }) => change);
    const { data } = await send("POST", "pets/batch", { batchId: this.id, ...this.partOf(batch), changes },
      { "Idempotency-Key": `batch-${this.id}-${batch.at}` });
    if (data.results?.length !== batch.rows.length) throw new Error("the response has not one result for each change");
    await this.take(batch, data.results);
    this.done += batch.rows.length;
    this.#pace = [...this.#pace, { time: performance.now(), rows: batch.rows.length }].slice(-RATE_OVER);
  }

  /** True if a tab runs the job. */
  static async isRunning(id = "") {
    return (await navigator.locks?.query())?.held?.some(({ name }) => name === id) ?? false;
  }
}
