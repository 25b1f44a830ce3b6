// Messages that are shown for a while, where they cover nothing that can be pressed.

import { byId, el } from "./dom.js";

/** Controls that can be pressed or typed into. */
const CONTROLS = "a[href], button, input, select, textarea, summary, label";
/** The space between a message and the edges, in pixels. */
const EDGE = 16;
/** The distance of the places that are tried, in pixels. */
const STEP = 12;

/**
 * Shows a message for a while, and has it read aloud. It may offer an action, and stays while that is about to be used.
 * Returns a function that removes it earlier.
 * @param {{ label: string, time: number, run(): void }} [action]
 */
export function toast(text = "", kind = "", action) {
  const close = el("button", { "aria-label": "Dismiss", onclick: () => box.remove() }, "×");
  const offer = action && el("button.offer", { "data-write": true, onclick: () => (box.remove(), action.run()) }, action.label);
  const box = el("div", { class: `toast ${kind}` }, el("span", text), offer, close);
  byId("toasts").append(box);
  const end = () => void (offer && box.matches(":hover, :focus-within") ? setTimeout(end, 1000) : box.remove());
  setTimeout(end, action?.time ?? (kind ? 15_000 : 5000));
  place();
  return () => box.remove();
}

/** The parts of the window that controls take up, except those in some elements. */
function visibleControls(except = "") {
  const all = [...document.querySelectorAll(CONTROLS)].filter((control) => !control.closest(except));
  return all.map((control) => control.getBoundingClientRect())
    .filter(({ width, height, bottom, top }) => width && height && bottom > 0 && top < innerHeight);
}

/**
 * Moves the messages to the lowest place that is free, at the right, at the left or in the middle; if there is none, to
 * one where they cover rows, which can be scrolled. If there is none either, the newest message stands alone.
 */
function place() {
  const box = byId("toasts");
  if (!box.childElementCount) return;
  // Its place would limit its width.
  box.style.inset = "";
  const { width, height } = box.getBoundingClientRect();
  const columns = [innerWidth - width - EDGE, EDGE, (innerWidth - width) / 2];
  for (const except of ["#toasts", "#toasts, tbody"]) {
    const taken = visibleControls(except);
    const isFree = (/** @type {number} */ left, /** @type {number} */ top) => !taken.some((rect) =>
      left < rect.right && left + width > rect.left && top < rect.bottom && top + height > rect.top);
    for (let top = innerHeight - height - EDGE; top > EDGE; top -= STEP) {
      const left = columns.find((column) => isFree(column, top));
      if (left === undefined) continue;
      box.style.inset = `${top}px auto auto ${left}px`;
      return;
    }
  }
  if (box.childElementCount < 2) return;
  box.firstElementChild.remove();
  place();
}

let isPlanned = false;
/** Once per frame. */
function plan() {
  if (isPlanned || !byId("toasts").childElementCount) return;
  isPlanned = true;
  requestAnimationFrame(() => {
    isPlanned = false;
    place();
  });
}
addEventListener("scroll", plan, { passive: true, capture: true });
addEventListener("resize", plan);
new MutationObserver(plan).observe(document.body, { childList: true, subtree: true, attributeFilter: ["hidden", "open", "class"] });
