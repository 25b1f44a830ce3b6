// Bursts: many similar events in a row, such as an import, which are shown as one.

/** @import { Burst, StoreEvent } from "../types" */

/** More events than this are shown as one. */
const MAX_SINGLE = 10;
/** The longest pause between two events of a burst, in milliseconds. */
const PAUSE = 60_000;
/** The events of a burst that can be shown. */
const MAX_KEPT = 50;

export const dayOf = ({ time = "" }) => new Date(time).toDateString();

/** Whether one event continues a burst that has the other. @param {StoreEvent} a @param {StoreEvent} b */
const belongs = (a, b) => a.type.startsWith("pet.") && a.type === b.type && a.keyid === b.keyid &&
  Math.abs(Date.parse(a.time) - Date.parse(b.time)) <= PAUSE && dayOf(a) === dayOf(b);

/** @param {StoreEvent} event @returns {Burst} */
const burstOf = (event) => ({ id: `burst ${event.sequence}`, newest: event, oldest: event, count: 1, events: [event], isOpen: false });

/** @param {Burst[]} bursts newest first @param {StoreEvent} event */
export function addOlder(bursts, event) {
  const last = bursts.at(-1);
  if (!last || !belongs(last.oldest, event)) return void bursts.push(burstOf(event));
  last.oldest = event;
  last.count++;
  if (last.events.length < MAX_KEPT) last.events.push(event);
}

/** @param {Burst[]} bursts newest first @param {StoreEvent} event */
export function addNewer(bursts, event) {
  const [first] = bursts;
  if (!first || !belongs(first.newest, event)) return void bursts.unshift(burstOf(event));
  first.newest = event;
  first.count++;
  first.events = [event, ...first.events].slice(0, MAX_KEPT);
}

/** @param {Burst} burst */
export const isFolded = ({ count }) => count > MAX_SINGLE;

/** What is shown: bursts, and single events. @param {Burst[]} bursts @returns {(Burst | StoreEvent)[]} */
export const entriesOf = (bursts) => bursts.flatMap((burst) => /** @type {(Burst | StoreEvent)[]} */ (isFolded(burst) ? [burst] : burst.events));
