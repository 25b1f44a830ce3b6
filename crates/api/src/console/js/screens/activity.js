// Activity: the event log in words, by day, newest first, live.

import { go, hrefOf } from "../address.js";
import { get, getAll } from "../api.js";
import { titleList } from "../app.js";
import { addNewer, addOlder, dayOf, entriesOf, isFolded } from "../bursts.js";
import { dayName } from "../days.js";
import { button, el, empty, fill } from "../dom.js";
import { plural } from "../format.js";
import { liveList } from "../list.js";
import { names } from "../names.js";
import { can, canSee } from "../session.js";
import { tabs } from "../tabs.js";
import { clockOf, timeOf, when } from "../times.js";
import { burstSentence, isRedundant, petOf, sentence } from "../words.js";

/** @typedef {ReturnType<typeof liveList<StoreEvent | Burst>>} EventList */
/** @import { Burst, Filters, Mount, StoreEvent } from "../../types" */

/** @type {Record<string, string>} */
const TYPES = {
  pets: "pet.created,pet.updated,pet.deleted",
  orders: "order.placed,order.updated,order.completed,order.cancelled,order.returned",
  categories: "category.updated,category.deleted",
  keys: "key.created,key.rotated,key.revoked",
};
/** A usual page; one of a burst, or of a log in which a person is looked for. */
const [PAGE, LONG_PAGE] = [50, 1000];
/** After this many long pages, a person decides whether to look further back. */
const MAX_PAGES = 60;
/** Events that arrive within this time are painted together, in milliseconds. */
const PAINT_AFTER = 100;

/** @param {Filters} filters */
const readFilters = ({ types = "", key = "" }) => ({
  types: Object.hasOwn(TYPES, types) ? types : "",
  key: /^\d{1,15}$/.test(key) ? key : "",
});

/** @type {Mount} */
export function mount(root, _, end, filters) {
  const [pets, orders, keys] = ["pet.", "order.", "key."].map(canSee);
  let filter = readFilters(filters);
  /** @type {Burst[]} newest first */
  let bursts = [];
  /** @type {Set<StoreEvent | Burst>} the first entries of each day, which have its name above them */
  let firsts = new Set();
  /** What is told already: an order says all about the change of its animal, and a rotation about the new key. */
  const told = new Set();
  let [longPages, painting] = [0, 0];
  /** The oldest event that was loaded, whether it is shown or not. */
  let reached = "";

  /** @param {StoreEvent | Burst} entry @returns {entry is Burst} */
  const isBurst = (entry) => "events" in entry;

  /** @type {EventList} */
  const list = liveList(end, {
    tag: "ol.sheet.log",
    key: (entry) => (isBurst(entry) ? entry.id : Number(entry.sequence)),
    row: (entry) => (isBurst(entry) ? burstRow(entry) : rowOf(entry)),
    arrange(page, isFirst) {
      if (isFirst) {
        bursts = [];
        told.clear();
      }
      page.forEach(tell);
      for (const event of page) if (isWanted(event)) addOlder(bursts, event);
      reached = page.at(-1)?.time ?? reached;
      return entries();
    },
    added: () => complete(),
    pageQuery(next) {
      const last = bursts.at(-1);
      const isLong = filter.key !== "" || (last !== undefined && isFolded(last));
      longPages = isLong ? longPages + 1 : 0;
      return next.replace(/limit=\d+/, `limit=${isLong ? LONG_PAGE : PAGE}`);
    },
    isPaused: () => longPages >= MAX_PAGES,
    apply(event) {
      if (event.sequence <= (bursts[0]?.newest.sequence ?? "")) return;
      tell(event);
      if (!isWanted(event)) return;
      addNewer(bursts, event);
      painting ||= setTimeout(() => {
        painting = 0;
        if (end.aborted) return;
        list.set(entries());
        complete();
      }, PAINT_AFTER);
    },
    foot(size, isLast) {
      if (!isLast && longPages >= MAX_PAGES) return el("div", el("p", `Looked back to ${when(reached)}.`), button("Look further back", "", lookBack));
      if (!isLast) return "Scroll for more";
      if (size) return plural(list.items().reduce((sum, entry) => sum + (isBurst(entry) ? entry.count : 1), 0), "event");
      return filter.types || filter.key ? empty("Nothing like this has happened", button("Show everything", "", () => go("#/activity")))
        : empty("Nothing has happened yet", el("p", "Whatever changes is listed here: what, when, and by whom."));
    },
  });

  /** An event may be told by a later one. */
  const entries = () => {
    const all = entriesOf(bursts).filter((entry) => isBurst(entry) || isWanted(entry));
    const days = all.map((entry) => dayOf(isBurst(entry) ? entry.newest : entry));
    firsts = new Set(all.filter((_, at) => days[at] !== days[at - 1]));
    return all;
  };
  const lookBack = () => {
    longPages = 0;
    list.loadMore();
  };

  /** @param {StoreEvent} event */
  const tell = (event) => {
    if (event.type.startsWith("order.") && (!filter.types || filter.types === "orders")) told.add(`${petOf(event)} ${event.time}`);
    if (event.type === "key.rotated") told.add(`${event.data.name} ${event.time}`);
  };

  /** @param {StoreEvent} event */
  const isWanted = (event) => (!filter.types || TYPES[filter.types].split(",").includes(event.type)) &&
    (!filter.key || event.keyid === filter.key) && !isRedundant(event) &&
    !(event.type === "pet.updated" && told.has(`${petOf(event)} ${event.time}`)) &&
    !(event.type === "key.created" && told.has(`${event.data.name} ${event.time}`));

  /** @param {StoreEvent | Burst} entry */
  const heading = (entry, time = "") => el("h2.day", { hidden: !firsts.has(entry) }, dayName(time));
  /** @param {StoreEvent} event */
  const rowOf = (event) => el("li", heading(event, event.time), sentence(event), timeOf(event.time, clockOf(event.time)));
  /** @param {Burst} burst */
  const burstRow = (burst) => {
    const { newest, oldest, events, count } = burst;
    const [from, to] = [clockOf(oldest.time), clockOf(newest.time)];
    return el("li", heading(burst, newest.time), el("details", { open: burst.isOpen, ontoggle: (/** @type {Event} */ { target }) => {
      burst.isOpen = /** @type {HTMLDetailsElement} */ (target).open;
    } }, el("summary", burstSentence(burst)), el("ol.log", events.map((event) => el("li", sentence(event), timeOf(event.time, clockOf(event.time))))),
    count > events.length && el("p.hint", `The newest ${events.length} are shown.`)),
    timeOf(newest.time, from === to ? to : `${from}–${to}`));
  };
  /** Finds out what has changed, and all names. */
  const complete = async () => {
    const events = list.items().flatMap((entry) => (isBurst(entry) ? entry.events : [entry]));
    await names.load(events.map(({ keyid }) => keyid), events.map(petOf));
    list.paint();
    for (const event of list.items()) {
      if (end.aborted) return;
      if (isBurst(event) || !event.type.endsWith(".updated") || "before" in event) continue;
      const { id, subject, sequence } = event;
      event.before = undefined;
      const older = events.find((other) => other.subject === subject && other.sequence < sequence);
      const page = older ? null : await get(`events?sort=desc&limit=1&after=${id}&subject=${subject}`).catch(() => null);
      event.before = older?.data ?? page?.data[0]?.data;
      list.paint([Number(sequence)]);
    }
  };

  /** @param {Partial<typeof filter>} change */
  const find = (change) => go(hrefOf("activity", "", { ...filter, ...change }));
  const types = tabs("Type", {
    "": "All",
    ...(pets && { pets: "Animals" }),
    ...(orders && { orders: "Orders" }),
    ...(pets && { categories: "Categories" }),
    ...(keys && { keys: "People" }),
  }, (types) => find({ types }));
  const person = el("select", { "aria-label": "Person", onchange: () => find({ key: person.value }) });

  /** @type {[string, string][]} */
  let people = [];
  const paintPeople = () => {
    const all = new Map(people);
    for (const id of [filter.key, ...bursts.map(({ newest }) => newest.keyid ?? "")]) if (id) all.set(id, names.keys.get(id) ?? `key ${id}`);
    const sorted = [...all].sort(([, a], [, b]) => a.localeCompare(b));
    fill(person, [["", "Everyone"], ...sorted].map(([value, label]) => el("option", { value }, label)));
    person.value = filter.key;
  };
  const loadPeople = async () => {
    if (!can("keys:read")) return;
    people = (await getAll("keys").catch(() => [])).filter(({ invitation }) => !invitation).map(({ id, name }) => [String(id), name]);
    for (const [id, name] of people) names.keys.set(id, name);
    paintPeople();
  };

  const paintFilters = () => {
    longPages = 0;
    types.press(filter.types);
    paintPeople();
    titleList([filter.types, filter.key && `by ${names.keys.get(filter.key) ?? `key ${filter.key}`}`]);
    const limit = filter.key ? LONG_PAGE : PAGE;
    list.start(`events?sort=desc&limit=${limit}${filter.types && `&types=${TYPES[filter.types]}`}`);
  };

  root.append(el("div.bar.filters", types.element, person), list.body, list.more);
  paintFilters();
  loadPeople();
  person.addEventListener("focus", paintPeople);
  if (pets) names.loadCategories().then(() => list.paint(), () => {});

  return {
    show(_, filters) {
      filter = readFilters(filters);
      paintFilters();
    },
    onEvent: list.onEvent,
  };
}
