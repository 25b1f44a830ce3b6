// Activity: the event log in words, newest first, live.

import { el, fill } from "../dom.js";
import { exactly, plural, when } from "../format.js";
import { pagedList, tabs } from "../list.js";
import { describe } from "../words.js";

/** @import { Event } from "../api.js" */
/** @typedef {{ event: Event, item: HTMLElement, before?: any }} Entry */

const TYPES = {
  pets: "pet.created,pet.updated,pet.deleted",
  orders: "order.placed,order.completed,order.cancelled,order.returned",
  categories: "category.updated,category.deleted",
};
/** More new events than this, and the list is loaded again. */
const MAX_NEW = 500;

/** @type {import("../app.js").Mount} */
export function activity(root, app) {
  const { api, names } = app;
  const [pets, orders] = [app.can("pets:read"), app.can("orders:read")];
  let types = "";
  let added = 0;
  let mounted = true;
  /** @type {Entry[]} newest first */
  let entries = [];
  /** @type {Entry[]} whose state before is looked up */
  let unclear = [];
  /** @type {Map<number, string>} */
  const deleted = new Map();
  const log = el("ol", { class: "sheet log" });

  /** @param {Entry} entry */
  const paint = ({ event, item, before }) => {
    const { type, subject, time, data } = event;
    const id = type.startsWith("order.") ? data.petId : data.id;
    const isPet = !type.startsWith("category.");
    const name = data.name ?? (names.pets.get(id) || deleted.get(id) || `Animal ${id}`);
    const text = describe(event, before, names);
    fill(item, el("span", null, isPet && names.pets.get(id) ? el("a", { href: `#/animals/${id}` }, name) : el("b", null, isPet ? name : `Category ${name}`), `: ${text[0].toLowerCase()}${text.slice(1)}`, type.startsWith("order.") && `, order ${subject.slice(7)}`),
      el("time", { datetime: time, title: exactly(time) }, when(time)));
  };

  /** Whether an animal has changed because of an order: then the order says it all. @param {Event} pet @param {Event} [order] */
  const isTwin = (pet, order) => pet.type === "pet.updated" && order?.data.petId === pet.data.id && order?.time === pet.time;

  /** Finds out what has changed, names and all. @param {Entry[]} some */
  const complete = async (some) => {
    for (const entry of some) {
      if (entry.event.type === "pet.deleted") deleted.set(entry.event.data.id, entry.event.data.name);
      if (!entry.event.type.endsWith(".updated")) continue;
      const older = entries.slice(entries.indexOf(entry) + 1).find(({ event }) => event.subject === entry.event.subject);
      if (older) entry.before = older.event.data;
      else unclear.push(entry);
    }
    some.forEach(paint);
    const ids = some.map(({ event: { type, data } }) => (type.startsWith("order.") ? data.petId : type.startsWith("pet.") && data.id)).filter(Boolean);
    await Promise.all([pets && names.loadPets(ids), names.loadKeys(some.map(({ event }) => event.keyid))]).catch(() => {});
    some.forEach(paint);
    for (let entry; mounted && (entry = unclear.shift()); paint(entry)) {
      const { id, subject } = entry.event;
      const page = await api.get(`events?sort=desc&limit=1&after=${id}&subject=${subject}`).catch(() => null);
      entry.before ??= page?.data[0]?.data;
    }
  };

  const list = pagedList(app, {
    append(/** @type {Event[]} */ page) {
      const last = entries.at(-1);
      if (last && page[0] && isTwin(last.event, page[0])) entries.pop()?.item.remove();
      const some = page.filter((event, at) => !isTwin(event, page[at + 1])).map((event) => ({ event, item: el("li") }));
      entries.push(...some);
      log.append(...some.map(({ item }) => item));
      complete(some);
    },
    apply(event) {
      const newest = entries[0]?.event;
      if ((types && !types.includes(event.type)) || (newest && newest.sequence >= event.sequence) || isTwin(event, newest)) return;
      if (++added > MAX_NEW) return start(types);
      if (event.type.startsWith("pet.")) names.pets.set(event.data.id, event.type === "pet.deleted" ? "" : event.data.name);
      const entry = { event, item: el("li", { class: "changed" }) };
      entries.unshift(entry);
      log.prepend(entry.item);
      complete([entry]);
    },
    reload: () => start(types),
    foot: (isLast) => !isLast ? "Scroll for more" : entries.length ? plural(entries.length, "event")
      : el("div", { class: "empty" }, el("h2", null, "Nothing has happened yet"), el("p", null, "Whatever changes is listed here: what, when, and by whom.")),
  });

  const start = (/** @type {string} */ value) => {
    [types, added, entries, unclear] = [value, 0, [], []];
    names.pets.clear();
    fill(log);
    list.start("events", `?sort=desc&limit=50${types && `&types=${types}`}`);
  };
  root.append(tabs("Type", { "": "All", ...(pets && { [TYPES.pets]: "Animals" }), ...(orders && { [TYPES.orders]: "Orders" }), ...(pets && { [TYPES.categories]: "Categories" }) }, start), log, list.more);
  if (pets) names.loadCategories().then(() => entries.forEach(paint), () => {});

  return {
    onEvent: list.onEvent,
    unmount() {
      mounted = false;
      list.unmount();
    },
  };
}
