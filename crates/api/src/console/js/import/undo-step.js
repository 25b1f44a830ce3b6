// Undoes an import, or a change of many animals.

import { ApiError } from "../api.js";
import { message, sentenceOf, showFailure } from "../app.js";
import { confirm } from "../dialogs.js";
import { button, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { table } from "../list.js";
import { names } from "../names.js";
import { isTooOld, undo } from "./history.js";

/** @import { KeptAnimal, PastImport, RejectedAnimal } from "../../types" */

const MAX_SHOWN = 200;
const KEPT_AS_THEY_ARE = "Animals that were changed, reserved or sold since stay as they are.";
/** The reasons why an animal is kept. The service may add others. */
const REASONS = new Map(Object.entries({
  changed: "It was changed since.",
  deleted: "It was deleted since.",
  ordered: "It was reserved or sold since.",
  microchip_taken: "Another animal has its former microchip now.",
}));
export const TOO_OLD = "This can no longer be undone: the store does not keep its events any more.";

/** "deletes 5 animals that it added and changes 2 back". @param {PastImport} past */
function effectOf({ added, changed, deleted = 0 }) {
  const deletes = added > 0 && `deletes ${plural(added, "animal")} that it added`;
  const changes = changed > 0 && `changes ${plural(changed, "animal")} back`;
  const restores = deleted > 0 && `restores ${plural(deleted, "animal")}`;
  return [deletes, changes, restores].filter(Boolean).join(" and ");
}

/** Only imports are of a file. @param {PastImport} past */
const kindOf = ({ hash }) => (hash ? "import" : "change");
/** "the import of animals.csv". @param {PastImport} past */
export const titleOf = (past) => (past.hash ? `the import of ${past.name}` : `“${past.name}”`);

/** Animals that were not changed, with the reasons. @param {RejectedAnimal[]} animals */
export const reasonTable = (animals) => el("div", table(["Animal", "Reason"], el("tbody", animals.slice(0, MAX_SHOWN).map(({ id, reason }) => {
  const name = names.pets.get(id);
  return el("tr", el("td", name ? el("a", { href: `#/animals/${id}` }, name) : `Animal ${id}`), el("td", reason));
})), "import-rows kept"), animals.length > MAX_SHOWN && el("div.more", `The first ${MAX_SHOWN} of ${count(animals.length)} are shown.`));

/** @param {KeptAnimal[]} kept */
export const keptTable = (kept) => reasonTable(kept.map(({ id, reason, message }) => ({ id, reason: REASONS.get(reason) ?? sentenceOf(message) })));

/** Asks, undoes it, and reports. @param {HTMLElement} root @param {PastImport} past @param {AbortSignal} end @param {() => void} another */
export async function showUndo(root, past, end, another) {
  const isSure = await confirm(`Undo ${titleOf(past)}?`, `This ${effectOf(past)}. ${KEPT_AS_THEY_ARE}`, `Undo the ${kindOf(past)}`);
  if (!isSure || end.aborted) return;
  const total = past.added + past.changed + (past.deleted ?? 0);
  const progress = el("progress", { max: total, value: 0, "aria-label": "Progress" });
  const text = el("p.digits", { role: "status" }, `0 of ${count(total)}`);
  fill(root, el("div.drop", el("h2", `Undoing ${titleOf(past)}`), progress, text));
  try {
    const { undone, kept } = await undo(past, (undone) => {
      progress.value = undone;
      text.textContent = `${count(undone)} of ${count(total)}`;
    });
    await names.load([], kept.slice(0, MAX_SHOWN).map(({ id }) => id));
    if (!end.aborted) showUndone(root, past, undone, kept, another);
  } catch (error) {
    if (end.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    if (isTooOld(error)) return fill(root, el("div.empty", { role: "alert" }, el("p", TOO_OLD), button("Back", "", another)));
    const stopped = new ApiError(error.status, error.code, `The undo stopped. ${message(error)}`);
    showFailure(root, stopped, () => showUndo(root, past, end, another));
  }
}

/** @param {HTMLElement} root @param {PastImport} past @param {number} undone @param {KeptAnimal[]} kept @param {() => void} another */
function showUndone(root, past, undone, kept, another) {
  const title = el("h2", { tabindex: -1 }, `The ${kindOf(past)} was undone`);
  fill(root, el("div.drop", { role: "status" }, title, el("p", `${plural(undone, "animal is", "animals are")} as before.`),
    kept.length > 0 && el("p", `${plural(kept.length, "animal was", "animals were")} kept.`),
    el("div.bar", el("a.btn.primary", { href: "#/animals" }, "Show animals"), button("Import another file", "", another))),
    kept.length > 0 && keptTable(kept));
  title.focus();
}
