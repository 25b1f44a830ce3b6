// The animals that are selected in the list. They are known by id, so the selection outlives pages and repainted rows.

import { load, message, toast } from "./app.js";
import { el } from "./dom.js";

/** @import { ManyOptions, Pet } from "../types" */
/** @import { selectionBar } from "./many/bar.js" */

/** @typedef {ReturnType<typeof selection>} Selection */

/** @param {HTMLElement} body the rows @param {ManyOptions} options */
export function selection(body, options) {
  /** @type {Set<number>} */
  const ids = new Set();
  /** Shift selects from here. */
  let anchor = 0;
  let isPlanned = false;
  /** @type {Promise<ReturnType<typeof selectionBar> | void> | undefined} */
  let bar;

  const rows = () => /** @type {HTMLElement[]} */ ([...body.children]).map(({ dataset }) => Number(dataset.key));
  const head = el("input", { type: "checkbox", "aria-label": "Select the animals that are shown",
    onchange: () => set(rows(), head.checked) });

  const paint = () => {
    const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (body.querySelectorAll(".pick input"));
    for (const box of boxes) box.checked = ids.has(Number(box.closest("tr")?.dataset.key));
    const checked = [...boxes].filter((box) => box.checked).length;
    head.checked = checked > 0 && checked === boxes.length;
    head.indeterminate = checked > 0 && !head.checked;
    showBar();
  };

  /** The bar is loaded when it is needed. */
  const showBar = async () => {
    if (!bar && !ids.size) return;
    bar ??= load(import("./many/bar.js")).then(({ selectionBar }) => selectionBar(self, options)).catch((error) => {
      bar = undefined;
      toast(message(error), "danger");
    });
    (await bar)?.paint();
  };

  /** @param {Iterable<number>} some */
  const set = (some, isOn = true) => {
    for (const id of some) isOn ? ids.add(id) : ids.delete(id);
    paint();
  };

  const self = {
    head: el("td.pick", el("label", head)),
    ids,
    set,
    paint,
    clear: () => set([...ids], false),
    /** An animal that is no longer in the list. Many can be at once. */
    drop(id = 0) {
      if (!ids.delete(id) || isPlanned) return;
      isPlanned = true;
      requestAnimationFrame(() => {
        isPlanned = false;
        paint();
      });
    },
    /** The cell that selects an animal. @param {Pet} pet */
    cell({ id, name }) {
      const box = el("input", { type: "checkbox", "aria-label": `Select ${name}`, onclick(/** @type {MouseEvent} */ { shiftKey }) {
        const all = rows();
        const [from, to] = [all.indexOf(anchor), all.indexOf(id)].sort((a, b) => a - b);
        set(shiftKey && from >= 0 ? all.slice(from, to + 1) : [id], box.checked);
        anchor = id;
      } });
      box.checked = ids.has(id);
      // A click elsewhere in the row opens the animal.
      return el("td.pick", { onclick: (/** @type {Event} */ event) => event.stopPropagation() }, el("label", box));
    },
  };
  return self;
}
