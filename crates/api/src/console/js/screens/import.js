// Import from a spreadsheet: choose a file, say what its columns are, check, import, and undo.

import { load, toast } from "../app.js";
import { newBatchId } from "../batches.js";
import { button, el, fill } from "../dom.js";
import { ago, count, plural } from "../format.js";
import { showCheck, outcomeText } from "../import/check-step.js";
import { mapped, showColumns } from "../import/columns-step.js";
import { openFile } from "../import/file.js";
import { firstTable } from "../import/header.js";
import { ImportJob, RESUME_WITHIN } from "../import/job.js";
import { forgetImport, keptChunks, keptImports } from "../import/kept.js";
import { ANOTHER, currentImport, showRun, startImport } from "../import/run-step.js";
import { readRows } from "../import/text.js";
import { loadWords } from "../import/words.js";
import { FileError } from "../import/zip.js";
import { table } from "../list.js";
import { key } from "../session.js";
import { shopSettings } from "../settings.js";
import { loadStyles } from "../styles.js";
import { pastBatches, remember } from "../undo/past-batches.js";
import { confirmUndo, showUndo, titleOf } from "../undo/undo-step.js";

/** @import { ImportSource, KeptImport, Mount, PastBatch, Sheet, Table } from "../../types" */

const STEPS = ["File", "Columns", "Check", "Import"];
const INTRODUCTION = "Drop an Excel workbook (.xlsx) or a CSV file here. The names of its columns are recognised in several " +
  "languages, and nothing is changed before you have seen what would be.";

await loadStyles("import.css");

/** @type {Mount} */
export function mount(outer, _, end) {
  const steps = el("ol.import-steps");
  const root = el("div");
  // The currency of prices without one.
  shopSettings().catch(() => {});
  fill(outer, steps, root);

  const show = (step = 0) => {
    fill(steps, STEPS.map((name, at) => el("li", { "aria-current": at === step && "step", class: at < step ? "done" : "" }, name)));
    scrollTo(0, 0);
  };

  const choose = (problem = "") => {
    show(0);
    const file = el("input.unseen", { type: "file", accept: ".xlsx,.csv,.tsv,.txt,text/csv",
      onchange: () => file.files?.[0] && openChosen(file.files[0]) });
    const read = button("Continue with these cells", "", () => openPasted(paste.value), { hidden: true });
    const paste = el("textarea", { rows: 4, "aria-label": "Cells",
      placeholder: "…or copy the cells in your spreadsheet, and paste them here.",
      oninput(/** @type {Event} */ event) {
        const isTyped = !/^insertFrom/.test(/** @type {InputEvent} */ (event).inputType ?? "");
        read.hidden = !paste.value.trim();
        if (!isTyped && !read.hidden) openPasted(paste.value);
      } });
    const past = el("section");
    fill(root, el("p.problem", { role: "alert" }, problem),
      el("div.drop", el("h2", "Import animals from a spreadsheet"),
        el("p.muted", INTRODUCTION),
        el("label.btn.primary", "Choose a file", file), paste, read), past);
    showPast(past);
  };

  /** The imports that were interrupted, and those that can be undone. @param {HTMLElement} section */
  const showPast = async (section) => {
    const interrupted = async () => (await keptImports().catch(() => [])).filter(({ id }) => id !== currentImport()?.job.kept.id);
    const notices = await Promise.all((await interrupted()).map(interruptedNotice));
    // Those that cannot be resumed were forgotten.
    const resumable = await interrupted();
    const all = pastBatches().filter(({ id }) => !resumable.some((other) => other.id === id));
    fill(section, notices, all.length > 0 && [
      el("h2.section", "Recent imports and changes on this device"),
      table(["Import or change", "When", "Outcome", ""], el("tbody", all.map(pastRow))),
    ], el("p.hint", "Imports of other people and of the command line can be undone under ", el("a", { href: "#/activity?types=pets" }, "Activity"), "."));
  };

  /** @param {PastBatch} past */
  const pastRow = (past) => {
    const label = { "data-write": true, "aria-label": `Undo ${titleOf(past)}…` };
    const start = async () => {
      if (await confirmUndo(past) && !end.aborted) showUndo(root, past, end, { label: ANOTHER, go: () => choose() });
    };
    const undo = past.added + past.changed + (past.deleted ?? 0) > 0 && button("Undo…", "small", start, label);
    return el("tr", el("td", el("b", past.name)), el("td.when", { title: new Date(past.time).toLocaleString() }, ago(past.time)),
      el("td", outcomeText(past.added, past.changed, past.deleted)), el("td.steps", past.undone ? el("span.muted", "undone") : undo));
  };

  /** @param {KeptImport} kept */
  const interruptedNotice = async (kept) => {
    const { id, name, time } = kept;
    const chunks = await keptChunks(id);
    const job = new ImportJob(kept, chunks);
    const done = `${plural(job.done, "row")} of ${count(job.total)}`;
    if (await ImportJob.isRunning(id)) return el("p.notice", `${name} is being imported in another tab.`);
    const obstacle = kept.key !== key.id ? "with another API key" : Date.now() - time > RESUME_WITHIN ? "after 20 hours"
      : job.isKept ? "" : "because this browser has not kept all of it";
    if (obstacle) {
      await forgetImport(id);
      return el("p.notice.warn", `The import of ${name} was interrupted after ${done}, and cannot be resumed ${obstacle}. Undo it, or check which animals were added.`);
    }
    const resume = () => {
      startImport(job);
      run();
    };
    const discard = async () => {
      remember(job.past);
      await job.end();
      choose();
    };
    const text = `The import of ${name} was interrupted after ${done}. Animals that were added are not added again.`;
    return el("div.notice.warn", el("span", text), el("span.bar", button("Resume", "small primary", resume, { "data-write": true }), button("Discard", "small", discard)));
  };

  /** Reads, and says what is wrong with a file. @param {() => Promise<void>} read */
  const attempt = async (read) => {
    try {
      await read();
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      if (!end.aborted) choose(error.message);
    }
  };

  /** @param {File} file */
  const openChosen = (file) => attempt(async () => {
    fill(root, el("div.drop", el("h2", `Reading ${file.name}`), el("progress", { "aria-label": "Progress" })));
    const words = await load(loadWords());
    if (file.size > 64 << 20) throw new FileError("The file has more than 64 MiB. Split it into several files.");
    const bytes = new Uint8Array(await file.arrayBuffer());
    const { sheets, encoding } = await openFile(bytes);
    const found = await firstTable(sheets, words);
    if (!found) throw new FileError("The file is empty.");
    if (!end.aborted) columns(mapped({ name: file.name, bytes, encoding, sheets, ...found }, words));
  });

  const openPasted = (text = "") => attempt(async () => {
    const words = await load(loadWords());
    /** @type {Table} */
    const table = { rows: await readRows(text, true), merged: [] };
    const sheet = { name: "", isHidden: false, rows: async () => table };
    const bytes = new TextEncoder().encode(text);
    if (!end.aborted) columns(mapped({ name: "Pasted cells", bytes, encoding: "", sheets: [sheet], sheet, table }, words));
  });

  /** @param {ImportSource} source */
  const columns = (source) => {
    show(1);
    showColumns(root, source, {
      check: () => check(source),
      another: () => choose(),
      change: columns,
      choose: (name) => attempt(async () => {
        const sheet = /** @type {Sheet} */ (source.sheets.find((sheet) => sheet.name === name));
        const table = await sheet.rows();
        if (!table.rows.length) return toast(`The sheet “${name}” is empty.`, "danger"), columns(source);
        columns(mapped({ ...source, sheet, table }, source.mapping.words));
      }),
    });
  };

  /** @param {ImportSource} source */
  const check = (source) => {
    show(2);
    showCheck(root, source, end, {
      async start(rows, invalid, hash) {
        const { name, header } = source;
        startImport(await ImportJob.start({ id: newBatchId(), key: key.id, name, hash, headings: header.headings, invalid }, rows));
        if (!end.aborted) run();
      },
      back: () => columns(source),
    });
  };

  const run = () => {
    show(3);
    showRun(root, end, () => choose());
  };

  const drag = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (event.type === "drop" && file && !currentImport()) openChosen(file);
  };
  document.addEventListener("dragover", drag, { signal: end });
  document.addEventListener("drop", drag, { signal: end });

  if (currentImport()) run();
  else choose();
  return {};
}
