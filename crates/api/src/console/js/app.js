// Shared by all screens: pending actions, messages, and data that could not be loaded.

import { api, ApiError } from "./api.js";
import { button, el, fill } from "./dom.js";
import { toast } from "./toasts.js";

export { toast };

/** @import { Action, Content, OnError } from "../types" */

const NOT_LOADED = "This part of the console could not be loaded, perhaps because the service was updated. Reload the page.";
const NOT_LOADED_YET = "This part of the console was not opened before. It is loaded when the connection is back.";

/**
 * Runs the action of a button, which is pending until it ends. An error is shown, unless `onError` handles it: it returns
 * false if it does not.
 * @param {HTMLElement} control
 * @param {Action} action
 * @param {OnError} [onError]
 */
export async function act(control, action, onError = () => false) {
  if (control.ariaBusy) return;
  control.ariaBusy = "true";
  try {
    await action();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const handled = await Promise.resolve(error).then(onError).catch(() => false);
    if (handled === false) toast(message(error), "danger");
  } finally {
    control.ariaBusy = null;
  }
}

/** Returns true if a click is the second one of a double click: what it hits may have appeared after the first one. @param {MouseEvent} event */
const isRepeated = ({ detail }) => detail > 1;

/**
 * A button that changes something.
 * @param {string} label
 * @param {string} kind classes
 * @param {Action} action
 * @param {OnError} [onError]
 * @param {...Content} more
 */
export function actButton(label, kind, action, onError, ...more) {
  /** @type {HTMLElement} */
  const control = button(label, kind, (event) => void (isRepeated(event) || act(control, action, onError)), { "data-write": true }, ...more);
  return control;
}

/** @type {Set<() => void>} what could not be loaded */
export const retries = new Set();

/** Says why something could not be loaded. @param {Element} root @param {unknown} error @param {() => void} retry */
export function showFailure(root, error, retry) {
  if (!(error instanceof ApiError)) throw error;
  if (error.code === "connection_lost") retries.add(retry);
  const again = error.code === "not_loaded"
    ? button("Reload", "primary", () => location.reload())
    : button("Try again", "", () => (retries.delete(retry), retry()));
  fill(root, el("div.empty", { role: "alert" }, el("p", message(error)), again));
}

/** Loads something, and again when the connection is back if it was lost. @param {() => Promise<{ isOld?: boolean } | void>} part @param {AbortSignal} [end] */
export async function loadOrRetry(part, end) {
  const again = () => void (end?.aborted || loadOrRetry(part, end));
  try {
    if ((await part())?.isOld) retries.add(again);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === "connection_lost") retries.add(again);
  }
}

/** Returns true for an error that is a response, such as that a file does not exist any more. */
const isReached = () => fetch(import.meta.url, { cache: "no-store" }).then(() => true, () => false);

/** A part of the console that is loaded when it is needed. @template Module @param {Promise<Module>} module */
export const load = (module) => module.catch(async () => {
  if (await isReached()) throw new ApiError(0, "not_loaded", NOT_LOADED);
  api.onConnection(false);
  throw new ApiError(0, "connection_lost", NOT_LOADED_YET);
});

let isOnline = true;

/** Disables the controls that change something while there is no connection. When it is back, loads what could not be loaded. */
export function setOnline(online = true) {
  isOnline = online;
  disableWrites();
  const all = online ? [...retries] : [];
  for (const retry of all) {
    retries.delete(retry);
    retry();
  }
}

function disableWrites() {
  for (const control of document.querySelectorAll("[data-write]")) control.toggleAttribute("disabled", !isOnline);
}
new MutationObserver(() => isOnline || disableWrites()).observe(document, { childList: true, subtree: true });

/** Explains an error to a person. @param {ApiError} error */
export function message(error) {
  if (error.status === 403) return "Your API key does not allow this.";
  return sentenceOf(error.message.replace(/^[\w.-]+: /, ""));
}

export const sentenceOf = (text = "") => text[0].toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

/** Names what a list is narrowed to in the title of the page, in the history of the browser and on paper. @param {(string | false | undefined)[]} words */
export function titleList(words) {
  const heading = /** @type {HTMLElement} */ (document.querySelector("main h1"));
  heading.textContent = [heading.dataset.name, ...words.filter(Boolean)].join(" · ");
  document.title = `${heading.textContent} · Petstore`;
}
