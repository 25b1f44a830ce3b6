// What all screens share: the API, the key and its scopes, messages, dialogs, pending
// actions.

import { ApiError } from "./api.js";
import { button, byId, el, fill } from "./dom.js";
import { Names } from "./names.js";

/**
 * A screen. `onEvent` gets every event of the log that the key may see. `onKey` gets keys
 * that are pressed outside of forms and dialogs, and returns whether it has used them.
 * `show` gets the rest of the address: "17" for `#/animals/17`.
 * @typedef {object} Screen
 * @property {(event: import("./api.js").Event) => void} [onEvent]
 * @property {(event: KeyboardEvent) => boolean | void} [onKey]
 * @property {(rest: string) => void} [show]
 * @property {() => void} [unmount]
 */

/** @typedef {(root: HTMLElement, app: App, rest: string) => Screen} Mount */

export class App {
  /**
   * @param {import("./api.js").Api} api
   * @param {import("./session.js").Key} key
   */
  constructor(api, key) {
    this.api = api;
    this.key = key;
    this.names = new Names(api);
    /** @type {Set<() => void>} what could not be loaded */
    this.retries = new Set();
  }

  /** Loads it, when the connection is back. */
  retry() {
    const all = [...this.retries];
    this.retries.clear();
    for (const retry of all) retry();
  }

  /** @param {string} scope */
  can(scope) {
    return this.key.scopes.includes(scope);
  }

  /**
   * Runs an action of a button, which is pending meanwhile. An error is shown, unless
   * `onError` handles it.
   * @param {HTMLElement | null} control
   * @param {() => Promise<unknown>} action
   * @param {(error: ApiError) => unknown} [onError] returns false if it does not handle it
   */
  async act(control, action, onError) {
    if (control?.ariaBusy) return;
    if (control) control.ariaBusy = "true";
    try {
      await action();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "aborted") return;
      let handled = false;
      try {
        handled = !!onError && (await onError(error)) !== false;
      } finally {
        if (!handled) toast(message(error), "danger");
      }
    } finally {
      if (control) control.ariaBusy = null;
    }
  }

  /**
   * A button that changes something.
   * @param {string} label
   * @param {string} kind
   * @param {(control: HTMLElement) => Promise<unknown>} action
   * @param {(error: ApiError) => unknown} [onError]
   */
  button(label, kind, action, onError) {
    /** @type {HTMLElement} */
    const control = button(label, { class: `btn ${kind}`, "data-write": true, onclick: () => this.act(control, () => action(control), onError) });
    return control;
  }

  /**
   * Says that something could not be loaded, and offers to try again.
   * @param {HTMLElement} root
   * @param {unknown} error
   * @param {() => void} retry
   */
  failed(root, error, retry) {
    if (!(error instanceof ApiError)) throw error;
    if (!error.status) this.retries.add(retry);
    fill(root, el("div", { class: "empty" }, el("p", null, message(error)), button("Try again", { class: "btn", onclick: () => (this.retries.delete(retry), retry()) })));
  }
}

let isOnline = true;

/** @param {boolean} online */
export function setOnline(online) {
  isOnline = online;
  disableWrites();
}

/** What changes something is disabled while there is no connection. */
function disableWrites() {
  for (const control of document.querySelectorAll("[data-write]")) /** @type {HTMLButtonElement} */ (control).disabled = !isOnline;
}
new MutationObserver(() => isOnline || disableWrites()).observe(document, { childList: true, subtree: true });

/**
 * What an error means for a person.
 * @param {ApiError} error
 */
export function message(error) {
  if (error.status === 403) return "Your API key does not allow this.";
  const text = error.message.replace(/^\w+: /, "");
  return text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
}

/**
 * Shows a message for a while, and has it read aloud.
 * @param {string} text
 * @param {"" | "danger"} [kind]
 */
export function toast(text, kind = "") {
  const close = button("×", { "aria-label": "Dismiss", onclick: () => box.remove() });
  const box = el("div", { class: `toast ${kind}` }, el("span", null, text), close);
  byId("toasts").append(box);
  setTimeout(() => box.remove(), kind ? 15_000 : 5000);
}

/**
 * A modal dialog. Esc, and a click outside, close it.
 * @param {string} title
 * @param {...import("./dom.js").Child} content
 */
export function dialog(title, ...content) {
  const box = el("dialog", { "aria-labelledby": "dialog-title", closedby: "any" }, el("h2", { id: "dialog-title" }, title), ...content);
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/**
 * Asks whether to go on.
 * @param {string} title
 * @param {string} text
 * @param {string} action the label of the button
 * @returns {Promise<boolean>}
 */
export function confirm(title, text, action) {
  return new Promise((resolve) => {
    const yes = button(action, { class: "btn danger", onclick: () => (resolve(true), box.close()) });
    const no = button("Cancel", { class: "btn", autofocus: true, onclick: () => box.close() });
    const box = dialog(title, el("p", null, text), el("div", { class: "actions" }, yes, no));
    box.addEventListener("close", () => resolve(false));
  });
}
