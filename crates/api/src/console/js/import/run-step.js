// The last step of an import: it runs, also while another screen is shown, and reports.

import { retries, toast } from "../app.js";
import { button, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { table } from "../list.js";
import { key } from "../session.js";
import { confirmUndo, showUndo } from "../undo/undo-step.js";
import { outcomeText, saveRejected } from "./check-step.js";
import { RESUME_WITHIN } from "./job.js";

/** @import { RejectedRow } from "../../types" */
/** @import { ImportJob } from "./job.js" */

const MAX_SHOWN = 200;
const CANCELLING = "Cancelling…";
export const ANOTHER = "Import another file";
const STOPPED = "The import was stopped, because it was undone or the file was imported again";
const HINT = "You can use other screens while it runs. Keep this tab open; if it is closed, the import can be resumed here.";
const UNKEPT = "You can use other screens while it runs. Keep this tab open: this browser has no space to keep the import, so it cannot be resumed.";

/** @type {{ job: ImportJob, problem: string, isOver: boolean } | null} the import of this tab, until its report was seen */
let current = null;
/** Shows the current import, while its screen is open. */
let paint = () => {};

export const currentImport = () => current;

// Without a key, as another tab has signed out, there is nothing to wait for.
addEventListener("beforeunload", (event) => current && current.job.state !== "paused" && key.id && event.preventDefault());

/** "2 min 5 s". */
function duration(seconds = 0) {
  const whole = Math.ceil(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** "12,000 of 50,000 · 2,300 per second · about 17 s left". @param {ImportJob} job */
function progressText({ done, total, state, pace: { rate, left } }) {
  const rows = `${count(done)} of ${count(total)}`;
  return state === "running" && rate ? `${rows} · ${count(Math.round(rate))} per second · about ${duration(left)} left` : rows;
}

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
  if (job.isDone || job.isStopped) return finish();
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

/**
 * Shows the current import until it is over, and its report then.
 * @param {HTMLElement} root
 * @param {AbortSignal} end
 * @param {() => void} another
 */
export function showRun(root, end, another) {
  if (!current) return another();
  const { job } = current;
  const progress = el("progress", { max: job.total, "aria-label": "Progress" });
  const text = el("p.digits");
  const notice = el("p", { role: "status" });
  const actions = el("div.bar");
  const hint = el("p.hint");
  fill(root, el("div.drop", el("h2", { tabindex: -1 }, `Importing ${job.kept.name}`), progress, text, notice, actions,
    hint));
  let state = "";
  paint = () => {
    if (!current) return;
    if (current.isOver) return showReport(root, end, another);
    progress.value = job.done;
    text.textContent = progressText(job);
    notice.textContent = current.problem;
    hint.textContent = job.isKept ? HINT : UNKEPT;
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
  const { added, changed, kept, past } = job;
  const rejected = [...kept.invalid, ...job.rejected].sort((a, b) => a.line - b.line);
  const left = job.total - job.done;
  const title = el("h2", { tabindex: -1 }, outcomeText(added, changed));
  const forget = () => (current = null);
  const close = () => {
    forget();
    another();
  };
  const undo = async () => {
    if (await confirmUndo(past) && !end.aborted) showUndo(root, past, end, { label: ANOTHER, go: close });
  };
  const leftOut = `${plural(rejected.length, "row was", "rows were")} left out. Save them, correct them, and import them again.`;
  fill(root, el("div.drop", { role: "status" }, title,
    left > 0 && el("p", `${job.isStopped ? STOPPED : "The import was cancelled"}: ${plural(left, "row was", "rows were")} not imported.`),
    rejected.length > 0 && el("p", leftOut),
    el("div.bar", el("a.btn.primary", { href: "#/animals", onclick: forget }, "Show animals"),
      rejected.length > 0 && button("Save the rows that were left out", "", () => saveRejected(kept.headings, rejected)),
      button(ANOTHER, "", close),
      added + changed > 0 && button("Undo…", "danger", undo, { "data-write": true }))),
    rejected.length > 0 && rejectedTable(rejected));
  title.focus();
}

/** The first cells of a row. @param {string[]} cells */
const startOf = (cells) => cells.filter((cell) => cell.trim()).slice(0, 4).join(" · ").slice(0, 200);

/** @param {RejectedRow[]} rows */
const rejectedTable = (rows) => [
  table(["Line", "Row", "Problem"], el("tbody", rows.slice(0, MAX_SHOWN).map(({ line, cells, reason }) =>
    el("tr.invalid", el("td.number", String(line)), el("td", startOf(cells)), el("td", reason.split("\n").map((text) => el("small", text)))))),
    "import-rows rejected"),
  rows.length > MAX_SHOWN && el("div.more", `The first ${MAX_SHOWN} of ${count(rows.length)} are shown.`),
];
