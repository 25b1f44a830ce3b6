// Modal dialogs.

import { button, el } from "./dom.js";

/** @import { Content } from "../types" */

let ids = 0;

/** A modal dialog. Esc, and a click outside, close it. @param {string} title @param {...Content} content */
export function dialog(title, ...content) {
  const id = `dialog-${++ids}`;
  const box = el("dialog", { "aria-labelledby": id, closedby: "any", onclose: () => box.remove() },
    el("h2.clamp", { id, title }, title), ...content);
  document.body.append(box);
  box.showModal();
  return box;
}

/** @returns {Promise<boolean>} */
export function confirm(title = "", text = "", action = "", otherwise = "Cancel") {
  return new Promise((resolve) => {
    const yes = button(action, "danger", () => (resolve(true), box.close()));
    const no = button(otherwise, "", () => box.close(), { autofocus: true });
    const box = dialog(title, el("p", text), el("div.actions", yes, no));
    box.addEventListener("close", () => resolve(false));
  });
}
