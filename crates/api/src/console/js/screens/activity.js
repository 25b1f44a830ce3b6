// Activity: the event log in words, by day, newest first, live.

import { go, hrefOf } from "../address.js";
import { get, getAll } from "../api.js";
import { act, load, titleList } from "../app.js";
import { batchSizes } from "../batch-sizes.js";
import { Bursts, dayOf, isSmall } from "../bursts.js";
import { dayName } from "../days.js";
import { button, el, empty, fill } from "../dom.js";
import { plural } from "../format.js";
import { liveList } from "../list.js";
import { names } from "../names.js";
import { can, canSee } from "../session.js";
import { loadStyles } from "../styles.js";
import { tabs } from "../tabs.js";
import { clockOf, timeOf, when } from "../times.js";
import { isUndoId, undoIdOf } from "../undo/batch.js";
import { burstSentence, isRedundant, petOf, sentence } from "../words.js";

/** @typedef {ReturnType<typeof liveList<StoreEvent | Burst>>} EventList */
/** @import { BatchSize, Burst, Filters, Mount, StoreEvent } from "../../types" */

/** @type {Record<string, string>} */
const TYPES = {
  pets: "pet.created,pet.updated,pet.deleted",
  orders: "order.placed,order.updated,order.completed,order.cancelled,order.returned",
  categories: "category.updated,category.deleted",
  keys: "key.created,key.rotated,key.revoked",
};
/** A usual page. */
const PAGE = 50;
/** A page of a burst, or of a log in which a person is looked for. */
const LONG_PAGE = 1000;
/** After this many long pages, a person decides whether to look further back. */
const MAX_PAGES = 60;
/** Events that arrive within this time are painted together, in milliseconds. */
const PAINT_AFTER = 100;
/** A batch of one of the oldest events that are loaded may have more. */
const TAIL = 50;

await loadStyles("log.css");

/** @param {Filters} filters */
const readFilters = ({ types = "", key = "" }) => ({
  types: Object.hasOwn(TYPES, types) ? types : "",
  key: /^\d{1,15}$/.test(key) ? key : "",
});

/** @type {Mount} */
export function mount(root, _, end, filters) {
  const [pets, orders, keys] = ["pet.", "order.", "key."].map(canSee);
  let filter = readFilters(filters);
  let bursts = new Bursts();
  /** @type {Map<string, string>} the batches that undo others, by those */
  const undoIds = new Map();
  /** @type {Set<StoreEvent | Burst>} the first entries of each day, which have its name above them */
  let firsts = new Set();
  /** Leaves out events that are told already: an order says all about the change of its animal, and a rotation about the new key. */
  const told = new Set();
  let longPages = 0;
  let painting = 0;
  let isDense = false;
  /** The oldest event that was loaded, whether it is shown or not. */
  let reached = "";
  /** @type {Set<string | undefined>} the batches of the oldest events that are loaded */
  let tail = new Set();

  /** @param {StoreEvent | Burst} entry @returns {entry is Burst} */
  const isBurst = (entry) => "events" in entry;

  const keyOf = (/** @type {StoreEvent | Burst} */ entry) => (isBurst(entry) ? entry.id : Number(entry.sequence));

  /** @type {EventList} */
  const list = liveList(end, {
    tag: "ol.sheet.log",
    key: keyOf,
    row: (entry) => (isBurst(entry) ? burstRow(entry) : rowOf(entry)),
    arrange(page, isFirst) {
      if (isFirst) {
        bursts = new Bursts();
        told.clear();
        sizes.clear();
      }
      page.forEach(tell);
      const before = bursts.all.length;
      for (const event of page) if (isWanted(event)) bursts.addOlder(event);
      isDense = bursts.all.length - before < page.length / 4;
      reached = page.at(-1)?.time ?? reached;
      tail = new Set(page.slice(-TAIL).map(({ batchid }) => batchid));
      return entries();
    },
    added: () => complete(),
    pageQuery(next) {
      const isLong = filter.key !== "" || isDense;
      longPages = isLong ? longPages + 1 : 0;
      return next.replace(/limit=\d+/, `limit=${isLong ? LONG_PAGE : PAGE}`);
    },
    isPaused: () => longPages >= MAX_PAGES,
    apply(event) {
      if (event.sequence <= (bursts.all[0]?.newest.sequence ?? "")) return;
      tell(event);
      if (!isWanted(event)) return;
      bursts.addNewer(event);
      sizes.forget(event);
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
    const all = bursts.entries.filter((entry) => isBurst(entry) || isWanted(entry));
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
  const rowOf = (event) => el("li", heading(event, event.time), sentence(event), timeOf(event.time, clockOf(event.time)), undoOf(event));
  /** @param {Burst} burst */
  const burstRow = (burst) => {
    const { newest, oldest, events } = burst;
    const size = sizeOf(burst);
    const from = clockOf(oldest.time);
    const to = clockOf(newest.time);
    return el("li", heading(burst, newest.time), el("details", { open: burst.isOpen, ontoggle: (/** @type {Event} */ { target }) => {
      burst.isOpen = /** @type {HTMLDetailsElement} */ (target).open;
    } }, el("summary", burstSentence(burst, size, isUndo(newest.batchid))), el("ol.log", events.map((event) => el("li", sentence(event), timeOf(event.time, clockOf(event.time))))),
    size.count > events.length && el("p.hint", `The newest ${events.length} are shown.`)),
    timeOf(newest.time, from === to ? to : `${from}–${to}`), undoOf(newest));
  };

  const isUndo = (id = "") => isUndoId(id) || [...undoIds.values()].includes(id);
  const sizes = batchSizes(end, () => ({ bursts: bursts.all, types: filter.types && TYPES[filter.types], isWhole: list.isWhole() }), () => list.paint());
  /** The number of events of a burst, of which some may not be loaded. @param {Burst} burst @returns {BatchSize} */
  const sizeOf = (burst) => {
    const { newest, types, count } = burst;
    const isOpenEnd = newest.batchid ? tail.has(newest.batchid) : burst === bursts.all.findLast(({ newest }) => !newest.batchid);
    return sizes.get(newest) ?? { types, count, isLeast: !list.isWhole() && isOpenEnd };
  };
  /** The newest event of a batch and the number of its events, as far as they are known. */
  const batchOf = (id = "") => {
    const days = bursts.all.filter(({ newest }) => newest.batchid === id);
    const all = days.map(sizeOf);
    return { sequence: days[0]?.newest.sequence ?? "", count: all.reduce((sum, { count }) => sum + count, 0), isLeast: all.some(({ isLeast }) => isLeast) };
  };
  /** The number of changes by which a batch was undone after its last one, unless that was undone, too. @returns {number} */
  const undoneOf = (id = "") => {
    const undoId = undoIds.get(id);
    const undo = batchOf(undoId);
    return undoId && undo.sequence > batchOf(id).sequence && !undoneOf(undoId) ? undo.count : 0;
  };
  /** The button that undoes the batch of an event: what is left of it, if animals were kept. @param {StoreEvent} event */
  const undoOf = (event) => {
    const { batchid = "" } = event;
    if (!batchid || !can("pets:write")) return el("div.undo");
    const undone = undoneOf(batchid);
    const { count, isLeast } = batchOf(batchid);
    // Its size will be known in a moment.
    if (undone && isLeast && !sizes.get(event)) return el("div.undo");
    if (undone >= count && !isLeast) return el("div.undo.muted", "undone");
    const control = button(undone ? "Undo the rest…" : "Undo…", "small", () => act(control, () => startUndo(batchid)), { "data-write": true });
    return el("div.undo", control);
  };
  const startUndo = async (id = "") => {
    const { showUndo, confirmUndo, findBatch } = await load(import("../undo/lazy.js"));
    const past = await findBatch(id, isUndo(id));
    if (!(await confirmUndo(past)) || end.aborted) return;
    content.hidden = true;
    showUndo(undoing, past, end, { label: "Back to the activity", go: endUndo });
  };
  const endUndo = () => {
    fill(undoing);
    content.hidden = false;
  };
  /** Finds out what has changed, and all names. */
  const complete = async () => {
    const events = list.items().flatMap((entry) => (isBurst(entry) ? entry.events : [entry]));
    for (const { type, data } of events) if (type === "pet.deleted" && !names.deleted.has(data.id)) names.deleted.set(data.id, data.name);
    await names.load(events.map(({ keyid }) => keyid), events.map(petOf));
    await names.loadDeleted(events.map(petOf));
    for (const { batchid } of events) if (batchid && !undoIds.has(batchid)) undoIds.set(batchid, await undoIdOf(batchid));
    list.paint();
    sizes.soon();
    const pairs = list.items().flatMap((entry) =>
      (isBurst(entry) ? (isSmall(entry) ? entry.events : []) : [entry]).map((event) => ({ key: keyOf(entry), event })));
    for (const { key, event } of pairs) {
      if (end.aborted) return;
      if (!event.type.endsWith(".updated") || "before" in event) continue;
      const { id, subject, sequence } = event;
      event.before = undefined;
      const older = events.find((other) => other.subject === subject && other.sequence < sequence);
      const page = older ? null : await get(`events?sort=desc&limit=1&after=${id}&subject=${subject}`).catch(() => null);
      event.before = older?.data ?? page?.data[0]?.data;
      list.paint([key]);
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
    for (const id of [filter.key, ...bursts.all.map(({ newest }) => newest.keyid ?? "")]) if (id) all.set(id, names.keys.get(id) ?? `key ${id}`);
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

  const undoing = el("div");
  const content = el("div", el("div.bar.filters", types.element, person), list.body, list.more);
  root.append(content, undoing);
  paintFilters();
  loadPeople();
  person.addEventListener("focus", paintPeople);
  if (pets) names.loadCategories().then(() => list.paint(), () => {});

  return {
    show(_, filters) {
      filter = readFilters(filters);
      endUndo();
      paintFilters();
    },
    onEvent: list.onEvent,
  };
}
