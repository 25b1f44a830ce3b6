// The sizes of batches of which only the newest events are loaded.

import { ApiError, get } from "./api.js";
import { dayOf } from "./bursts.js";

/** @import { Burst, BatchSize, Result, StoreEvent } from "../types" */

const PER_REQUEST = 1000;
/** A batch is not counted beyond this number of requests. */
const MAX_REQUESTS = 100;
/** Batches are counted when no event has arrived for this time, in milliseconds. */
const QUIET = 500;

/** @param {BatchSize} size @param {string} type */
function add(size, type, number = 1) {
  size.count += number;
  size.types[type] = (size.types[type] ?? 0) + number;
}

/**
 * Counts batches by the events that are loaded and, in the log, those before them.
 * @param {AbortSignal} end
 * @param {() => { bursts: Burst[], types: string, isWhole: boolean }} loaded the bursts, the types that are shown, and whether the log is loaded as a whole
 * @param {() => void} changed
 */
export function batchSizes(end, loaded, changed) {
  /** @type {Map<string, Map<string, BatchSize>>} by batch and day */
  const sizes = new Map();
  let timer = 0;
  /** The batch that is being counted. */
  let current = "";
  let isRunning = false;
  let isWanted = false;
  let counting = new AbortController();
  const stop = () => {
    counting.abort();
    counting = new AbortController();
  };

  /** @param {string} id @param {Burst[]} bursts @param {string} types @param {AbortSignal} signal */
  const count = async (id, bursts, types, signal) => {
    /** @type {Map<string, BatchSize>} */
    const days = new Map();
    const ofDay = (/** @type {StoreEvent} */ event) => {
      const day = dayOf(event);
      const size = days.get(day) ?? { types: {}, count: 0, isLeast: false };
      days.set(day, size);
      return size;
    };
    for (const { newest, types } of bursts) for (const [type, number] of Object.entries(types)) add(ofDay(newest), type, number);
    const [oldest] = bursts.map(({ oldest }) => oldest).sort((a, b) => (a.sequence < b.sequence ? -1 : 1));
    let next = `?batch=${id}&sort=desc&limit=${PER_REQUEST}${types && `&types=${types}`}&after=${oldest.id}`;
    for (let requests = 0; next && requests < MAX_REQUESTS; requests++) {
      /** @type {Result} */
      const page = await get(`events${next}`, signal);
      for (const event of page.data) add(ofDay(event), event.type);
      next = page.next ?? "";
    }
    if (next) for (const size of days.values()) size.isLeast = true;
    sizes.set(id, days);
    changed();
  };

  const countAll = async () => {
    const { bursts, types, isWhole } = loaded();
    if (isWhole) return;
    const signal = AbortSignal.any([end, counting.signal]);
    for (const id of new Set(bursts.map(({ newest }) => newest.batchid ?? ""))) {
      if (!id || sizes.has(id)) continue;
      current = id;
      await count(id, bursts.filter(({ newest }) => newest.batchid === id), types, signal).catch((error) => {
        // It is counted again when something changes.
        if (!(error instanceof ApiError)) throw error;
      });
      if (signal.aborted) return;
    }
  };

  const run = async () => {
    if (isRunning) return void (isWanted = true);
    isRunning = true;
    try {
      do {
        isWanted = false;
        await countAll();
      } while (isWanted && !end.aborted);
    } finally {
      isRunning = false;
    }
  };

  return {
    /** The size of the part of a batch that is on the day of an event, if it is known. @param {StoreEvent} event */
    get: (event) => sizes.get(event.batchid ?? "")?.get(dayOf(event)),
    /** Counts in a moment. */
    soon() {
      clearTimeout(timer);
      timer = setTimeout(() => void (end.aborted || run()), QUIET);
    },
    /** A batch has another event. @param {StoreEvent} event */
    forget({ batchid = "" }) {
      if (sizes.delete(batchid) || current === batchid) stop();
    },
    clear() {
      sizes.clear();
      stop();
    },
  };
}
