// Animals: counts, search, filters, and a live list; the animal that the address names is in the panel beside it.

import { go, hrefOf, itemHref } from "../address.js";
import { animalRow } from "../animal-row.js";
import { get } from "../api.js";
import { act, actButton, load, loadOrRetry, showFailure, titleList, toast } from "../app.js";
import { STATUSES, statusCounts } from "../counts.js";
import { button, el, empty, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { liveList, newButton, partText, searchField, table } from "../list.js";
import { chipOf } from "../microchip.js";
import { isUnsearchable, lastEventOf, longSearchNote, matchesSearch, names, searchOf, UNSEARCHABLE } from "../names.js";
import { selection } from "../selection.js";
import { can } from "../session.js";

/** @import { animalPanel } from "./animal.js" */
/** @import { deletedPanel } from "./deleted-animal.js" */
/** @import { Selection } from "../selection.js" */
/** @import { Filters, Mount, Pet } from "../../types" */

const ALL = { status: "", categoryId: "", q: "" };

/** The filters of an address, without those that no list can have. @param {Filters} filters @returns {typeof ALL} */
const readFilters = ({ status = "", categoryId = "", q = "" }) => ({
  status: STATUSES.includes(status) ? status : "",
  categoryId: /^-?\d{1,19}$/.test(categoryId) ? categoryId : "",
  q: q.replace(/\p{Cc}/gu, " ").trim().slice(0, 64),
});

/** @type {Mount} */
export function mount(root, rest, end, filters) {
  const canWrite = can("pets:write");
  let filter = readFilters(filters);
  /** @type {ReturnType<typeof animalPanel> | ReturnType<typeof deletedPanel> | null} */
  let panel = null;
  let dismiss = () => {};

  /** Shows what else matches. @param {Partial<typeof ALL>} change */
  const find = (change, isTyping = false) => go(hrefOf("animals", rest, { ...filter, ...change }), isTyping && filter.q !== "");

  const counts = statusCounts(end, (status) => find({ status }), () => {
    list.paintFoot();
    picked?.paint();
  });
  const search = searchField("Search name, breed, chip or id", (text) => find({ q: text }, true), (text) => openScanned(text));
  /** Opens the animal of a chip that was typed or scanned instead of a name. */
  const openScanned = async (text = "") => {
    const chip = chipOf(text);
    if (!chip) return;
    const { openChip } = await load(import("../chip.js"));
    search.clear();
    if (filter.q) find({ q: "" });
    act(search.input, () => openChip(chip));
  };
  const category = el("select", { "aria-label": "Category", onchange: () => find({ categoryId: category.value }) });
  const save = button("Export", "", () => act(save, async () => {
    const { exportAnimals } = await load(import("../export.js"));
    await exportAnimals([pathOf(100)], (done) => (save.textContent = done));
  }).finally(() => (save.textContent = "Export")), { title: "Save the animals of this list as CSV" });
  const add = async () => (await load(import("../animal-form.js"))).addAnimal({ categoryId: filter.categoryId }, (pet) => {
    list.take(pet);
    go(itemHref("animals", String(pet.id)));
  });
  const bar = el("div.bar", search.element, category, save, newButton(canWrite, "Add animal", add));

  /** An animal that the search has found stays. So does the animal in the panel. @param {Pet} pet */
  const matches = (pet, isShown = true) => (isShown && panel?.id === pet.id) ||
    ((!filter.status || pet.status === filter.status) &&
    (!filter.categoryId || String(pet.categoryId) === filter.categoryId) &&
    (isShown || matchesSearch(pet, filter.q)));

  const list = liveList(end, {
    key: (/** @type {Pet} */ { id }) => id,
    row: (pet) => animalRow(pet, panel?.id === pet.id, picked?.cell(pet)),
    matches,
    added() {
      picked?.paint();
      // Likely to be wanted next, and perhaps without a connection.
      setTimeout(() => import("./animal.js").catch(() => {}));
    },
    apply({ type, data }) {
      if (type === "pet.deleted") list.remove(data.id);
      else list.take(data);
    },
    foot(size, isLast) {
      const total = counts.of(filter.status);
      const isEmpty = !size && counts.isEmpty();
      bar.hidden = counts.element.hidden = isEmpty;
      const note = longSearchNote(filter.q);
      const noted = (/** @type {HTMLElement} */ text) => (note ? el("div", text, el("p", note)) : text);
      if (!isLast) return noted(partText(`${count(size)}${total ? ` of ${counts.textOf(total)}` : ""}`));
      if (size) return noted(el("span", plural(size, "animal")));
      const showAll = button("Show all animals", "", () => find(ALL));
      if (isUnsearchable(filter.q)) return empty(UNSEARCHABLE, showAll);
      if (!isEmpty) return empty("No animal matches", el("p", note), showAll);
      if (!canWrite) return empty("No animals yet", el("p", "Your key can only read."));
      return empty("No animals yet", el("p", "Add the first one, import a spreadsheet, or look around with examples."),
        el("div.actions", actButton("Add the first animal", "primary", add),
          actButton("Load examples", "", async () => (await load(import("../examples.js"))).addExamples())));
    },
  });

  /** The filters as the service takes them. */
  const sentFilters = () => ({ ...filter, q: searchOf(filter.q) });
  const pathOf = (limit = 50) => {
    const query = new URLSearchParams({ limit: String(limit), sort: "desc" });
    for (const [name, value] of Object.entries(sentFilters())) if (value) query.set(name, value);
    return `pets?${query}`;
  };

  const section = el("section", { "aria-label": "List" });
  /** @type {Selection | null} */
  const picked = canWrite ? selection(list.body, { section, end, path: () => pathOf(100), categoryId: () => filter.categoryId,
    total() {
      const value = counts.of(filter.status);
      return { value, text: value === undefined ? "" : counts.textOf(value), isNarrowed: Object.values(sentFilters()).some(Boolean) };
    } }) : null;

  const paintTitle = () =>
    titleList([filter.status, filter.categoryId && names.category(filter.categoryId), filter.q && `“${filter.q}”`]);

  /** Shows what matches the filters. */
  const paintFilters = () => {
    const { status, ...others } = sentFilters();
    const isSearchable = !isUnsearchable(filter.q);
    search.show(filter.q);
    category.value = filter.categoryId;
    paintTitle();
    save.hidden = !isSearchable;
    counts.show(isSearchable ? others : null, status);
    if (isSearchable) return list.start(pathOf());
    list.stop();
    list.set([]);
  };

  const paintCategories = () => {
    const options = names.sorted();
    if (filter.categoryId && !names.categories.has(filter.categoryId)) options.push([filter.categoryId, names.category(filter.categoryId)]);
    fill(category, [["", "All categories"], ...options].map(([value, label]) => el("option", { value }, label)));
    category.value = filter.categoryId;
    list.paint();
    panel?.rename();
  };

  /** Explains why the animal of the address is not shown. */
  const problem = el("div");
  const split = el("div.split", section);
  section.append(problem, counts.element, bar,
    table([...(picked ? [picked.head] : []), "Name", el("th.wide", "Location"), el("th.amount", "Price"), "Status"], list.body, "animals"), list.more);
  root.append(split);

  /** @param {Filters} filters */
  const show = (id = "", filters) => {
    const now = readFilters(filters);
    const isSame = Object.entries(now).every(([name, value]) => value === filter[/** @type {keyof typeof ALL} */ (name)]);
    filter = now;
    if (!isSame) {
      picked?.clear();
      paintFilters();
    }
    return showAnimal(id);
  };

  /** Another panel shows an animal whose deletion was undone. */
  const restored = () => {
    panel?.close();
    panel = null;
    showAnimal(rest);
  };

  const showAnimal = async (id = "") => {
    rest = id;
    fill(problem);
    if (id) dismiss();
    const previous = panel?.id;
    if (previous === Number(id)) return;
    panel?.close();
    panel = null;
    if (previous) list.paint([previous]);
    if (!id) return previous && list.focus(previous);
    const missing = () => {
      dismiss = toast(`There is no animal ${id.slice(0, 40)}.`, "danger");
      go(itemHref("animals"), true);
    };
    if (!Number.isSafeInteger(Number(id)) || !/^\d+$/.test(id)) return missing();
    try {
      const { animalPanel } = await load(import("./animal.js"));
      /** @type {Pet | undefined} */
      const pet = list.get(Number(id)) ?? (await get(`pets?id=${id}`)).data[0];
      // Another one may be wanted by now.
      if (rest !== id || panel || end.aborted) return;
      const deletion = pet ? undefined : await lastEventOf(Number(id));
      const { deletedPanel } = deletion ? await load(import("./deleted-animal.js")) : {};
      if (rest !== id || panel || end.aborted) return;
      if (pet) panel = animalPanel(pet, list);
      else if (deletedPanel && deletion?.type === "pet.deleted") panel = deletedPanel(deletion, restored);
      else return missing();
      split.append(panel.element);
      panel.focus();
      list.paint([panel.id]);
    } catch (error) {
      if (rest === id) showFailure(problem, error, () => rest === id && showAnimal(id));
    }
  };

  paintFilters();
  paintCategories();
  loadOrRetry(async () => {
    await names.loadCategories();
    paintCategories();
    paintTitle();
  }, end);
  showAnimal(rest);
  end.addEventListener("abort", () => {
    panel?.close();
    dismiss();
  });

  return {
    show,
    loadRest: list.loadRest,
    onEvent(event) {
      panel?.onEvent(event);
      if (event.type.startsWith("category.")) paintCategories();
      if (!event.type.startsWith("pet.")) return;
      counts.refresh();
      list.onEvent(event);
      if (event.type === "pet.deleted" || !matches(event.data)) picked?.drop(event.data.id);
    },
  };
}
