// Animals: counts, search, filters, and a live list; the animal that the address names is in the panel beside it.

import { get } from "../api.js";
import { act, actButton, load, showFailure, toast } from "../app.js";
import { button, el, empty, fill, pill } from "../dom.js";
import { count, plural } from "../format.js";
import { liveList, newButton, table } from "../list.js";
import { fold, names } from "../names.js";
import { formatPrice } from "../price.js";
import { chipOf } from "../scanner.js";
import { can } from "../session.js";
import { ageOf } from "../times.js";

/** @import { animalPanel } from "./animal.js" */
/** @import { Mount, Pet } from "../../types" */

const ALL = { status: "", categoryId: "", name: "" };
const CARDS = { total: "all animals", available: "available", pending: "pending", sold: "sold" };

/** @type {Mount} */
export function mount(root, rest, end) {
  const canWrite = can("pets:write");
  const filter = { ...ALL };
  /** @type {Record<string, number>} */
  let counts = {};
  /** @type {ReturnType<typeof animalPanel> | null} */
  let panel = null;

  const cards = Object.entries(CARDS).map(([key, label]) => {
    const status = key === "total" ? "" : key;
    const number = el("b", "–");
    return { key, status, number, element: el("button.card", { onclick: () => find({ status }) }, number, label) };
  });
  let typing = 0;
  const search = el("input", { type: "search", "data-search": true, maxlength: 64, placeholder: "Search by name or chip",
    "aria-label": "Search by name or chip",
    onkeydown(/** @type {KeyboardEvent} */ { key }) {
      if (key === "Enter") openScanned(search.value);
    },
    oninput() {
      clearTimeout(typing);
      typing = setTimeout(() => find({ name: search.value.trim() }), 150);
    } });
  /** Opens the animal of a chip that was typed or scanned instead of a name. */
  const openScanned = async (text = "") => {
    const chip = chipOf(text);
    if (!chip) return;
    const { openChip } = await load(import("../chip.js"));
    clearTimeout(typing);
    search.value = "";
    if (filter.name) find({ name: "" });
    act(search, () => openChip(chip));
  };
  const category = el("select", { "aria-label": "Category", onchange: () => find({ categoryId: category.value }) });
  const save = button("Export", "", () => act(save, async () => {
    const { exportAnimals } = await load(import("../export.js"));
    await exportAnimals(pathOf(100), (done) => (save.textContent = done));
  }).finally(() => (save.textContent = "Export")), { title: "Save the animals of this list as CSV" });
  const add = async () => (await load(import("../animal-form.js"))).addAnimal({ categoryId: filter.categoryId }, (pet) => {
    list.take(pet);
    location.hash = `#/animals/${pet.id}`;
  });
  const bar = el("div.bar", el("span.search", search, el("kbd", { "aria-hidden": "true" }, "/")), category, save,
    newButton(canWrite, "Add animal", add));

  const list = liveList(end, {
    key: (/** @type {Pet} */ { id }) => id,
    row({ id, name, categoryId, status, birthDate, price }) {
      const href = `#/animals/${id}`;
      const isNamed = names.categories.has(String(categoryId));
      const [age, cost] = [birthDate && ageOf(birthDate), price && formatPrice(price)];
      return el("tr", { class: panel?.id === id && "selected", onclick: () => (location.hash = href) },
        el("td", el("a", { href }, name), (age || cost) && el("small.narrow.muted", [age, cost].filter(Boolean).join(" · "))),
        el("td", { class: !isNamed && "muted" }, names.category(categoryId)),
        el("td.wide", age),
        el("td.amount.wide", cost),
        el("td", status ? pill(status) : el("span.muted", "–")),
        el("td.number.wide", String(id)));
    },
    // What was found by its name stays. So does the animal in the panel.
    matches: ({ id, name, categoryId, status }, isShown) => (isShown && panel?.id === id) ||
      ((!filter.status || status === filter.status) &&
      (!filter.categoryId || String(categoryId) === filter.categoryId) &&
      (isShown || fold(name).startsWith(fold(filter.name)))),
    isSorted: () => !filter.name,
    // Likely to be wanted next, and perhaps without a connection.
    added: () => setTimeout(() => import("./animal.js").catch(() => {})),
    apply({ type, data }) {
      if (type === "pet.deleted") list.remove(data.id);
      else list.take(data);
    },
    foot(size, isLast) {
      const total = filter.name || filter.categoryId ? 0 : counts[filter.status || "total"];
      const isEmpty = !size && counts.total === 0;
      bar.hidden = isEmpty;
      if (!isLast) return `${count(size)}${total ? ` of ${count(total)}` : ""} · scroll for more`;
      if (size) return plural(size, "animal");
      if (!isEmpty) return empty("No animal matches", button("Show all animals", "", showAll));
      if (!canWrite) return empty("No animals yet", el("p", "Your key can only read."));
      return empty("No animals yet", el("p", "Add the first one, import a spreadsheet, or look around with examples."),
        el("div.actions", actButton("Add the first animal", "primary", add),
          actButton("Load examples", "", async () => (await load(import("../examples.js"))).addExamples())));
    },
  });

  const showAll = () => {
    category.value = search.value = "";
    find(ALL);
  };

  const pathOf = (limit = 50) => {
    const query = new URLSearchParams({ limit: String(limit), sort: filter.name ? "asc" : "desc" });
    for (const [name, value] of Object.entries(filter)) if (value) query.set(name, value);
    return `pets?${query}`;
  };

  /** @param {Partial<typeof ALL>} change */
  const find = (change) => {
    Object.assign(filter, change);
    for (const { status, element } of cards) element.ariaPressed = String(status === filter.status);
    list.start(pathOf());
    loadCounts();
  };

  const loadCounts = async () => {
    countsTimer = 0;
    counts = (await get("store/inventory").catch(() => ({ data: counts }))).data;
    for (const { key, number } of cards) if (key in counts) number.textContent = count(counts[key]);
    list.paintFoot();
  };
  let countsTimer = 0;

  const paintCategories = () => {
    fill(category, [["", "All categories"], ...names.sorted()].map(([value, label]) => el("option", { value }, label)));
    category.value = filter.categoryId;
    list.paint();
    panel?.rename();
  };

  /** Why the animal of the address is not shown. */
  const problem = el("div");
  const split = el("div.split", el("section", { "aria-label": "List" }, problem,
    el("div.cards", cards.map(({ element }) => element)), bar,
    table(["Name", "Category", el("th.wide", "Age"), el("th.amount.wide", "Price"), "Status", el("th.wide", "Id")], list.body, ""), list.more));
  root.append(split);

  const show = async (id = "") => {
    rest = id;
    fill(problem);
    const previous = panel?.id;
    if (previous === Number(id)) return;
    panel?.close();
    panel = null;
    if (previous) list.paint([previous]);
    if (!/^\d+$/.test(id)) return previous && list.focus(previous);
    try {
      const { animalPanel } = await load(import("./animal.js"));
      /** @type {Pet | undefined} */
      const pet = list.get(Number(id)) ?? (await get(`pets?id=${id}`)).data[0];
      // Meanwhile another one may be wanted.
      if (rest !== id || panel || end.aborted) return;
      if (!pet) {
        toast(`There is no animal ${id}.`, "danger");
        return location.replace("#/animals");
      }
      panel = animalPanel(pet, list);
      split.append(panel.element);
      panel.focus();
      list.paint([pet.id]);
    } catch (error) {
      if (rest === id) showFailure(problem, error, () => rest === id && show(id));
    }
  };

  find({});
  paintCategories();
  names.loadCategories().then(paintCategories, () => {});
  show(rest);
  end.addEventListener("abort", () => panel?.close());

  return {
    show,
    onEvent(event) {
      panel?.onEvent(event);
      if (event.type.startsWith("category.")) paintCategories();
      if (!event.type.startsWith("pet.")) return;
      // The counts follow, but not each change.
      countsTimer ||= setTimeout(loadCounts, 300);
      list.onEvent(event);
    },
  };
}
