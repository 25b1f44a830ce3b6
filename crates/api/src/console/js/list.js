// A live list: one row per item, loaded page by page as its end comes into view.

import { getKept } from "./api.js";
import { actButton, retries, showFailure } from "./app.js";
import { button, controls, el, fill, pill, update } from "./dom.js";
import { plural } from "./format.js";

/** @import { Action, Id, ListOptions, StoreEvent } from "../types" */

/** More events than this while a page is loaded, or more new rows, and the list is loaded again. */
const MAX_NEW = 200;

/** After so many pages in a row with few items, a person decides whether to look further. */
const FEW = 10;
const MAX_SPARSE = 8;

/** The most items, and the most requests, for a list that is printed as a whole. */
const MAX_PRINTED = 1000;
const MAX_PRINT_PAGES = 40;

/** The pause in typing after which a search starts, in milliseconds. */
const PAUSE = 150;

/** @template Item @param {AbortSignal} end @param {ListOptions<Item>} options */
export function liveList(end, { tag = "tbody", key, row, matches = () => true, isSorted = () => true, apply, added, arrange, pageQuery = (next) => next, isPaused = () => false, foot }) {
  const body = el(tag);
  const more = el("div.more", { role: "status" }, "Loading…");
  /** @type {Map<Id, { item: Item, element: HTMLElement }>} */
  const shown = new Map();
  let loading = new AbortController();
  let path = "";
  let next = "";
  let isFirstPage = true;
  let inserted = 0;
  /** @type {StoreEvent[] | null} what happens while a page is loaded, which may not show it yet */
  let missed = null;
  /** The number of pages in a row that have few items: filters can be met by few of many. */
  let sparse = 0;

  const found = () => `${plural(shown.size, "match", "matches")} so far`;
  const isSparse = () => next !== "" && sparse >= MAX_SPARSE;
  const lookFurther = () => {
    sparse = 0;
    loadMore();
  };
  const stopped = () => el("div", el("p", `${found()}. The rest of the list was not searched.`), button("Look further", "", lookFurther));
  const paintFoot = () => missed || fill(more, isSparse() ? stopped() : foot(shown.size, !next));

  /** Shows an item in its row, or in a new one. Returns the row, if it has changed. @param {Item} item */
  const show = (item, behind = /** @type {Element | null} */ (null)) => {
    const id = key(item);
    const now = row(item);
    const element = shown.get(id)?.element ?? now;
    shown.set(id, { item, element });
    if (element === now) {
      now.dataset.key = String(id);
      return body.insertBefore(now, behind);
    }
    const hadFocus = element.contains(document.activeElement);
    const isChanged = update(element, now);
    if (hadFocus && !element.contains(document.activeElement)) element.querySelector("a")?.focus();
    return isChanged ? element : null;
  };

  /** @param {Id} id */
  const focus = (id) => controls(shown.get(id)?.element)[0]?.focus();

  /** @param {Id} id */
  const remove = (id) => {
    const element = shown.get(id)?.element;
    const neighbour = element?.nextElementSibling ?? element?.previousElementSibling;
    if (element?.contains(document.activeElement)) controls(neighbour ?? body.closest("main"))[0]?.focus();
    element?.remove();
    shown.delete(id);
    paintFoot();
  };

  /** Shows an item as it is now. @param {Item} item */
  const take = (item) => {
    const id = key(item);
    const isShown = shown.has(id);
    const rows = /** @type {HTMLElement[]} */ ([...body.children]);
    const behind = isSorted() ? rows.find(({ dataset }) => Number(dataset.key) < Number(id)) : rows[0];
    if (!matches(item, isShown)) remove(id);
    else if (isShown || behind || (!next && !missed)) {
      if (!isShown && ++inserted > MAX_NEW) return start();
      show(item, behind)?.setAttribute("data-changed", "");
    }
    paintFoot();
  };

  /** Shows these items only. @param {Item[]} items */
  const set = (items) => {
    const ids = new Set(items.map(key));
    for (const id of shown.keys()) if (!ids.has(id)) remove(id);
    for (const [at, item] of items.entries()) {
      show(item);
      const element = shown.get(key(item))?.element;
      if (element && body.children[at] !== element) body.insertBefore(element, body.children[at]);
    }
    paintFoot();
  };

  const load = async (query = "") => {
    const signal = AbortSignal.any([end, loading.signal]);
    next = "";
    missed ??= [];
    fill(more, sparse > 1 ? `Searching… ${found()}` : "Loading…");
    try {
      const page = await getKept(path.split("?")[0] + query, signal);
      if (page.isOld) retries.add(() => void (signal.aborted || start()));
      const focused = isFirstPage && [...shown].find(([, { element }]) => element.contains(document.activeElement));
      const all = arrange?.(page.data, isFirstPage);
      if (isFirstPage) {
        shown.clear();
        fill(body);
      }
      [next, isFirstPage] = [page.next ?? "", false];
      sparse = page.data.length < FEW ? sparse + 1 : 0;
      if (all) set(all);
      else for (const item of page.data) if (matches(item, true)) show(item);
      added?.(page.data);
      if (focused) shown.has(focused[0]) ? focus(focused[0]) : controls(body)[0]?.focus();
      const events = missed;
      missed = null;
      if (events.length > MAX_NEW) return start();
      for (const event of events) if (!signal.aborted) apply?.(event);
      if (signal.aborted) return;
      paintFoot();
      // The end may be in view still.
      watcher.unobserve(more);
      watcher.observe(more);
    } catch (error) {
      if (!signal.aborted) showFailure(more, error, () => signal.aborted || load(query));
    }
  };
  const loadMore = () => void (next && load(pageQuery(next)));
  // A busy browser reports several changes at once.
  const watcher = new IntersectionObserver((changes) => changes.some(({ isIntersecting }) => isIntersecting) && !isPaused() && !isSparse() && loadMore(),
    { rootMargin: "800px" });

  /** Loads another list, or the same one again. */
  const start = (list = path) => {
    loading.abort();
    loading = new AbortController();
    [path, isFirstPage, inserted, missed, sparse] = [list, true, 0, [], 0];
    load(list.slice(list.indexOf("?")));
  };

  /** Loads nothing more: what is shown is set from now on. */
  const stop = () => {
    loading.abort();
    [next, missed] = ["", null];
  };

  body.addEventListener("animationend", ({ target }) =>
    /** @type {Element} */ (target).closest("[data-changed]")?.removeAttribute("data-changed"));

  return {
    body,
    more,
    start,
    stop,
    loadMore,
    /** True if nothing is left to be loaded. */
    isWhole: () => !next && !missed,
    /** Loads the rest of a list that is to be printed, as far as it is not too long. */
    async loadRest() {
      for (let pages = 0; next && pages < MAX_PRINT_PAGES && shown.size < MAX_PRINTED; pages++) {
        await load(next.replace(/limit=\d+/, "limit=100"));
      }
    },
    take,
    remove,
    paintFoot,
    get: (/** @type {Id} */ id) => shown.get(id)?.item,
    items: () => [...shown.values()].map(({ item }) => item),
    focus,
    /** Shows items again, as names or the selection have changed. */
    paint(ids = [...shown.keys()]) {
      for (const id of ids) {
        const item = shown.get(id)?.item;
        if (item) matches(item, true) ? show(item) : remove(id);
      }
      paintFoot();
    },
    set,
    /** @param {StoreEvent} event */
    onEvent(event) {
      if (!missed) apply?.(event);
      else if (missed.length <= MAX_NEW) missed.push(event);
    },
  };
}

/** @param {(string | HTMLElement)[]} heads @param {HTMLElement} body */
export const table = (heads, body, kind = "stack") => el("div.sheet", el("table", { class: kind },
  el("thead", el("tr", heads.map((head) => (head instanceof Node ? head : el(head ? "th" : "td", head))))), body));

/**
 * The search of a list: what is typed is looked for in a moment, and Enter enters it.
 * @param {string} label
 * @param {(text: string) => void} find
 * @param {(text: string) => void} [enter]
 */
export function searchField(label, find, enter = () => {}) {
  let typing = 0;
  const input = el("input", { type: "search", "data-search": true, maxlength: 64, placeholder: label, "aria-label": label,
    onkeydown: (/** @type {KeyboardEvent} */ { key }) => key === "Enter" && enter(input.value),
    oninput() {
      clearTimeout(typing);
      typing = setTimeout(() => find(input.value.trim()), PAUSE);
    } });
  const clear = () => {
    clearTimeout(typing);
    input.value = "";
  };
  return {
    input,
    clear,
    element: el("span.search", input, el("kbd", { "aria-hidden": "true" }, "/")),
    /** Shows what is looked for, as the address says. */
    show(text = "") {
      if (input.value.trim() === text) return;
      clear();
      input.value = text;
    },
  };
}

/** Below a list of which only the first rows are loaded. */
export const partText = (text = "") => el("p.rows-shown", text, el("span", " · scroll for more"));

/** @param {Action} action */
export const newButton = (canWrite = false, label = "", action) => canWrite
  ? actButton(label, "primary add", action, undefined, { "data-new": true }, el("kbd", { "aria-hidden": "true" }, "n"))
  : pill("", "read-only key");
