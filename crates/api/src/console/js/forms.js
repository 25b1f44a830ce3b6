// Forms, and dialogs with a form.

import { act, message, sentenceOf } from "./app.js";
import { dialog } from "./dialogs.js";
import { button, el } from "./dom.js";
import { mayDiscard, watch } from "./unsaved.js";

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

/** Returns the values that are typed and chosen in a form. @param {HTMLFormElement} form */
const typedIn = ({ elements }) => [...elements].map((control) => {
  const { type, checked, value } = /** @type {HTMLInputElement} */ (control);
  return type === "checkbox" || type === "radio" ? checked : value;
}).join("\0");

/** @param {Element} box @param {MouseEvent} event */
function isOutside(box, { clientX, clientY }) {
  const { left, right, top, bottom } = box.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

/**
 * A dialog with a form. It closes when the action is done, and not before. Typing is dropped only if that is confirmed.
 * @param {[title: string, label: string]} texts
 * @param {Content[]} content
 * @param {Action} action
 * @param {(error: ApiError) => Promise<Child[] | undefined>} [explain]
 */
export function formDialog([title, label], content, action, explain) {
  const cancel = button("Cancel", "", () => leave());
  /** A request cannot be taken back, so the dialog stays open until its outcome is known. */
  const lock = (locked = true) => {
    cancel.disabled = locked;
    box.setAttribute("closedby", locked || isUnsaved() ? "none" : "any");
  };
  const form = formOf(label, content, async () => {
    lock();
    try {
      await action();
      isTouched = false;
      box.close();
    } finally {
      lock(false);
    }
  }, cancel, explain);
  let isTouched = false;
  const initial = typedIn(form);
  const isUnsaved = () => isTouched && !cancel.disabled && typedIn(form) !== initial;
  const leave = async () => (await mayDiscard(isUnsaved)) && box.close();
  const box = dialog(title, form);
  box.addEventListener("close", watch(isUnsaved));
  form.addEventListener("input", () => {
    isTouched = true;
    lock(cancel.disabled);
  });
  const ask = (/** @type {Event} */ event) => {
    if (!isUnsaved()) return;
    event.preventDefault();
    leave();
  };
  box.addEventListener("keydown", (event) => event.key === "Escape" && ask(event));
  // The area around a dialog belongs to it.
  box.addEventListener("click", (event) => event.target === box && isOutside(box, event) && ask(event));
  // In browsers that do not know `closedby`.
  box.addEventListener("cancel", (event) => (cancel.disabled ? event.preventDefault() : ask(event)));
  return box;
}
