// Forms and dialogs.

import { act, message, sentenceOf } from "./app.js";
import { button, el } from "./dom.js";

/** @import { ApiError } from "./api.js" */
/** @import { Action, Child, Content } from "../types" */

let ids = 0;

/** A control with its label, and perhaps a hint. @param {string} label @param {HTMLElement} content @param {HTMLElement} [hint] */
export function field(label, content, hint) {
  const controls = "input, select, textarea";
  const control = content.matches(controls) ? content : /** @type {HTMLElement} */ (content.querySelector(controls) ?? content);
  control.id ||= `control-${++ids}`;
  if (hint) {
    hint.id = `${control.id}-hint`;
    control.setAttribute("aria-describedby", hint.id);
  }
  return el("div.field", el("label", { for: control.id }, label), content, hint);
}

/** Shows what is wrong with the control of a field, until it is changed. @param {HTMLElement} control @param {...Content} content */
function showProblem(control, ...content) {
  const id = `${control.id}-problem`;
  const before = control.getAttribute("aria-describedby");
  const problem = el("small.problem", { id, role: "alert" }, ...content);
  const clear = () => {
    problem.remove();
    control.ariaInvalid = null;
    before ? control.setAttribute("aria-describedby", before) : control.removeAttribute("aria-describedby");
    form?.removeEventListener("submit", clear);
    control.removeEventListener("input", clear);
  };
  const form = control.closest("form");
  control.ariaInvalid = "true";
  control.setAttribute("aria-describedby", id);
  control.addEventListener("input", clear);
  form?.addEventListener("submit", clear);
  control.closest("details")?.setAttribute("open", "");
  control.closest(".field")?.append(problem);
}

/** The control that an error such as "source.name: required" is about. @param {HTMLFormElement} form */
function controlOf(form, path = "") {
  for (let name = path; name; name = name.replace(/\.?[^.]*$/, "")) {
    const control = form.elements.namedItem(name);
    if (control instanceof HTMLElement) return control;
  }
}

/**
 * A form. What is wrong is shown at the field it is about, or above the buttons.
 * @param {string} label
 * @param {Content[]} content
 * @param {Action} action
 * @param {HTMLElement} other button
 * @param {(error: ApiError) => Promise<Child[] | undefined>} [explain] says more than the error does
 */
export function formOf(label, content, action, other, explain = async () => undefined) {
  const problem = el("p.problem", { role: "alert" });
  const submit = el("button.btn.primary", { "data-write": true }, label);
  const form = el("form", { onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    act(submit, action, async (error) => {
      const explained = await explain(error);
      const found = error.message.split(/; (?=[\w.-]+: )/).map((text) => {
        const [, path, reason = text] = text.match(/^([\w.-]+): (.*)$/s) ?? [];
        return { control: controlOf(form, path), reason };
      });
      const placed = found.filter(({ control }) => control);
      if (placed.length < found.length) problem.textContent = message(error);
      for (const { control, reason } of placed) if (control) showProblem(control, explained ?? sentenceOf(reason.replace(/^required;.*/, "required")));
      placed[0]?.control?.focus();
    });
  } }, ...content, problem, el("div.actions", submit, other));
  return form;
}

/**
 * A dialog with a form. It closes when the action is done, and not before.
 * @param {[title: string, label: string]} texts
 * @param {Content[]} content
 * @param {Action} action
 * @param {(error: ApiError) => Promise<Child[] | undefined>} [explain]
 */
export function formDialog([title, label], content, action, explain) {
  const cancel = button("Cancel", "", () => box.close());
  /** A request cannot be taken back, so the dialog stays open until its outcome is known. */
  const lock = (locked = true) => {
    cancel.disabled = locked;
    box.setAttribute("closedby", locked ? "none" : "any");
  };
  const form = formOf(label, content, async () => {
    lock();
    try {
      await action();
      box.close();
    } finally {
      lock(false);
    }
  }, cancel, explain);
  const box = dialog(title, form);
  // In browsers that do not know `closedby`.
  box.addEventListener("cancel", (event) => cancel.disabled && event.preventDefault());
  return box;
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
