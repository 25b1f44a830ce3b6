// The animals of the store that a table is about, by number and by microchip.

import { get } from "../api.js";

/** @import { ImportRecord, Pet, Result } from "../../types" */

/** Animals per request, and requests at a time: the till needs connections, too. */
const PER_REQUEST = 100;
const PARALLEL = 3;
/** More microchips than this are not looked up one by one, if reading all animals takes fewer requests. */
const MAX_SINGLE_CHIPS = 200;
/** The requests that a preview is worth. Beyond, the service finds out which microchips are taken. */
const MAX_REQUESTS = 5000;

/**
 * Runs tasks, a few at a time. Stops at the first error.
 * @param {(() => Promise<void>)[]} tasks
 * @param {AbortSignal} signal
 * @param {(done: number, all: number) => void} progress
 */
async function runAll(tasks, signal, progress) {
  let next = 0;
  let done = 0;
  const work = async () => {
    while (next < tasks.length && !signal.aborted) {
      await tasks[next++]();
      progress(++done, tasks.length);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
}

/**
 * Finds the animals that have the numbers and the microchips of records. A microchip is that of an animal which is not
 * sold. `unknownChips` is the number of those that were not looked up.
 * @param {ImportRecord[]} records
 * @param {AbortSignal} signal
 * @param {(done: number, all: number) => void} progress
 */
export async function findAnimals(records, signal, progress) {
  /** @type {Map<number, Pet>} */
  const byId = new Map();
  /** @type {Map<string, Pet>} */
  const byChip = new Map();
  const take = (/** @type {Pet[]} */ pets) => {
    for (const pet of pets) {
      byId.set(pet.id, pet);
      if (pet.microchip && pet.status !== "sold") byChip.set(pet.microchip, pet);
    }
  };

  const ids = [...new Set(records.flatMap(({ id }) => id ?? []))];
  const byNumber = [];
  for (let at = 0; at < ids.length; at += PER_REQUEST) {
    byNumber.push(async () => take((await get(`pets?limit=${PER_REQUEST}&id=${ids.slice(at, at + PER_REQUEST)}`, signal)).data));
  }
  await runAll(byNumber, signal, progress);

  // Those of the animals that were found by number are known: all, if the table is an export of the store.
  const chips = [...new Set(records.flatMap(({ members }) => members.microchip ?? []))].filter((chip) => !byChip.has(chip));
  const { total } = chips.length > MAX_SINGLE_CHIPS ? (await get("store/inventory", signal)).data : { total: Infinity };
  const pages = Math.ceil(total / PER_REQUEST);
  if (Math.min(pages, chips.length) > MAX_REQUESTS) return { byId, byChip, unknownChips: chips.length };
  if (pages < chips.length) {
    const wanted = new Set(chips);
    let done = 0;
    for (let next = `?limit=${PER_REQUEST}`; next;) {
      /** @type {Result} */
      const page = await get(`pets${next}`, signal);
      take(page.data.filter((/** @type {Pet} */ { microchip = "" }) => wanted.has(microchip)));
      next = page.next ?? "";
      progress((done += page.data.length), Math.max(total, done));
    }
  } else await runAll(chips.map((chip) => async () => take((await get(`pets?microchip=${chip}&limit=${PER_REQUEST}`, signal)).data)), signal, progress);
  return { byId, byChip, unknownChips: 0 };
}
