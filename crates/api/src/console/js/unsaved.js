// Typing that is not saved yet. It is dropped only by a person who was asked, or who is signed out.

import { confirm } from "./dialogs.js";

/** @type {Set<() => boolean>} whether a form has unsaved typing */
const forms = new Set();
/** @type {Promise<boolean> | null} */
let question = null;

/** Watches a form until the returned function is called. @param {() => boolean} isUnsaved */
export function watch(isUnsaved) {
  forms.add(isUnsaved);
  return () => void forms.delete(isUnsaved);
}

export const hasUnsaved = () => [...forms].some((isUnsaved) => isUnsaved());

/** Asks before typing is dropped, one question at a time. */
export async function mayDiscard(isUnsaved = hasUnsaved) {
  if (!isUnsaved()) return true;
  question ??= confirm("Discard what you typed?", "It is not saved yet.", "Discard", "Keep editing").finally(() => (question = null));
  return question;
}

/** Forgets all forms: the page is left. */
export const release = () => forms.clear();

addEventListener("beforeunload", (event) => hasUnsaved() && event.preventDefault());
