// Adds the animals of a spreadsheet, row by row. It can be paused, and resumed after a reload.

import { ApiError, send } from "./api.js";
import { message } from "./app.js";
import { keysOf } from "./import-rows.js";
import { names } from "./names.js";

/** @import { PetRow, Source } from "../types" */

/** Where a started import is kept, and the first row that may not be done, so that it survives a reload. */
const [SOURCE, NEXT] = ["petstore-import", "petstore-import-next"];
/** A browser opens six connections, and one of them is the event stream. */
const PARALLEL = 5;

export const forget = () => [SOURCE, NEXT].forEach((name) => sessionStorage.removeItem(name));
/** @returns {Source | null} */
export const interrupted = () => JSON.parse(sessionStorage.getItem(SOURCE) ?? "null");
export const nextRow = () => Number(sessionStorage.getItem(NEXT));

const keep = (name = "", value = "") => {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // Too large: after a reload, the same file can be chosen again.
  }
};

export class ImportJob {
  running = false;
  repeated = 0;
  /** @type {Set<number>} the rows that are being sent, by their position in `ready` */
  #sent = new Set();
  /** @type {Set<number>} the rows that the service has rejected: after a reload, it does so again */
  #failed = new Set();

  /** @param {Source} source @param {PetRow[]} rows */
  constructor(source, rows) {
    this.ready = rows.filter(({ pet }) => pet);
    this.rejected = rows.filter(({ pet }) => !pet);
    this.isResumed = source.time > 0;
    if (!this.isResumed) forget();
    this.added = nextRow();
    this.queue = [...this.ready.keys()].slice(this.added);
    this.keyOf = keysOf(source.text);
    source.time ||= Date.now();
    source.categories ??= [...names.categories];
    keep(SOURCE, JSON.stringify(source));
  }

  get done() {
    return this.added + this.repeated + this.#failed.size;
  }

  pause() {
    this.running = false;
  }

  /** Runs until all is done, or until it is paused; returns what has stopped it. @param {() => void} progress */
  async run(progress) {
    this.running = true;
    const problems = await Promise.all(Array.from({ length: PARALLEL }, () => this.#work(progress)));
    this.running = false;
    return problems.find(Boolean);
  }

  /** @param {() => void} progress */
  async #work(progress) {
    for (let at; this.running && (at = this.queue.shift()) !== undefined; progress()) {
      const row = this.ready[at];
      this.#sent.add(at);
      try {
        const { replayed } = await send("POST", "pets", row.pet ?? {}, { "Idempotency-Key": this.keyOf(row) });
        replayed ? this.repeated++ : this.added++;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (![400, 409, 413, 422].includes(error.status)) {
          this.pause();
          this.queue = [at, ...this.queue].sort((a, b) => a - b);
          return message(error);
        }
        this.#failed.add(at);
        this.rejected.push({ ...row, problems: [message(error), "", ""] });
      } finally {
        this.#sent.delete(at);
      }
      keep(NEXT, String(Math.min(...this.#sent, ...this.#failed, this.queue[0] ?? this.ready.length)));
    }
  }
}
