// Reads a report again after events that change it.

import { localDay } from "../days.js";

/** @import { Days, StoreEvent } from "../../types" */

/** The pause after a change, in which others follow, in milliseconds. */
const SOON = 1000;
/** The least pause between two readings. */
const PAUSE = 5000;

/**
 * Reads again what has changed: soon, but only every few seconds, and not while the page is hidden.
 * @param {() => Promise<void>} read
 * @param {AbortSignal} end
 */
export function follower(read, end) {
  let isChanged = false;
  let timer = 0;
  let last = 0;
  const follow = () => {
    if (!isChanged || timer || document.hidden || end.aborted) return;
    timer = setTimeout(async () => {
      if (!document.hidden && !end.aborted) {
        isChanged = false;
        await read();
        last = Date.now();
      }
      timer = 0;
      follow();
    }, Math.max(SOON, last + PAUSE - Date.now()));
  };
  document.addEventListener("visibilitychange", follow, { signal: end });
  end.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    isChanged = true;
    follow();
  };
}

/** @param {Days} days */
const contains = ({ from, to }, day = "") => from <= day && day <= to;

/** Returns true if an event of an order changes the sales of these days. @param {StoreEvent} event @param {Days} days */
export function changesSales({ type, data: { completedAt, returnedAt } }, days) {
  /** @type {Record<string, string[]>} */
  const times = { "order.completed": [completedAt], "order.returned": [returnedAt], "order.updated": [completedAt, returnedAt] };
  return (times[type] ?? []).some((time) => time && contains(days, localDay(time)));
}

/**
 * Returns true if an event changes the register of these days, which shows these animals.
 * @param {StoreEvent} event
 * @param {Days} days
 * @param {Set<number>} shown
 */
export function changesRegister(event, days, shown) {
  const { type, data } = event;
  if (type.startsWith("order.")) return shown.has(data.petId) || changesSales(event, days);
  return type.startsWith("pet.") && (shown.has(data.id) || contains(days, data.acquiredOn));
}
