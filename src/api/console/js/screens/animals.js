// Animals: counts, search, filters, and a live list; the animal that the address names is
// in the panel beside it.

import { toast } from "../app.js";
import { button, el, fill } from "../dom.js";
import { exportAnimals } from "../export.js";
import { count, plural } from "../format.js";
import { stringify } from "../json.js";
import { arrows, newButton, pagedList } from "../list.js";
import { animalPanel } from "./animal.js";
import { addAnimal, loadExamples } from "./new-animal.js";

/** @import { Event, Pet } from "../api.js" */
/** @typedef {{ pet: Pet, row: HTMLTableRowElement, link: HTMLAnchorElement }} Entry */

const CARDS = { total: "all animals", available: "available", pending: "pending", sold: "sold" };

/** @type {import("../app.js").Mount} */
export function animals(root, app, rest) {
  const { api, names } = app;
  const canWrite = app.can("pets:write");
  const filter = { status: "", categoryId: "", name: "" };
  /** @type {Map<number, Entry>} in the order of the list */
  const entries = new Map();
  /** @type {Record<string, number>} */
  let counts = {};
  let inserted = 0;
  let isFirstPage = true;
  /** @type {ReturnType<typeof animalPanel> | null} */
  let panel = null;
  const postExamples = api.once();

  const cards = Object.entries(CARDS).map(([key, label]) => {
    const status = key === "total" ? "" : key;
    return { key, status, element: button("", { class: "card", onclick: () => ((filter.status = status), load()) }, el("b", null, "–"), label) };
  });
  const search = el("input", { type: "search", "data-search": true, placeholder: "Search by name", "aria-label": "Search by name", maxlength: 64 });
  const category = el("select", { "aria-label": "Category" });
  const add = newButton(canWrite, "Add animal", () => openNew());
  const save = button("Export", { class: "btn", title: "Save the animals of this list as CSV", onclick: () => app.act(save, () => exportAnimals(app, queryOf(100), (done) => (save.textContent = done)).finally(() => (save.textContent = "Export"))) });
  const bar = el("div", { class: "bar" }, el("span", { class: "search" }, search, el("kbd", { "aria-hidden": "true" }, "/")), category, save, add);
  const body = el("tbody");
  const heads = el("tr", null, el("th", null, "Name"), el("th", null, "Category"), el("th", null, "Status"), el("th", { class: "wide" }, "Id"));
  const sheet = el("div", { class: "sheet" }, el("table", null, el("thead", null, heads), body));
  const openNew = () => addAnimal(app, filter.categoryId, (pet) => {
    apply({ type: "pet.created", data: pet });
    list.paint();
    location.hash = `#/animals/${pet.id}`;
  });

  const paintCategories = () => {
    const named = [...names.categories].sort(([, a], [, b]) => a.localeCompare(b));
    fill(category, el("option", { value: "" }, "All categories"), ...named.map(([value, label]) => el("option", { value }, label)));
    category.value = filter.categoryId;
  };

  /** @param {Entry} entry */
  const paint = ({ pet, row, link }) => {
    link.textContent = pet.name;
    const [, kind, status] = row.children;
    kind.textContent = names.category(pet.categoryId);
    kind.className = names.categories.has(String(pet.categoryId)) ? "" : "muted";
    fill(status, pet.status ? el("span", { class: `pill ${pet.status}` }, pet.status) : el("span", { class: "muted" }, "–"));
  };

  /** @param {Pet} pet @returns {Entry} */
  const newEntry = (pet) => {
    const href = `#/animals/${pet.id}`;
    const link = el("a", { href });
    const row = el("tr", { onclick: () => (location.hash = href) },
      el("td", null, link), el("td"), el("td"), el("td", { class: "number wide" }, String(pet.id)));
    row.classList.toggle("selected", panel?.id === pet.id);
    const entry = { pet, row, link };
    paint(entry);
    return entry;
  };

  /** What is below the list. @param {boolean} isLast */
  const foot = (isLast) => {
    const { size } = entries;
    const total = filter.name || filter.categoryId ? 0 : counts[filter.status || "total"];
    const isEmpty = !size && counts.total === 0;
    sheet.hidden = !size;
    bar.hidden = isEmpty;
    if (!isLast) return `${count(size)}${total ? ` of ${count(total)}` : ""} · scroll for more`;
    if (size) return plural(size, "animal");
    if (!isEmpty) return el("div", { class: "empty" }, el("h2", null, "No animal matches"), button("Show all animals", { class: "btn", onclick: showAll }));
    return el("div", { class: "empty" }, el("h2", null, "No animals yet"),
      el("p", null, canWrite ? "Add the first one, import a spreadsheet, or look around with examples." : "Your key can only read."),
      canWrite && el("div", { class: "actions" },
        button("Add the first animal", { class: "btn primary", "data-write": true, onclick: openNew }),
        app.button("Load examples", "", () => loadExamples(app, postExamples))));
  };

  const showAll = () => {
    Object.assign(filter, { status: "", categoryId: "", name: "" });
    category.value = search.value = "";
    load();
  };

  const loadCounts = async () => {
    counts = (await api.get("store/inventory")).data;
    for (const { key, element } of cards) /** @type {Element} */ (element.firstElementChild).textContent = count(counts[key]);
    list.paint();
  };

  /** @param {number} limit */
  const queryOf = (limit) => {
    const query = new URLSearchParams({ limit: String(limit), sort: filter.name ? "asc" : "desc" });
    for (const [name, value] of Object.entries(filter)) if (value) query.set(name, value);
    return `?${query}`;
  };

  const load = () => {
    inserted = 0;
    isFirstPage = true;
    for (const { status, element } of cards) element.ariaPressed = String(status === filter.status);
    list.start("pets", queryOf(50));
    loadCounts().catch(() => {});
  };

  /** @param {Pet[]} page */
  const append = (page) => {
    if (isFirstPage) {
      entries.clear();
      body.replaceChildren();
      isFirstPage = false;
    }
    for (const pet of page) {
      if (entries.has(pet.id)) continue;
      const entry = newEntry(pet);
      entries.set(pet.id, entry);
      body.append(entry.row);
    }
  };

  /** The service compares names better: what it has found stays. @param {Pet} pet @param {boolean} found */
  const matches = (pet, found) =>
    (!filter.status || pet.status === filter.status) &&
    (!filter.categoryId || String(pet.categoryId) === filter.categoryId) &&
    (found || pet.name.toLowerCase().startsWith(filter.name.toLowerCase()));
  const idOf = (/** @type {Element} */ row) => Number(row.lastElementChild?.textContent);

  /** Brings the list up to date. @param {Pick<Event, "type" | "data">} event */
  const apply = ({ type, data: pet }) => {
    const entry = entries.get(pet.id);
    if (entry && (type === "pet.deleted" || (!matches(pet, true) && panel?.id !== pet.id))) {
      if (entry.row.contains(document.activeElement)) /** @type {HTMLElement | null | undefined} */ (entry.row.nextElementSibling?.querySelector("a"))?.focus();
      entry.row.remove();
      entries.delete(pet.id);
    } else if (entry) {
      if (stringify(entry.pet) === stringify(pet)) return;
      entry.pet = pet;
      paint(entry);
      entry.row.classList.add("changed");
    } else if (type !== "pet.deleted" && matches(pet, false)) {
      const last = body.lastElementChild;
      if (!list.isLast() && (!last || (!filter.name && idOf(last) > pet.id))) return;
      // A flood of new animals would make the page slow.
      if (++inserted > 200) return void load();
      let behind = body.firstElementChild;
      while (behind && !filter.name && idOf(behind) > pet.id) behind = behind.nextElementSibling;
      const added = newEntry(pet);
      entries.set(pet.id, added);
      body.insertBefore(added.row, behind);
      added.row.classList.add("changed");
    }
  };

  const moveFocus = arrows(body);

  /** The counts follow, but not each change. */
  let countsTimer = 0;
  const countSoon = () => {
    countsTimer ||= setTimeout(() => ((countsTimer = 0), loadCounts().catch(() => {})), 300);
  };

  /** Why the animal of the address is not shown. */
  const problem = el("div");
  const list = pagedList(app, { append, apply, foot, reload: load });
  const split = el("div", { class: "split" },
    el("section", { "aria-label": "List" }, problem, el("div", { class: "cards" }, ...cards.map((card) => card.element)), bar, sheet, list.more));
  root.append(split);

  /** Shows the animal with an id, or none. @param {string} id */
  const show = async (id) => {
    const previous = panel?.id;
    rest = id;
    fill(problem);
    if (previous === Number(id)) return;
    panel?.close();
    panel = null;
    split.classList.remove("open");
    if (previous) entries.get(previous)?.row.classList.remove("selected");
    if (!/^\d+$/.test(id)) {
      if (previous) entries.get(previous)?.link.focus();
      return;
    }
    let pet = entries.get(Number(id))?.pet;
    if (!pet) {
      const found = await api.get(`pets?id=${id}`).catch((error) => error);
      // Meanwhile another one may be wanted.
      if (rest !== id || panel) return;
      if (found instanceof Error) return app.failed(problem, found, () => rest === id && show(id));
      pet = /** @type {Pet | undefined} */ (found.data[0]);
      if (!pet) {
        toast(`There is no animal ${id}.`, "danger");
        return location.replace("#/animals");
      }
    }
    panel = animalPanel(app, pet, (event) => (apply(event), list.paint()));
    split.append(panel.element);
    split.classList.add("open");
    panel.focus();
    entries.get(pet.id)?.row.classList.add("selected");
  };

  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ((filter.name = search.value.trim()), load()), 150);
  });
  search.addEventListener("keydown", (event) => event.key === "ArrowDown" && body.querySelector("a")?.focus());
  category.addEventListener("change", () => ((filter.categoryId = category.value), load()));

  body.addEventListener("animationend", (event) => /** @type {Element} */ (event.target).closest("tr")?.classList.remove("changed"));

  paintCategories();
  names.loadCategories().then(() => (paintCategories(), entries.forEach(paint)), () => {});
  load();
  show(rest);

  return {
    show,
    onEvent(event) {
      panel?.onEvent(event);
      if (event.type.startsWith("category.")) {
        paintCategories();
        entries.forEach(paint);
      }
      if (!event.type.startsWith("pet.")) return;
      countSoon();
      list.onEvent(event);
    },
    onKey(event) {
      if (event.key !== "Escape") return moveFocus(event);
      if (panel) location.hash = "#/animals";
      else search.blur();
      return true;
    },
    unmount() {
      rest = "-";
      list.unmount();
      panel?.close();
    },
  };
}
