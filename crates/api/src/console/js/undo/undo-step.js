// The step in which an import, or a change of many animals, is undone: a question, the progress, and the result.

import { ApiError } from "../api.js";
import { message, showFailure } from "../app.js";
import { confirm } from "../dialogs.js";
import { button, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { loadNames, reasonTable } from "./reasons.js";
import { isTooOld, undo } from "./undo.js";

/** @import { PastBatch, UndoResult, WayBack } from "../../types" */

const KEPT_AS_THEY_ARE = "Animals that were changed, reserved or sold since stay as they are.";
const CATEGORIES = "Categories that it created are deleted, too, unless an animal has them.";
export const TOO_OLD = "This can no longer be undone: the store does not keep its events any more.";

/** "deletes 5 animals that it added and changes 2 back". @param {PastBatch} past */
function effectOf({ added, changed, deleted = 0, isLonger }) {
  const animals = (number = 0) => `${isLonger ? "at least " : ""}${plural(number, "animal")}`;
  const deletes = added > 0 && `deletes ${animals(added)} that it added`;
  const changes = changed > 0 && `changes ${animals(changed)} back`;
  const restores = deleted > 0 && `restores ${animals(deleted)}`;
  return [deletes, changes, restores].filter(Boolean).join(" and ");
}

/** "the import of animals.csv". @param {PastBatch} past */
export const titleOf = (past) => (past.hash ? `the import of ${past.name}` : `“${past.name}”`);

/** @param {PastBatch} past */
export const confirmUndo = (past) => confirm(`Undo ${titleOf(past)}?`,
  [`This ${effectOf(past)}.`, KEPT_AS_THEY_ARE, ...(past.categories ? [CATEGORIES] : [])].join(" "), `Undo the ${past.kind}`);

/** Undoes it, and reports. @param {HTMLElement} root @param {PastBatch} past @param {AbortSignal} end @param {WayBack} back */
export async function showUndo(root, past, end, back) {
  const total = past.added + past.changed + (past.deleted ?? 0);
  const of = past.isLonger ? "" : ` of ${count(total)}`;
  const progress = el("progress", { max: !past.isLonger && total, value: !past.isLonger && 0, "aria-label": "Progress" });
  const text = el("p.digits", { role: "status" }, `0${of}`);
  fill(root, el("div.drop", el("h2", `Undoing ${titleOf(past)}`), progress, text));
  try {
    const result = await undo(past.id, (undone) => {
      if (!past.isLonger) progress.value = undone;
      text.textContent = `${count(undone)}${of}`;
    });
    await loadNames(result.kept);
    if (!end.aborted) showUndone(root, past, result, back);
  } catch (error) {
    if (end.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    if (isTooOld(error)) return fill(root, el("div.empty", { role: "alert" }, el("p", TOO_OLD), button("Back", "", back.go)));
    const stopped = new ApiError(error.status, error.code, `The undo stopped. ${message(error)}`);
    showFailure(root, stopped, () => end.aborted || showUndo(root, past, end, back));
  }
}

/** "5 animals were deleted.": of several kinds of changes, it is not known which were undone. @param {PastBatch} past */
function undoneText({ added, changed, deleted = 0 }, undone = 0) {
  if (!changed && !deleted) return `${plural(undone, "animal that it added was", "animals that it added were")} deleted.`;
  if (!added && !changed) return `${plural(undone, "animal was", "animals were")} restored.`;
  if (!added) return `${plural(undone, "animal is", "animals are")} as before.`;
  return `${plural(undone, "change was", "changes were")} undone.`;
}

/** @param {HTMLElement} root @param {PastBatch} past @param {UndoResult} result @param {WayBack} back */
function showUndone(root, past, { undone, kept, categories, purged, purgedPhotos }, back) {
  const title = el("h2", { tabindex: -1 }, `The ${past.kind} was undone`);
  fill(root, el("div.drop", { role: "status" }, title, el("p", undoneText(past, undone)),
    categories > 0 && el("p", `${plural(categories, "category that it created was", "categories that it created were")} deleted.`),
    kept.length > 0 && el("p", `${plural(kept.length, "animal was", "animals were")} kept.`),
    purged > 0 && el("p", `${plural(purged, "change", "changes")} could not be undone: the store does not keep ${purged === 1 ? "its event" : "their events"} any more.`),
    purgedPhotos > 0 && el("p", `${plural(purgedPhotos, "photo is", "photos are")} gone: those of deleted animals are kept for 24 hours.`),
    el("div.bar", el("a.btn.primary", { href: "#/animals" }, "Show animals"), button(back.label, "", back.go))),
    kept.length > 0 && reasonTable(kept));
  title.focus();
}
