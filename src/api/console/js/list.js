// A live list that is loaded page by page as its end comes into view.

import { button, el, fill } from "./dom.js";

/** @import { Event } from "./api.js" */

/** More events than this while a page is loaded, and the list is loaded again. */
const MAX_MISSED = 500;

/**
 * @param {import("./app.js").App} app
 * @param {object} list
 * @param {(items: any[]) => unknown} list.append shows a page
 * @param {(event: Event) => unknown} list.apply shows what has happened since
 * @param {(isLast: boolean) => import("./dom.js").Child} list.foot
 * @param {() => void} list.reload starts it again
 */
export function pagedList(app, { append, apply, foot, reload }) {
  const more = el("div", { class: "more", role: "status" });
  let abort = new AbortController();
  let path = "";
  /** @type {string | null} */
  let next = null;
  /** @type {Event[] | null} what happens while a page is loaded, which may not show it yet */
  let missed = null;

  const paint = () => missed || fill(more, foot(!next));
  const load = async (/** @type {string} */ query) => {
    const { signal } = abort;
    next = null;
    missed ??= [];
    fill(more, "Loading…");
    try {
      const page = await app.api.get(path + query, signal);
      if (signal.aborted) return;
      next = page.next;
      append(page.data);
      const events = missed;
      missed = null;
      if (events.length > MAX_MISSED) return reload();
      for (const event of events) if (!signal.aborted) apply(event);
      if (signal.aborted) return;
      paint();
      // The end may be in view still.
      watcher.unobserve(more);
      watcher.observe(more);
    } catch (error) {
      if (!signal.aborted) app.failed(more, error, () => signal.aborted || load(query));
    }
  };
  const watcher = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && next && load(next), { rootMargin: "800px" });

  return {
    more,
    isLast: () => !next && !missed,
    paint,
    /** @param {string} list @param {string} query */
    start(list, query) {
      abort.abort();
      abort = new AbortController();
      [path, missed] = [list, []];
      load(query);
    },
    /** @param {Event} event */
    onEvent(event) {
      if (missed) return void (missed.length <= MAX_MISSED && missed.push(event));
      apply(event);
      paint();
    },
    unmount() {
      abort.abort();
      watcher.disconnect();
    },
  };
}

/**
 * Buttons of which one is pressed, at first the first one.
 * @param {string} label
 * @param {Record<string, string>} options
 * @param {(value: string) => void} choose
 */
export function tabs(label, options, choose) {
  const all = Object.entries(options).map(([value, text]) => el("button", { type: "button", onclick: () => press(value) }, text));
  const press = (/** @type {string} */ value) => {
    for (const tab of all) tab.ariaPressed = String(tab.textContent === options[value]);
    choose(value);
  };
  press(Object.keys(options)[0]);
  return el("div", { class: "tabs", role: "group", "aria-label": label }, ...all);
}

/**
 * The button that adds something.
 * @param {boolean} canWrite
 * @param {string} label
 * @param {() => void} onclick
 */
export const newButton = (canWrite, label, onclick) => canWrite
  ? button(label, { class: "btn primary add", "data-new": true, "data-write": true, onclick }, el("kbd", { "aria-hidden": "true" }, "n"))
  : el("span", { class: "pill" }, "read-only key");

/** Moves the focus up and down the rows of a table. @param {Element} body */
export const arrows = (body) => (/** @type {KeyboardEvent} */ { key }) => {
  if (key !== "ArrowDown" && key !== "ArrowUp") return false;
  const row = document.activeElement?.closest("tbody tr");
  const to = !row ? body.firstElementChild : key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
  /** @type {HTMLElement | null | undefined} */ (to?.querySelector("a, button"))?.focus();
  return true;
};

/**
 * A table in a sheet; on a phone, its cells are below each other.
 * @param {string[]} heads
 * @param {HTMLElement} body
 */
export const table = (heads, body) => el("div", { class: "sheet" }, el("table", { class: "stack" },
  el("thead", null, el("tr", null, ...heads.map((head) => el(head ? "th" : "td", null, head)))), body));
