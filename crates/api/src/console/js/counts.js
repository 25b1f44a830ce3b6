// The number of animals of each status that match the other filters. A click shows only those.

import { getKept } from "./api.js";
import { loadOrRetry } from "./app.js";
import { el } from "./dom.js";
import { count } from "./format.js";

/** @import { Filters } from "../types" */

const LABELS = { "": "all", available: "available", pending: "pending", sold: "sold" };
export const STATUSES = ["available", "pending", "sold"];
/** Changes of others are counted after this time, and numbers of other filters are hidden after this one, in milliseconds. */
const SOON = 300;
const STALE_AFTER = 200;

/**
 * @param {AbortSignal} end
 * @param {(status: string) => void} choose
 * @param {() => void} changed
 */
export function statusCounts(end, choose, changed) {
  /** @type {{ total?: number, atLeast?: boolean, [status: string]: any }} */
  let counts = {};
  let timer = 0;
  let stale = 0;
  let query = "";
  let isCounted = true;
  const buttons = Object.entries(LABELS).map(([status, label]) => {
    const number = el("b", "–");
    return { status, number, element: el("button.count", { type: "button", class: `count ${status}`, onclick: () => choose(status) }, number, ` ${label}`) };
  });
  const others = el("span.count", { hidden: true });

  const of = (status = "") => counts[status || "total"];
  const paint = () => {
    const without = counts.total === undefined || counts.atLeast ? 0 : STATUSES.reduce((rest, status) => rest - counts[status], counts.total);
    for (const { status, number } of buttons) number.textContent = of(status) === undefined ? "–" : textOf(of(status));
    others.hidden = !(without > 0);
    others.replaceChildren(el("b", count(without)), " not for sale");
    changed();
  };
  /** Of many matches, the service counts only the newest. */
  const textOf = (value = 0) => `${count(value)}${counts.atLeast ? "+" : ""}`;

  /** The filters may have changed before the response. */
  const load = () => loadOrRetry(async () => {
    timer = 0;
    const wanted = query;
    if (!isCounted) return;
    const result = await getKept(`store/inventory${wanted}`, end);
    if (wanted !== query || !isCounted || end.aborted) return;
    clearTimeout(stale);
    counts = result.data;
    paint();
    return result;
  }, end);

  return {
    element: el("div.counts", { role: "group", "aria-label": "Status" }, buttons.map(({ element }) => element), others),
    /** The number of animals of a status, if it is known. */
    of,
    textOf,
    /** True if the store has no animals at all. */
    isEmpty: () => !query && counts.total === 0,
    /** Counts what matches the other filters; nothing, if these are null. @param {Filters | null} filters */
    show(filters, chosen = "") {
      for (const { status, element } of buttons) element.ariaPressed = String(status === chosen);
      const wasCounted = isCounted;
      isCounted = filters !== null;
      if (filters === null) {
        clearTimeout(stale);
        counts = {};
        return paint();
      }
      const search = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
      const now = search.size ? `?${search}` : "";
      if (now !== query || !wasCounted) {
        counts = {};
        clearTimeout(stale);
        stale = setTimeout(paint, STALE_AFTER);
      }
      query = now;
      load();
    },
    /** The counts follow, but not each change. */
    refresh: () => void (timer ||= setTimeout(load, SOON)),
  };
}
