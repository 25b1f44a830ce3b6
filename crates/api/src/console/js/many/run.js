// Changes many animals, reports, and undoes it.

import { ApiError } from "../api.js";
import { act, load, message, retries, toast } from "../app.js";
import { BatchJob, batchesOf, newBatchId } from "../batches.js";
import { loadEscape, saveCsv } from "../csv.js";
import { dialog } from "../dialogs.js";
import { button, el } from "../dom.js";
import { count, plural } from "../format.js";
import { names } from "../names.js";
import { key } from "../session.js";
import { remember } from "../undo/past-batches.js";
import { loadNames, reasonOf, reasonTable } from "../undo/reasons.js";
import { TOO_OLD } from "../undo/undo-step.js";
import { isTooOld, undo } from "../undo/undo.js";

/** @import { BatchResult, ManyBar, MemberChange, PastBatch, RejectedAnimal } from "../../types" */

/** The time for which a message offers to undo, in milliseconds. */
const UNDO_FOR = 10_000;

/** @type {Set<ManyJob>} */
const running = new Set();
// Without a key, as another tab has signed out, there is nothing to wait for.
addEventListener("beforeunload", (event) => running.size && key.id && event.preventDefault());

/** @extends {BatchJob<{ at: number, rows: { id: number, change: object }[] }>} */
class ManyJob extends BatchJob {
  #time = Date.now();
  /** @type {number[]} */
  changed = [];
  /** @type {RejectedAnimal[]} */
  rejected = [];

  /** @param {MemberChange} change @param {number} total @param {{ at: number, rows: { id: number, change: object }[] }[]} batches */
  constructor(change, total, batches) {
    super(newBatchId(), total, batches);
    this.change = change;
  }

  /** @override @param {{ rows: { id: number }[] }} batch @param {BatchResult[]} results */
  async take({ rows }, results) {
    for (const [at, { id }] of rows.entries()) {
      const { status, error } = results[at];
      if (status < 400) this.changed.push(id);
      else this.rejected.push({ id, reason: reasonOf(error?.code, error?.message ?? `Rejected with ${status}.`) });
    }
    if (this.changed.length) remember(this.past);
  }

  /** Its entry in the history, as far as it is done. @returns {PastBatch} */
  get past() {
    const { name, update } = this.change;
    const done = this.changed.length;
    return { id: this.id, name, kind: "change", time: this.#time, added: 0, changed: update ? done : 0, deleted: update ? 0 : done };
  }
}

/** Runs until it is done or cancelled. @param {ManyJob} job @param {ManyBar} bar @returns {Promise<void>} */
const finished = (job, bar) => new Promise((resolve) => {
  let isCancelled = false;
  const cancel = button("Cancel", "small", async () => {
    isCancelled = true;
    retries.delete(run);
    await job.pause();
    resolve();
  });
  const resume = button("Resume", "small primary", () => run(), { "data-write": true });
  const text = () => `${job.change.update ? "Changing" : "Deleting"} ${count(job.done)} of ${count(job.total)}`;
  const run = async () => {
    retries.delete(run);
    if (job.state !== "paused" || isCancelled) return;
    const paint = () => bar.progress(text(), job.done, job.total, cancel);
    paint();
    const problem = await job.run(paint);
    if (job.isDone) return resolve();
    if (isCancelled) return;
    bar.progress(`${text()}. ${problem}`, job.done, job.total, resume, cancel);
    retries.add(run);
  };
  run();
});

/** @type {Promise<unknown>} */
let last = Promise.resolve();
/** Runs after what was started before: the bar shows one thing at a time. @param {() => Promise<void>} work */
const inTurn = (work) => void (last = last.then(work, work));

/** Changes or deletes animals, and offers to undo it. @param {number[]} ids @param {MemberChange} change @param {ManyBar} bar */
export const changeMany = (ids, change, bar) => inTurn(async () => {
  const { update } = change;
  const batches = await batchesOf(ids.map((id) => ({ id, change: update ? { id, update } : { id, delete: true } })));
  const job = new ManyJob(change, ids.length, batches);
  running.add(job);
  await finished(job, bar);
  running.delete(job);
  if (!update) for (const id of job.changed) bar.picked.drop(id);
  bar.idle();
  const isUnwanted = (job.rejected.length > 0 || !job.isDone) && (await report(job));
  if (isUnwanted) undoMany(job.past, bar);
  else if (job.changed.length) {
    toast(change.effect(job.changed.length), "", { label: "Undo", time: UNDO_FOR, run: () => undoMany(job.past, bar) });
  }
});

/** A link in it leads to an animal. @param {HTMLDialogElement} box */
function asReport(box) {
  box.classList.add("large", "many-report");
  box.addEventListener("click", ({ target }) => target instanceof HTMLAnchorElement && box.close());
}

/** Lists what was not changed, with the reasons. Returns whether all is to be undone. @param {ManyJob} job @returns {Promise<boolean>} */
async function report(job) {
  const { rejected, changed, change } = job;
  await loadNames(rejected);
  const left = job.total - job.done;
  const verb = change.update ? "changed" : "deleted";
  return new Promise((resolve) => {
    const save = button("Save the list", "", () => act(save, async () => {
      const escape = await load(loadEscape());
      saveCsv("not-changed.csv", [["id", "name", "problem"],
        ...rejected.map(({ id, reason }) => [String(id), escape(names.pets.get(id)), reason])]);
    }));
    const box = dialog(rejected.length ? `${plural(rejected.length, "animal was", "animals were")} not ${verb}` : "Cancelled",
      el("p", change.effect(changed.length), left > 0 && ` ${plural(left, "animal was", "animals were")} not ${verb}, because you cancelled.`),
      rejected.length > 0 && reasonTable(rejected),
      el("div.actions", button("Close", "primary", () => box.close(), { autofocus: true }),
        rejected.length > 0 && save,
        changed.length > 0 && button("Undo", "danger", () => (resolve(true), box.close()), { "data-write": true })));
    asReport(box);
    box.addEventListener("close", () => resolve(false));
  });
}

/** @param {PastBatch} past @param {ManyBar} bar */
const undoMany = (past, bar) => inTurn(async () => {
  const total = past.changed + (past.deleted ?? 0);
  const paint = (undone = 0) => bar.progress(`Undoing ${count(undone)} of ${count(total)}`, undone, total);
  paint();
  try {
    const { undone, kept } = await undo(past.id, paint);
    const text = `${plural(undone, "animal is", "animals are")} as before.`;
    if (!kept.length) return void toast(text);
    await loadNames(kept);
    const box = dialog(`${plural(kept.length, "animal was", "animals were")} kept`, el("p", text), reasonTable(kept),
      el("div.actions", button("Close", "primary", () => box.close(), { autofocus: true })));
    asReport(box);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(isTooOld(error) ? TOO_OLD : `The undo stopped. ${message(error)} You can continue it under Import.`, "danger");
  } finally {
    bar.idle();
  }
});
