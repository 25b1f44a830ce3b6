// Activity: the event log in words, newest first, live.

import { get } from "../api.js";
import { el, empty } from "../dom.js";
import { plural } from "../format.js";
import { liveList } from "../list.js";
import { names } from "../names.js";
import { canSee } from "../session.js";
import { tabs } from "../tabs.js";
import { timeOf } from "../times.js";
import { isRedundant, petOf, sentence } from "../words.js";

/** @import { Mount, StoreEvent } from "../../types" */

const TYPES = {
  pets: "pet.created,pet.updated,pet.deleted",
  orders: "order.placed,order.updated,order.completed,order.cancelled,order.returned",
  categories: "category.updated,category.deleted",
  keys: "key.created,key.rotated,key.revoked",
};

/** @type {Mount} */
export function mount(root, _, end) {
  const [pets, orders, keys] = ["pet.", "order.", "key."].map(canSee);
  let types = "";
  /** What is told already: an order says all about the change of its animal, and a rotation about the new key. */
  const told = new Set();

  const list = liveList(end, {
    tag: "ol.sheet.log",
    key: (/** @type {StoreEvent} */ { sequence }) => Number(sequence),
    row: (event) => el("li", sentence(event), timeOf(event.time)),
    matches: (event) => (!types || types.includes(event.type)) && !isRedundant(event) &&
      !(event.type === "pet.updated" && told.has(`${petOf(event)} ${event.time}`)) &&
      !(event.type === "key.created" && told.has(`${event.data.name} ${event.time}`)),
    added(page) {
      for (const event of page) tell(event);
      complete(page);
    },
    apply(event) {
      if (list.get(Number(event.sequence))) return;
      tell(event);
      list.take(event);
      complete([event]);
    },
    foot: (size, isLast) => !isLast ? "Scroll for more" : size ? plural(size, "event")
      : empty("Nothing has happened yet", el("p", "Whatever changes is listed here: what, when, and by whom.")),
  });

  /** @param {StoreEvent} event */
  const tell = (event) => {
    if (event.type.startsWith("order.") && (!types || types === TYPES.orders)) told.add(`${petOf(event)} ${event.time}`);
    if (event.type === "key.rotated") told.add(`${event.data.name} ${event.time}`);
  };

  /** Finds out what has changed, and all names. @param {StoreEvent[]} events */
  const complete = async (events) => {
    await names.load(events.map(({ keyid }) => keyid), events.map(petOf));
    list.paint();
    for (const event of events) {
      const { id, type, subject, sequence } = event;
      if (end.aborted || !list.get(Number(sequence))) continue;
      if (!type.endsWith(".updated") || event.before) continue;
      const older = list.items().find((other) => other.subject === subject && other.sequence < sequence);
      const page = older ? null : await get(`events?sort=desc&limit=1&after=${id}&subject=${subject}`).catch(() => null);
      event.before = older?.data ?? page?.data[0]?.data;
      list.paint([Number(sequence)]);
    }
  };

  root.append(tabs("Type", {
    "": "All",
    ...(pets && { [TYPES.pets]: "Animals" }),
    ...(orders && { [TYPES.orders]: "Orders" }),
    ...(pets && { [TYPES.categories]: "Categories" }),
    ...(keys && { [TYPES.keys]: "People" }),
  }, (value) => {
    types = value;
    told.clear();
    list.start(`events?sort=desc&limit=50${types && `&types=${types}`}`);
  }), list.body, list.more);
  if (pets) names.loadCategories().then(() => list.paint(), () => {});

  return { onEvent: list.onEvent };
}
