// Forms and dialogs.

import { act, message } from "./app.js";
import { button, el } from "./dom.js";

/** @import { Action, Content } from "../types" */

/** @param {string} label @param {...Content} control */
export const field = (label, ...control) => el("label.field", el("span", label), ...control);

/**
 * A form, with what is wrong above its buttons.
 * @param {string} label
 * @param {Content[]} content
 * @param {Action} action
 * @param {HTMLElement} other button
 */
export function formOf(label, content, action, other) {
  const problem = el("p.problem", { role: "alert" });
  const submit = el("button.btn.primary", { "data-write": true }, label);
  return el("form", { onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    act(submit, action, (error) => void (problem.textContent = message(error)));
  } }, ...content, problem, el("div.actions", submit, other));
}

/**
 * A dialog with a form. It closes when the action is done.
 * @param {[title: string, label: string]} texts
 * @param {Content[]} content
 * @param {Action} action
 */
export function formDialog([title, label], content, action) {
  const form = formOf(label, content, async () => {
    await action();
    box.close();
  }, button("Cancel", "", () => box.close()));
  const box = dialog(title, form);
}

/** A modal dialog. Esc, and a click outside, close it. @param {string} title @param {...Content} content */
export function dialog(title, ...content) {
  const box = el("dialog", { "aria-labelledby": "dialog-title", closedby: "any", onclose: () => box.remove() },
    el("h2", { id: "dialog-title" }, title), ...content);
  document.body.append(box);
  box.showModal();
  return box;
}

/** @returns {Promise<boolean>} */
export function confirm(title = "", text = "", action = "") {
  return new Promise((resolve) => {
    const yes = button(action, "danger", () => (resolve(true), box.close()));
    const no = button("Cancel", "", () => box.close(), { autofocus: true });
    const box = dialog(title, el("p", text), el("div.actions", yes, no));
    box.addEventListener("close", () => resolve(false));
  });
}
