// One animal: selling it, editing it, its history.

import { animalFields, changes, valuesOf } from "../animal-fields.js";
import { ApiError } from "../api.js";
import { confirm, message, toast } from "../app.js";
import { button, el, fill } from "../dom.js";
import { ago, exactly, left, when } from "../format.js";
import { describe, statusWord } from "../words.js";

/** @import { Event, Order, Pet, PetStatus } from "../api.js" */
/** @import { App } from "../app.js" */
/** @import { Values } from "../animal-fields.js" */

/**
 * The panel of an animal.
 * @param {App} app
 * @param {Pet} pet
 * @param {(event: Pick<Event, "type" | "data">) => void} changed tells the list
 */
export function animalPanel(app, pet, changed) {
  const { api, names } = app;
  const { id } = pet;
  /** @type {Order | null} its latest order */
  let order = null;
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
  const fields = animalFields(app, base);
  const save = el("button", { class: "btn primary", "data-write": true }, "Save changes");
  const undo = button("Discard", { class: "btn", onclick: () => ((fields.values = base = valuesOf(pet)), paintForm()) });
  const saving = el("div", { class: "actions" }, save, undo);
  const conflict = el("div");
  const form = el("form", null, el("h3", null, "Details"), conflict, ...fields.elements, saving);
  const history = el("ol", { class: "log" });
  const foot = el("div", { class: "foot" });
  const close = el("a", { class: "close", href: "#/animals", "aria-label": "Close" }, "×");
  const element = el("aside", { class: "panel", "aria-label": "Animal" }, title, meta, problem, sale,
    app.can("pets:write") && form, el("h3", null, "History"), history, foot, close);

  const isClaimed = () => order?.status === (pet.status === "pending" ? "placed" : pet.status === "sold" ? "completed" : "");

  const paint = () => {
    title.textContent = pet.name;
    const [last] = events;
    meta.textContent = [names.category(pet.categoryId), `no. ${pet.id}`, last && `changed ${ago(last.time)} by ${names.who(last.keyid)}`].filter(Boolean).join(" · ");
    paintSale();
    fields.lockStatus(isClaimed() ? "Follows the order." : "");
    paintForm();
  };

  const time = el("span");
  const paintTime = () => {
    const remaining = order?.expiresAt && new Date(order.expiresAt).getTime() - Date.now();
    time.textContent = remaining ? (remaining > 0 ? `${left(remaining)} left` : "expired") : "";
  };
  const timer = setInterval(paintTime, 1000);

  const paintSale = () => {
    /** @param {string} label @param {string} path @param {string} kind */
    const action = (label, path, kind) => app.can("orders:write") && button(label, {
      class: `btn ${kind}`, "data-write": true,
      onclick: (/** @type {MouseEvent} */ event) => sell(/** @type {HTMLElement} */ (event.currentTarget), path),
    });
    paintTime();
    /** @type {import("../dom.js").Child[]} */
    let content;
    if (pet.status === "available") content = [el("div", { class: "notice ok" }, "Available"), el("div", { class: "actions" }, action("Reserve", "", "primary"))];
    else if (pet.status === "pending" && isClaimed()) {
      content = [el("div", { class: "notice warn" }, el("span", null, `Reserved, order ${order?.id}`), time),
        el("div", { class: "actions" }, action("Complete sale", "complete", "primary"), action("Cancel", "cancel", ""))];
    } else if (pet.status === "sold" && isClaimed()) {
      content = [el("div", { class: "notice" }, el("span", null, `Sold, order ${order?.id}`), el("span", null, when(order?.updatedAt ?? ""))),
        el("div", { class: "actions" }, action("Return", "return", ""))];
    } else content = [el("div", { class: "notice" }, pet.status ? `Marked as ${pet.status}, without an order` : "Not for sale: no status")];
    fill(sale, ...content);
  };

  /** Places an order, or moves it on. @param {HTMLElement} control @param {string} step */
  const sell = (control, step) => app.act(control, async () => {
    fill(problem);
    const { data } = await (step ? api.send("POST", `store/orders/${order?.id}/${step}`) : api.send("POST", "store/orders", { petId: id }));
    order = data;
    const status = /** @type {PetStatus} */ ({ placed: "pending", completed: "sold", cancelled: "available", returned: "available" }[order?.status ?? "placed"]);
    update({ ...pet, status });
    (sale.querySelector("button") ?? title).focus();
  }, async (error) => {
    if (error.status !== 409 && error.status !== 404) return false;
    // Somebody else was faster: show how things are.
    await reload();
    const now = pet.status === "pending" ? "reserved" : pet.status ?? "not for sale";
    fill(problem, el("div", { class: "notice danger" }, `Somebody was faster: ${pet.name} is ${now}${isClaimed() ? `, order ${order?.id}` : ""}.`));
  });

  const paintForm = () => {
    const dirty = Object.keys(changes(fields.values, base)).length > 0;
    saving.hidden = !dirty || conflict.hasChildNodes();
  };

  /** Takes a new state, but not over what the user has typed. @param {Pet} now */
  const update = (now) => {
    pet = now;
    const [typed, values] = [fields.values, valuesOf(now)];
    for (const name of /** @type {(keyof Values)[]} */ (Object.keys(base))) {
      if (typed[name] !== base[name]) continue;
      typed[name] = base[name] = values[name];
    }
    fields.values = typed;
    changed({ type: "pet.updated", data: pet });
    paint();
  };

  /** @param {Pet} theirs */
  const showConflict = (theirs) => {
    const [mine, values] = [fields.values, valuesOf(theirs)];
    /** @param {keyof Values} name @param {Values} of */
    const shown = (name, of) => (name === "categoryId" ? names.category(of[name]) : of[name] || statusWord(undefined));
    const rows = /** @type {[keyof Values, string][]} */ ([["name", "Name"], ["categoryId", "Category"], ["status", "Status"]])
      .filter(([name]) => mine[name] !== values[name])
      .map(([name, label]) => el("tr", null, el("th", { scope: "row" }, label), el("td", null, shown(name, values)), el("td", null, shown(name, mine))));
    /** @param {boolean} keep */
    const settle = (keep) => {
      fill(conflict);
      form.classList.remove("conflict");
      const wanted = { ...values };
      for (const name of /** @type {(keyof Values)[]} */ (Object.keys(base))) if (keep && mine[name] !== base[name]) wanted[name] = mine[name];
      base = values;
      fields.values = wanted;
      update(theirs);
      if (keep) form.requestSubmit();
    };
    form.classList.add("conflict");
    fill(conflict,
      el("div", { class: "notice warn", role: "alert" }, "This animal was changed while you were editing it."),
      el("table", null, el("thead", null, el("tr", null, el("td"), el("th", null, "Theirs, saved"), el("th", null, "Yours"))), el("tbody", null, ...rows)),
      el("div", { class: "actions" }, button("Save mine", { class: "btn primary", "data-write": true, onclick: () => settle(true) }), button("Take theirs", { class: "btn", onclick: () => settle(false) })));
    paintForm();
    conflict.querySelector("button")?.focus();
  };

  const submit = async () => {
    fill(problem);
    const mine = fields.values;
    const body = changes(mine, base);
    for (let precondition = null; ;) {
      try {
        // An empty patch changes nothing, and returns the animal with its ETag.
        const { data, etag } = await api.send("PATCH", `pets/${id}`, precondition ? body : {}, precondition);
        const now = valuesOf(data);
        const names = /** @type {(keyof Values)[]} */ (Object.keys(body));
        if (names.every((name) => now[name] === mine[name])) {
          base = { ...mine };
          return update(data);
        }
        if (names.some((name) => now[name] !== base[name])) return showConflict(data);
        precondition = etag;
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 412) throw error;
        precondition = null;
      }
    }
  };
  form.addEventListener("input", paintForm);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    app.act(save, submit, (error) => fill(problem, el("div", { class: "notice danger" }, message(error))));
  });

  const remove = async (/** @type {MouseEvent} */ event) => {
    const control = /** @type {HTMLElement} */ (event.currentTarget);
    if (!(await confirm(`Delete ${pet.name}?`, "Its number is never used again. Orders for it remain.", "Delete"))) return;
    app.act(control, async () => {
      await api.send("DELETE", `pets/${id}`);
      changed({ type: "pet.deleted", data: pet });
      toast(`${pet.name} was deleted.`);
      location.hash = "#/animals";
    });
  };

  const paintHistory = () => {
    fill(history, ...events.map((event, at) => el("li", null,
      el("span", null, describe(event, events[at + 1]?.data, names)),
      el("time", { datetime: event.time, title: exactly(event.time) }, when(event.time)))));
    fill(foot,
      older && button("Look further back", { class: "btn small", onclick: (/** @type {MouseEvent} */ event) => app.act(/** @type {HTMLElement} */ (event.currentTarget), () => loadHistory(older ?? "")) }),
      app.can("pets:write") && button("Delete animal…", { class: "btn small danger quiet", "data-write": true, onclick: remove }));
  };

  /** @param {string} query */
  const loadHistory = async (query) => {
    const page = await api.get(`events${query}`);
    const known = new Set(events.map((event) => event.id));
    events = [...events, ...page.data.filter((/** @type {Event} */ event) => !known.has(event.id))];
    events.sort((a, b) => (a.sequence < b.sequence ? 1 : -1));
    older = page.next;
    await names.loadKeys(events.map((event) => event.keyid));
    paintHistory();
    paint();
  };

  const loadOrder = async () => {
    if (app.can("orders:read")) order = (await api.get(`store/orders?petId=${id}&sort=desc&limit=1`)).data[0] ?? null;
  };

  const reload = async () => {
    const [{ data }] = await Promise.all([api.get(`pets?id=${id}`), loadOrder()]);
    if (data[0]) update(data[0]);
  };

  paint();
  loadOrder().then(paint, () => {});
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
      if (event.type.startsWith("order.") && event.data.petId === id) {
        order = event.data;
        paint();
      }
      if (event.subject !== `pets/${id}`) return;
      if (event.type === "pet.deleted") {
        toast(`${pet.name} was deleted.`);
        location.hash = "#/animals";
        return;
      }
      update(event.data);
      if (events.some(({ id }) => id === event.id)) return;
      events = [event, ...events];
      names.loadKeys([event.keyid]).then(() => (paintHistory(), paint()));
    },
  };
}
