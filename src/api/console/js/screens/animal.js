// One animal: selling it, editing it, its history.

import { FIELDS, LABELS, animalFields, changes, valuesOf } from "../animal-fields.js";
import { ApiError } from "../api.js";
import { confirm, message, toast } from "../app.js";
import { button, el, fill, refill } from "../dom.js";
import { ago, exactly, left, when } from "../format.js";
import { describe } from "../words.js";

/** @import { Event, Order, Pet } from "../api.js" */
/** @import { Values } from "../animal-fields.js" */

/** The status of an order while it has an animal of this status. */
const CLAIMS = { available: "", pending: "placed", sold: "completed" };
/** The status of an animal whose order gets this status. */
const OUTCOMES = /** @type {const} */ ({ placed: "pending", completed: "sold", cancelled: "available", returned: "available" });

/**
 * The panel of an animal.
 * @param {import("../app.js").App} app
 * @param {Pet} pet
 * @param {(event: Pick<Event, "type" | "data">) => void} changed tells the list
 */
export function animalPanel(app, pet, changed) {
  const { api, names } = app;
  const { id } = pet;
  /** @type {Order | null | undefined} its latest order; null: it has none; undefined: not known */
  let order;
  /** @type {Event[]} newest first */
  let events = [];
  /** @type {string | null} the query for older events */
  let older = null;
  /** The values that the form started from. */
  let base = valuesOf(pet);

  const title = el("h2", { tabindex: -1 });
  const meta = el("p", { class: "meta" });
  const problem = el("div", { role: "alert" });
  const sale = el("div", { "aria-live": "polite" });
  const time = el("span");
  const fields = animalFields(names, base);
  const save = el("button", { class: "btn primary", "data-write": true }, "Save changes");
  const discard = button("Discard", { class: "btn", onclick: () => ((fields.values = base = valuesOf(pet)), paintForm()) });
  const saving = el("div", { class: "actions" }, save, discard);
  const conflict = el("div", { class: "conflict" });
  const form = el("form", null, el("h3", null, "Details"), conflict, ...fields.elements, saving);
  const history = el("ol", { class: "log" });
  const foot = el("div", { class: "foot" });
  const element = el("aside", { class: "panel", "aria-label": "Animal" }, title, meta, problem, sale,
    app.can("pets:write") && form, el("h3", null, "History"), history, foot,
    el("a", { class: "close", href: "#/animals", "aria-label": "Close" }, "×"));

  /** Whether its order decides about its status. */
  const isClaimed = () => Boolean(pet.status && order?.status === CLAIMS[pet.status]);
  /** @param {string} text */
  const warn = (text) => fill(problem, text && el("div", { class: "notice danger" }, text));

  const paint = () => {
    title.textContent = pet.name;
    const [last] = events;
    meta.textContent = `${names.category(pet.categoryId)} · id ${id}${last ? ` · changed ${ago(last.time)} by ${names.who(last.keyid)}` : ""}`;
    fields.locked = isClaimed();
    paintSale();
    paintForm();
  };

  const paintTime = () => {
    const rest = order?.expiresAt && new Date(order.expiresAt).getTime() - Date.now();
    time.textContent = rest ? (rest > 0 ? `${left(rest)} left` : "expired") : "";
  };
  const timer = setInterval(paintTime, 1000);

  const paintSale = () => {
    const claim = isClaimed() && `order ${order?.id}`;
    /** @param {string} kind @param {...import("../dom.js").Child} content */
    const notice = (kind, ...content) => el("div", { class: `notice ${kind}` }, ...content);
    /** @param {...HTMLElement} buttons */
    const actions = (...buttons) => app.can("orders:write") && el("div", { class: "actions" }, ...buttons);
    paintTime();
    const hadFocus = sale.contains(document.activeElement);
    refill(sale, `${pet.status} ${claim} ${order === undefined}`, () => {
      if (pet.status === "available") return [notice("ok", "Available"), actions(step("Reserve", "", "primary"))];
      if (!pet.status) return [notice("", "Not for sale: it has no status")];
      if (!claim) return [notice("", `Marked as ${pet.status}${order === undefined ? "" : ", without an order"}`)];
      if (pet.status === "sold") return [notice("", el("span", null, `Sold, ${claim}`), when(order?.updatedAt ?? "")), actions(step("Return", "return", ""))];
      return [notice("warn", el("span", null, `Reserved, ${claim}`), time), actions(step("Complete sale", "complete", "primary"), step("Cancel", "cancel", ""))];
    });
    if (hadFocus && !sale.contains(document.activeElement)) title.focus();
  };

  /** A button that places an order, or moves it on. @param {string} label @param {string} path @param {string} kind */
  const step = (label, path, kind, post = api.once()) => app.button(label, kind, async () => {
    warn("");
    takeOrder((await (path ? post(`store/orders/${order?.id}/${path}`) : post("store/orders", { petId: id }))).data);
  }, async (error) => {
    if (error.status !== 409) return false;
    const [{ data }] = await Promise.all([api.get(`pets?id=${id}`), loadOrder()]);
    if (data[0]) update(data[0]);
    const now = pet.status === "pending" ? "reserved" : (pet.status ?? "not for sale");
    warn(`Somebody was faster: ${pet.name} is ${now}${isClaimed() ? `, order ${order?.id}` : ""}.`);
    // Not on a button that would change the order of somebody else.
    title.focus();
  });

  /** Responses and events may overtake each other. @param {Order} now */
  const isNewer = (now) => !order || now.id > order.id || (now.id === order.id && Date.parse(now.updatedAt) >= Date.parse(order.updatedAt));

  /** The event of the animal follows; until then the two would not agree. @param {Order} now */
  const takeOrder = (now) => {
    if (!isNewer(now)) return;
    order = now;
    update({ ...pet, status: OUTCOMES[now.status] });
  };

  const paintForm = () => (saving.hidden = conflict.hasChildNodes() || !Object.keys(changes(fields.values, base)).length);

  /** Takes a new state, but not over what the user has typed. @param {Pet} now */
  const update = (now) => {
    pet = now;
    const [typed, values] = [fields.values, valuesOf(now)];
    for (const name of FIELDS) if (typed[name] === base[name]) typed[name] = base[name] = values[name];
    fields.values = typed;
    changed({ type: "pet.updated", data: pet });
    paint();
  };

  const submit = async () => {
    warn("");
    const mine = fields.values;
    const body = changes(mine, base);
    const edited = FIELDS.filter((name) => name in body);
    for (let etag = null; ;) {
      try {
        // An empty patch changes nothing, and returns the animal with its ETag.
        const current = await api.send("PATCH", `pets/${id}`, etag ? body : {}, etag ? { "If-Match": etag } : {});
        const theirs = valuesOf(current.data);
        // Also if the response to an earlier attempt was lost.
        if (edited.every((name) => theirs[name] === mine[name])) {
          base = mine;
          return update(current.data);
        }
        if (edited.some((name) => theirs[name] !== base[name])) return compare(current.data, mine);
        etag = current.etag;
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 412) throw error;
        etag = null;
      }
    }
  };

  /** Shows both versions of an animal that somebody else has changed meanwhile. @param {Pet} pet @param {Values} mine */
  const compare = (pet, mine) => {
    const theirs = valuesOf(pet);
    /** @param {keyof Values} name @param {Values} values */
    const cell = (name, values) => el("td", null, name === "categoryId" ? names.category(values[name]) : values[name] || "no status");
    /** @param {boolean} keep */
    const settle = (keep) => {
      fill(conflict);
      const wanted = { ...theirs };
      for (const name of FIELDS) if (keep && mine[name] !== base[name]) wanted[name] = mine[name];
      base = theirs;
      fields.values = wanted;
      update(pet);
      if (keep) form.requestSubmit();
    };
    fill(conflict,
      el("div", { class: "notice warn", role: "alert" }, "This animal was changed while you were editing it."),
      el("table", null,
        el("thead", null, el("tr", null, el("td"), el("th", null, "Theirs, saved"), el("th", null, "Yours"))),
        el("tbody", null, ...FIELDS.filter((name) => mine[name] !== theirs[name]).map((name) =>
          el("tr", null, el("th", { scope: "row" }, LABELS[name]), cell(name, theirs), cell(name, mine))))),
      el("div", { class: "actions" },
        button("Save mine", { class: "btn primary", "data-write": true, onclick: () => settle(true) }),
        button("Take theirs", { class: "btn", onclick: () => settle(false) })));
    paintForm();
    conflict.querySelector("button")?.focus();
  };

  form.addEventListener("input", paintForm);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    app.act(save, submit, (error) => warn(message(error)));
  });

  const remove = app.button("Delete animal…", "small danger quiet", async () => {
    if (!(await confirm(`Delete ${pet.name}?`, "This cannot be undone. Its orders remain.", "Delete"))) return;
    await api.send("DELETE", `pets/${id}`);
    isDeleted();
  });

  let deleted = false;
  const isDeleted = () => {
    if (deleted) return;
    deleted = true;
    toast(`${pet.name} was deleted.`);
    changed({ type: "pet.deleted", data: pet });
    location.hash = "#/animals";
  };

  const paintHistory = () => {
    fill(history, ...events.map((event, at) => el("li", null,
      el("span", null, describe(event, events[at + 1]?.data, names)),
      el("time", { datetime: event.time, title: exactly(event.time) }, when(event.time)))));
    fill(foot, older && app.button("Look further back", "small", () => loadHistory(older ?? "")), app.can("pets:write") && remove);
    paint();
  };

  /** @param {Event[]} more */
  const addEvents = async (more) => {
    events = [...new Map([...events, ...more].map((event) => [event.sequence, event])).values()].sort((a, b) => (a.sequence < b.sequence ? 1 : -1));
    await names.loadKeys(events.map((event) => event.keyid));
    paintHistory();
  };

  /** @param {string} query */
  const loadHistory = async (query) => {
    const { data, next } = await api.get(`events${query}`);
    older = next;
    await addEvents(data);
  };

  const loadOrder = async () => {
    if (!app.can("orders:read")) return;
    const [found] = /** @type {Order[]} */ ((await api.get(`store/orders?petId=${id}&sort=desc&limit=1`)).data);
    if (!found) order ??= null;
    else if (isNewer(found)) order = found;
  };

  paint();
  const loadSale = () => loadOrder().then(paint, (error) => void (error.status || app.retries.add(loadSale)));
  loadSale();
  loadHistory(`?subject=pets/${id}&sort=desc&limit=20`).catch(() => {});

  return {
    id,
    element,
    focus: () => title.focus(),
    close() {
      clearInterval(timer);
      element.remove();
    },
    /** @param {Event} event */
    onEvent(event) {
      if (event.type.startsWith("order.") && event.data.petId === id) takeOrder(event.data);
      if (event.subject !== `pets/${id}`) return;
      if (event.type === "pet.deleted") return isDeleted();
      // The response to an order arrives before events that are older than it.
      const isOlder = order && Date.parse(event.time) < Date.parse(order.updatedAt);
      update(isOlder ? { ...event.data, status: pet.status } : event.data);
      addEvents([event]);
    },
  };
}
