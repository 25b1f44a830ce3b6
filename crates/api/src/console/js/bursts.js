// Bursts: events that are shown as one, such as those of an import.

/** @import { Burst, StoreEvent } from "../types" */

/** More similar events in a row than this are shown as one. */
const MAX_SINGLE = 10;
/** The longest pause between two events in a row, in milliseconds. */
const PAUSE = 60_000;
/** The events of a burst that can be shown. */
const MAX_KEPT = 50;

export const dayOf = ({ time = "" }) => new Date(time).toDateString();

/** Returns true if one event continues a burst that has the other, which is of the same batch or of none, too. @param {StoreEvent} a @param {StoreEvent} b */
const belongs = (a, b) => !!a.batchid || (a.type.startsWith("pet.") && a.type === b.type && a.keyid === b.keyid &&
  Math.abs(Date.parse(a.time) - Date.parse(b.time)) <= PAUSE && dayOf(a) === dayOf(b));

/** The events of a batch are a burst on each day, whatever else happens between them. @param {StoreEvent} event */
const batchOf = (event) => `${event.batchid} ${dayOf(event)}`;
/** @param {Burst} burst */
const isSingle = ({ newest }) => !newest.batchid;

/** @param {StoreEvent} event @returns {Burst} */
const burstOf = (event) => ({ id: `burst ${event.batchid ? batchOf(event) : event.sequence}`, newest: event, oldest: event, count: 0, types: {}, events: [], isOpen: false });

/** The bursts of a log. */
export class Bursts {
  /** @type {Burst[]} newest first */
  all = [];
  /** @type {Map<string, Burst>} */
  #batches = new Map();

  /** Adds an event that is older than all others. @param {StoreEvent} event */
  addOlder(event) {
    const last = event.batchid ? this.#batches.get(batchOf(event)) : this.all.findLast(isSingle);
    const burst = last && belongs(last.oldest, event) ? last : this.#create(event);
    if (burst !== last) this.all.push(burst);
    burst.oldest = event;
    if (burst.events.length < MAX_KEPT) burst.events.push(event);
    count(burst, event);
  }

  /** Adds an event that is newer than all others. @param {StoreEvent} event */
  addNewer(event) {
    const first = event.batchid ? this.#batches.get(batchOf(event)) : this.all.find(isSingle);
    const burst = first && belongs(first.newest, event) ? first : this.#create(event);
    if (burst !== this.all[0]) this.all = [burst, ...this.all.filter((other) => other !== burst)];
    burst.newest = event;
    burst.events = [event, ...burst.events].slice(0, MAX_KEPT);
    count(burst, event);
  }

  /** @param {StoreEvent} event */
  #create(event) {
    const burst = burstOf(event);
    if (event.batchid) this.#batches.set(batchOf(event), burst);
    return burst;
  }

  /** The shown lines: bursts, and single events. @returns {(Burst | StoreEvent)[]} */
  get entries() {
    return this.all.flatMap((burst) => /** @type {(Burst | StoreEvent)[]} */ (isFolded(burst) ? [burst] : burst.events));
  }
}

/** @param {Burst} burst @param {StoreEvent} event */
function count(burst, { type }) {
  burst.count++;
  burst.types[type] = (burst.types[type] ?? 0) + 1;
}

/** @param {Burst} burst */
const isFolded = ({ count, newest }) => count > (newest.batchid ? 1 : MAX_SINGLE);

/** Returns true if each of its events can be told in full. @param {Burst} burst */
export const isSmall = ({ count }) => count <= MAX_SINGLE;
