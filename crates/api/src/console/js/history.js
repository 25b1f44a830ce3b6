// The history of an animal or an order: its events, newest first, with what has changed.

import { get, getKept } from "./api.js";
import { actButton, loadOrRetry } from "./app.js";
import { changesOf, headline } from "./changes.js";
import { el, fill } from "./dom.js";
import { stringify } from "./json.js";
import { names } from "./names.js";
import { can } from "./session.js";
import { minuteOf, timeOf } from "./times.js";

/** @import { Order, StoreEvent } from "../types" */

/** The number of events of a resource that are loaded at a time. */
const PAGE = 50;
/** The number of orders of an animal that are loaded. */
const ORDERS = 5;

/**
 * The events of one resource.
 * @typedef {{ subject: string, events: Map<string, StoreEvent>, next: string }} Source
 */

/**
 * The history of `pets/ID`, with that of its orders, or of `orders/ID`.
 * @param {string} subject
 * @param {AbortSignal} end
 * @param {(newest: StoreEvent | undefined) => void} painted
 */
export function historyOf(subject, end, painted = () => {}) {
  const petId = subject.match(/^pets\/(\d+)$/)?.[1];
  /** @type {Map<string, Source>} */
  const sources = new Map();
  /** The query for more orders of an animal. */
  let moreOrders = "";
  /** The time of the oldest event of the log, if older ones of this history are not kept; "none" if the log is empty. */
  let start = "";
  let isLoaded = false;

  const list = el("ol.log");
  const note = el("p.hint");
  const more = actButton("Show older", "small", () => loadMore());
  const element = el("div.history", list, note, more);

  /** @param {string} subject */
  const sourceOf = (subject) => {
    const source = sources.get(subject) ?? { subject, events: new Map(), next: "" };
    sources.set(subject, source);
    return source;
  };

  /** @param {Source} source @param {string} query */
  const loadPage = async (source, query) => {
    const page = await getKept(`events${query}`);
    for (const event of page.data) source.events.set(event.sequence, event);
    source.next = page.next ?? "";
    return page;
  };
  /** @param {string} subject */
  const loadFirst = (subject) => loadPage(sourceOf(subject), `?subject=${subject}&sort=desc&limit=${PAGE}`);

  const loadOrders = async (query = "") => {
    const page = await getKept(`store/orders${query}`);
    moreOrders = page.next ?? "";
    await Promise.all(page.data.map((/** @type {Order} */ { id }) => loadFirst(`orders/${id}`)));
  };

  /** The events of a resource, newest first, without the last one if the state before it is not loaded. @param {Source} source */
  const entriesOf = ({ events, next }) => {
    const sorted = [...events.values()].sort((a, b) => (a.sequence < b.sequence ? 1 : -1));
    const entries = sorted.map((event, at) => ({ ...event, before: sorted[at + 1]?.data }));
    return next ? entries.slice(0, -1) : entries;
  };

  /** Whatever is older than the last loaded event of a resource that has more is shown with those. */
  const entries = () => {
    const all = [...sources.values()].map((source) => ({ next: source.next, shown: entriesOf(source) }));
    const open = all.filter(({ next }) => next).map(({ shown }) => shown.at(-1)?.sequence ?? "");
    if (moreOrders) open.push(all.slice(1).map(({ shown }) => shown.at(-1)?.sequence ?? "").sort()[0]);
    const from = open.sort().at(-1) ?? "";
    const merged = all.flatMap(({ shown }) => shown).filter(({ sequence }) => sequence >= from);
    // An order says all about the status of its animal.
    const told = new Set(merged.filter(({ type }) => type.startsWith("order.")).map(({ time }) => time));
    return merged.filter((event) => !(petId && event.type === "pet.updated" && told.has(event.time) && isStatusOnly(event)))
      .sort((a, b) => (a.sequence < b.sequence ? 1 : -1));
  };

  const hasMore = () => Boolean(moreOrders) || [...sources.values()].some(({ next }) => next);

  const paint = async () => {
    const all = entries();
    await names.load(all.map(({ keyid }) => keyid));
    if (end.aborted) return;
    fill(list, all.map((event) => el("li",
      el("span", headline(event, petId ? `#/${event.subject}` : ""), el("div.changes", changesOf(event))), timeOf(event.time))));
    const isLast = !hasMore();
    if (isLast && more === document.activeElement) list.closest("aside")?.querySelector("h2")?.focus();
    more.hidden = isLast;
    fill(note, isLoaded && isLast && start && noteOf(start));
    painted(all[0]);
  };

  /** Looks up since when events are kept if the first one of this history is not among them. */
  const findStart = async () => {
    const first = entriesOf(sourceOf(subject)).at(-1);
    // The undo of a deletion creates an animal again, which has a history before it.
    const isComplete = /^(pet.created|order.placed)$/.test(first?.type ?? "") && !first?.batchid?.startsWith("undo-");
    if (hasMore() || isComplete) return (start = "");
    const oldest = (await get("events?limit=1")).data[0];
    start = oldest?.time ?? "none";
  };

  const loadMore = async () => {
    const open = [...sources.values()].filter(({ next }) => next);
    await Promise.all([...open.map((source) => loadPage(source, source.next)), moreOrders && loadOrders(moreOrders)]);
    await findStart();
    await paint();
  };

  loadOrRetry(async () => {
    const [page] = await Promise.all([
      loadFirst(subject),
      petId && can("orders:read") && loadOrders(`?petId=${petId}&sort=desc&limit=${ORDERS}`),
    ]);
    await findStart();
    isLoaded = true;
    await paint();
    return page;
  }, end);

  return {
    element,
    /** An event that has just happened. @param {StoreEvent} event */
    add(event) {
      sourceOf(event.subject).events.set(event.sequence, event);
      paint();
    },
    paint,
  };
}

/** @param {StoreEvent} event */
const isStatusOnly = ({ data, before }) =>
  before && stringify({ ...before, status: "" }) === stringify({ ...data, status: "" });

/** Explains why a history does not begin at the beginning. @param {string} start */
const noteOf = (start) => (start === "none" ? "The log of changes is empty: what happened before is not kept."
  : el("span", "The log of changes starts on ", timeOf(start, minuteOf(start)), ". What happened before is not kept."));
