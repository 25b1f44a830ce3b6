// The last step of an import: it runs, also while another screen is shown, and reports.

import { message, retries, showFailure, toast } from "../app.js";
import { ApiError } from "../api.js";
import { button, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { confirm } from "../forms.js";
import { table } from "../list.js";
import { names } from "../names.js";
import { key } from "../session.js";
import { outcomeText, saveRejected } from "./check-step.js";
import { isTooOld, undo } from "./history.js";
import { ImportJob, RESUME_WITHIN } from "./job.js";

/** @import { PastImport, RejectedRow } from "../../types" */

const MAX_SHOWN = 200;
const CANCELLING = "Cancelling…";

/** The import that runs in this tab, or whose report was not seen yet. @type {{ job: ImportJob, problem: string, isOver: boolean } | null} */
let current = null;
/** Shows the current import, while its screen is open. */
let paint = () => {};

export const currentImport = () => current;

// Without a key, as another tab has signed out, there is nothing to wait for.
addEventListener("beforeunload", (event) => current && current.job.state !== "paused" && key.id && event.preventDefault());

/** "2 min 5 s". */
const duration = (seconds = 0) => seconds < 60 ? `${Math.ceil(seconds)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;

/** Runs an import from where it is. */
async function run() {
  retries.delete(run);
  if (!current || current.isOver || current.job.state !== "paused") return;
  const { job } = current;
  if (Date.now() - job.kept.time > RESUME_WITHIN) return finish();
  current.problem = "";
  const running = job.run(() => paint());
  paint();
  const problem = await running;
  if (job.isDone) return finish();
  if (current.problem === CANCELLING) return;
  current.problem = problem ?? "Paused.";
  if (problem) retries.add(run);
  paint();
}

async function finish() {
  if (!current || current.isOver) return;
  const { job } = current;
  current.problem = job.isDone ? "" : CANCELLING;
  const ended = job.end();
  paint();
  await ended;
  current.isOver = true;
  if (!location.hash.startsWith("#/import")) toast(`The import of ${job.kept.name} has ended: ${outcomeText(job.added, job.changed)}.`);
  paint();
}

/** Starts an import, or resumes it. @param {ImportJob} job */
export function startImport(job) {
  current = { job, problem: "", isOver: false };
  run();
}

/** Shows the current import until it is over, and its report then. @param {HTMLElement} root @param {AbortSignal} end @param {() => void} another */
export function showRun(root, end, another) {
  if (!current) return another();
  const { job } = current;
  const progress = el("progress", { max: job.total, "aria-label": "Progress" });
  const [text, notice, actions] = [el("p.digits"), el("p", { role: "status" }), el("div.bar")];
  fill(root, el("div.drop", el("h2", { tabindex: -1 }, `Importing ${job.kept.name}`), progress, text, notice, actions,
    el("p.hint", "You can use other screens while it runs. Keep this tab open; if it is closed, the import can be resumed here.")));
  let state = "";
  paint = () => {
    if (!current) return;
    if (current.isOver) return showReport(root, end, another);
    const { rate, left } = job.pace;
    progress.value = job.done;
    text.textContent = `${count(job.done)} of ${count(job.total)}${job.state === "running" && rate ? ` · ${count(Math.round(rate))} per second · about ${duration(left)} left` : ""}`;
    notice.textContent = current.problem;
    if (job.state === state) return;
    state = job.state;
    const pause = () => {
      job.pause();
      paint();
    };
    const first = state === "paused" ? button("Resume", "primary", run, { "data-write": true })
      : button("Pause", "", pause, { "aria-busy": state === "pausing" });
    fill(actions, first, button("Cancel", "", finish));
    first.focus();
  };
  end.addEventListener("abort", () => (paint = () => {}));
  paint();
}

/** @param {HTMLElement} root @param {AbortSignal} end @param {() => void} another */
function showReport(root, end, another) {
  if (!current) return;
  const { job } = current;
  const { added, changed, kept } = job;
  const rejected = [...kept.invalid, ...job.rejected].sort((a, b) => a.line - b.line);
  const left = job.total - job.done;
  const title = el("h2", { tabindex: -1 }, outcomeText(added, changed));
  const past = { id: kept.id, name: kept.name, hash: kept.hash, time: kept.time, added, changed };
  const close = () => {
    current = null;
    another();
  };
  fill(root, el("div.drop", { role: "status" }, title,
    left > 0 && el("p", `The import was cancelled: ${plural(left, "row was", "rows were")} not imported.`),
    rejected.length > 0 && el("p", `${plural(rejected.length, "row was", "rows were")} left out. Save them, correct them, and import them again.`),
    el("div.bar", el("a.btn.primary", { href: "#/animals", onclick: () => (current = null) }, "Show animals"),
      rejected.length > 0 && button("Save the rows that were left out", "", () => saveRejected(kept.headings, rejected)),
      button("Import another file", "", close),
      added + changed > 0 && button("Undo…", "danger", () => undoImport(root, past, end, close), { "data-write": true }))),
    rejected.length > 0 && rejectedTable(rejected));
  title.focus();
}

/** @param {RejectedRow[]} rows */
const rejectedTable = (rows) => [
  table(["Line", "Row", "Problem"], el("tbody", rows.slice(0, MAX_SHOWN).map(({ line, cells, reason }) =>
    el("tr.invalid", el("td.number", String(line)), el("td", cells.filter((cell) => cell.trim()).slice(0, 4).join(" · ").slice(0, 200)),
      el("td", reason.split("\n").map((text) => el("small", text)))))), "import-rows rejected"),
  rows.length > MAX_SHOWN && el("div.more", `The first ${MAX_SHOWN} of ${count(rows.length)} are shown.`),
];

/** Asks, undoes an import, and reports what was kept. @param {HTMLElement} root @param {PastImport} past @param {AbortSignal} end @param {() => void} another */
export async function undoImport(root, past, end, another) {
  const does = [past.added && `deletes ${plural(past.added, "animal")} that it added`, past.changed && `changes ${plural(past.changed, "animal")} back`].filter(Boolean).join(" and ");
  const isSure = await confirm(`Undo the import of ${past.name}?`,
    `This ${does || "takes back what it changed"}. Animals that were changed, reserved or sold since stay as they are.`, "Undo the import");
  if (!isSure || end.aborted) return;
  current = null;
  const total = past.added + past.changed;
  const progress = el("progress", { max: total, value: 0, "aria-label": "Progress" });
  const text = el("p", { role: "status" }, "Undoing…");
  fill(root, el("div.drop", el("h2", `Undoing the import of ${past.name}`), progress, text));
  try {
    const { undone, kept } = await undo(past, (undone) => {
      progress.value = undone;
      text.textContent = `${count(undone)} of ${count(total)}`;
    });
    await names.load([], kept.slice(0, MAX_SHOWN).map(({ id }) => id));
    if (end.aborted) return;
    const title = el("h2", { tabindex: -1 }, "The import was undone");
    fill(root, el("div.drop", { role: "status" }, title, el("p", `${plural(undone, "animal is", "animals are")} as before.`),
      kept.length > 0 && el("p", `${plural(kept.length, "animal was", "animals were")} kept.`),
      el("div.bar", el("a.btn.primary", { href: "#/animals" }, "Show animals"), button("Import another file", "", another))),
      kept.length > 0 && table(["Animal", "Reason"], el("tbody", kept.slice(0, MAX_SHOWN).map(({ id, message }) =>
        el("tr", el("td", el("a", { href: `#/animals/${id}` }, names.pets.get(id) || `Animal ${id}`)), el("td", message)))), "import-rows kept"));
    title.focus();
  } catch (error) {
    if (end.aborted) return;
    if (isTooOld(error)) return fill(root, el("div.empty", { role: "alert" },
      el("p", "This import can no longer be undone: the store does not keep its events any more."), button("Back", "", another)));
    if (!(error instanceof ApiError)) throw error;
    showFailure(root, new ApiError(error.status, error.code, `The undo stopped: ${message(error)}`), () => undoImport(root, past, end, another));
  }
}
