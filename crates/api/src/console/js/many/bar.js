// The bar for the animals that are selected: their number, all matching animals, and what can be done with them.

import { ApiError, get } from "../api.js";
import { act, load, message, toast } from "../app.js";
import { confirm } from "../dialogs.js";
import { button, controls, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { loadStyles } from "../styles.js";
import { askMember } from "./change.js";
import { changeMany } from "./run.js";

/** @import { ManyOptions, MemberChange, Pet, Result } from "../../types" */
/** @import { Selection } from "../selection.js" */

/** More ids than this are not collected. */
const MAX_SELECTED = 50_000;
/** More animals than this are not printed at once. */
const MAX_PRINTED = 1000;
/** The number of ids that a request can name. */
const MAX_IDS = 100;
/** Loading shows its progress after so many milliseconds. */
const PROGRESS_AFTER = 2000;
const MEMBERS = /** @type {const} */ ({ status: "Status", categoryId: "Category", location: "Location", price: "Price" });

await loadStyles("many.css");

/** The selected animals, newest first. @param {Selection} picked */
const sorted = ({ ids }) => [...ids].sort((a, b) => b - a);

/** The lists that have these animals. @param {number[]} ids */
const pathsOf = (ids) => Array.from({ length: Math.ceil(ids.length / MAX_IDS) }, (_, at) =>
  `pets?limit=${MAX_IDS}&sort=desc&id=${ids.slice(at * MAX_IDS, (at + 1) * MAX_IDS)}`);

/** Animals may have been deleted since they were selected. */
const warnOfDeleted = (number = 0) =>
  number > 0 && toast(`${plural(number, "animal was", "animals were")} deleted since, and left out.`, "danger");

/** Moves between the buttons, as in every toolbar. @param {KeyboardEvent} event */
function moveInBar({ key, currentTarget, target }) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (!step) return;
  const all = controls(/** @type {Element} */ (currentTarget)).filter((control) => control.checkVisibility());
  all[(all.indexOf(/** @type {HTMLElement} */ (target)) + step + all.length) % all.length]?.focus();
}

/** @param {Selection} picked @param {ManyOptions} options */
export function selectionBar(picked, { section, path, total, categoryId, end }) {
  let isBusy = false;
  /** @type {HTMLElement | null} the button whose action is under way */
  let opener = null;
  const number = el("b", { role: "status" });
  const all = button("", "small quiet", () => selectAll(), { "data-write": true });
  const clear = button("", "small quiet", () => {
    picked.clear();
    controls(section.querySelector("tbody"))[0]?.focus();
  }, { "data-clear": true, "aria-label": "Clear the selection" }, "×");

  /** @param {MemberChange} change */
  const apply = (change) => changeMany(sorted(picked), change, bar);
  const members = /** @type {(keyof typeof MEMBERS)[]} */ (Object.keys(MEMBERS)).map((member) =>
    button(MEMBERS[member], "small", () => askMember(member, picked.ids.size, { categoryId: categoryId() }, apply), { "data-write": true }));
  const save = button("Export", "small", () => act(save, async () => {
    const { exportAnimals } = await load(import("../export.js"));
    const ids = sorted(picked);
    const saved = await exportAnimals(pathsOf(ids), (done) => (save.textContent = done));
    warnOfDeleted(ids.length - saved);
  }).finally(() => (save.textContent = "Export")), { title: "Save the selected animals as CSV" });
  const print = button("Print", "small", () => act(print, async () => {
    const ids = sorted(picked);
    if (ids.length > MAX_PRINTED) return toast(`Up to ${count(MAX_PRINTED)} animals are printed at once: select fewer.`, "danger");
    const [{ printAnimals }, pets] = await Promise.all([load(import("../print/animals.js")), loadAnimals(ids)]);
    if (!pets) return;
    warnOfDeleted(ids.length - pets.length);
    if (pets.length) await printAnimals(pets, "labels");
  }), { title: "Print labels or cage cards of the selected animals" });
  const remove = button("Delete", "small danger", async () => {
    const animals = plural(picked.ids.size, "animal");
    const isSure = await confirm(`Delete ${animals}?`, "Reserved animals are kept. You can undo this; photos can be restored for 24 hours.", `Delete ${animals}`);
    if (isSure) apply({ name: "Deleted animals", effect: (done) => `${plural(done, "animal was", "animals were")} deleted.` });
  }, { "data-write": true });

  const choices = el("div.many-choices", el("div.many-count", number, all), el("div.many-tools", members, save, print, remove), clear);
  const work = el("div.many-work", { hidden: true });
  const element = el("div.many", { role: "toolbar", "aria-label": "Selected animals", hidden: true,
    onclick: (/** @type {Event} */ { target }) => choices.contains(/** @type {Node} */ (target)) && (opener = /** @type {HTMLElement} */ (target)),
    onkeydown: moveInBar }, choices, work);

  const paint = () => {
    const size = picked.ids.size;
    element.hidden = !size && !isBusy;
    number.textContent = `${count(size)} selected`;
    const { value = Infinity, text, isNarrowed } = total();
    all.hidden = size >= value && text === count(value);
    all.textContent = `Select all ${text}${isNarrowed ? " that match" : ""}`;
  };

  const bar = {
    element,
    paint,
    picked,
    /** Shows the progress of something long instead of the buttons. @param {string} text @param {number} value @param {number} max @param {...HTMLElement} buttons */
    progress(text, value, max, ...buttons) {
      const isNew = work.childElementCount !== buttons.length + 2 || work.lastElementChild?.textContent !== buttons.at(-1)?.textContent;
      if (isNew) {
        const hadFocus = element.contains(document.activeElement) || document.activeElement === document.body;
        fill(work, el("span.digits", { role: "status" }), el("progress", { max, "aria-label": "Progress" }), buttons);
        [isBusy, choices.hidden, work.hidden] = [true, true, false];
        if (hadFocus) buttons[0]?.focus();
        paint();
      }
      const [label, meter] = work.children;
      label.textContent = text;
      /** @type {HTMLProgressElement} */ (meter).value = value;
    },
    /** Shows the buttons again. */
    idle() {
      const hadFocus = work.contains(document.activeElement) || document.activeElement === document.body;
      fill(work);
      [isBusy, choices.hidden, work.hidden] = [false, false, true];
      paint();
      if (hadFocus && !element.hidden) opener?.focus();
    },
  };

  /** Loads animals, and shows the progress if that takes long. Returns null if it is cancelled. @param {number[]} ids */
  const loadAnimals = async (ids) => {
    const walk = new AbortController();
    const cancel = button("Cancel", "small", () => walk.abort());
    const signal = AbortSignal.any([end, walk.signal]);
    /** @type {Pet[]} */
    const pets = [];
    const paint = () => bar.progress(`Loading ${count(pets.length)} of ${count(ids.length)}`, pets.length, ids.length, cancel);
    const timer = setTimeout(paint, PROGRESS_AFTER);
    try {
      for (const path of pathsOf(ids)) {
        pets.push(...(await get(path, signal)).data);
        if (isBusy) paint();
      }
    } catch (error) {
      if (!signal.aborted) throw error;
      return null;
    } finally {
      clearTimeout(timer);
      if (isBusy) bar.idle();
    }
    return pets;
  };

  /** Selects everything that matches, page by page. */
  const selectAll = async () => {
    const walk = new AbortController();
    const cancel = button("Cancel", "small", () => walk.abort());
    const signal = AbortSignal.any([end, walk.signal]);
    const { value = MAX_SELECTED } = total();
    const first = path();
    try {
      for (let next = first; next && !signal.aborted;) {
        bar.progress(`${count(picked.ids.size)} selected…`, picked.ids.size, value, cancel);
        /** @type {Result} */
        const page = await get(next, signal);
        // Another list is shown by now.
        if (path() !== first) break;
        const room = MAX_SELECTED - picked.ids.size;
        const found = page.data.map(({ id = 0 }) => id).filter((/** @type {number} */ id) => !picked.ids.has(id));
        picked.set(found.slice(0, room));
        next = page.next ? `pets${page.next}` : "";
        if (found.length > room || (found.length === room && next)) {
          toast(`More than ${count(MAX_SELECTED)} animals match: ${count(MAX_SELECTED)} are selected. Change these first, or narrow the list.`, "danger");
          break;
        }
      }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!signal.aborted) toast(`Not all were selected. ${message(error)}`, "danger");
    }
    bar.idle();
  };

  section.append(element);
  return bar;
}
