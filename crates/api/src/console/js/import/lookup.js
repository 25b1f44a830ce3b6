// The animals of the store that a table is about, by number and by microchip.

import { get } from "../api.js";
import { can } from "../session.js";

/** @import { ImportRecord, Pet, Result } from "../../types" */

/** Animals per request, and requests at a time: the till needs connections, too. */
const PER_REQUEST = 100;
const PARALLEL = 3;

/**
 * Runs tasks, a few at a time. Stops at the first error.
 * @param {(() => Promise<void>)[]} tasks
 * @param {AbortSignal} signal
 * @param {(done: number, all: number) => void} progress
 */
async function runAll(tasks, signal, progress) {
  let [next, done] = [0, 0];
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
 * sold; for many of them, reading all animals takes fewer requests.
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
  if (!can("pets:read")) return { byId, byChip };
  const ids = [...new Set(records.flatMap(({ id }) => id ?? []))];
  const chips = [...new Set(records.flatMap(({ members }) => members.microchip ?? []))];
  const { total } = chips.length > PER_REQUEST ? (await get("store/inventory", signal)).data : { total: Infinity };
  if (total / PER_REQUEST < ids.length / PER_REQUEST + chips.length) {
    let done = 0;
    for (let next = "?limit=100"; next;) {
      /** @type {Result} */
      const page = await get(`pets${next}`, signal);
      take(page.data);
      next = page.next ?? "";
      progress((done += page.data.length), Math.max(total, done));
    }
    return { byId, byChip };
  }
  const tasks = [];
  for (let at = 0; at < ids.length; at += PER_REQUEST) {
    tasks.push(async () => take((await get(`pets?limit=100&id=${ids.slice(at, at + PER_REQUEST)}`, signal)).data));
  }
  for (const chip of chips) tasks.push(async () => take((await get(`pets?microchip=${chip}&limit=100`, signal)).data));
  await runAll(tasks, signal, progress);
  return { byId, byChip };
}
