// Import from a spreadsheet: choose, check, add row by row, report.

import { actButton, retries } from "../app.js";
import { createCategory } from "../categories.js";
import { readRows, saveCsv } from "../csv.js";
import { button, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { field } from "../forms.js";
import { ImportJob, forget, interrupted, nextRow } from "../import-job.js";
import { COLUMNS, findColumns, findMore, readPet } from "../import-rows.js";
import { table } from "../list.js";
import { fold, names } from "../names.js";
import { can, key } from "../session.js";

/** @import { Columns, Mount, PetRow, Source } from "../../types" */

/** How long it can be resumed. The service keeps idempotency keys for at least 24 hours. */
const RESUME_WITHIN = 20 * 3_600_000;
/** More rows would make the page slow. */
const MAX_SHOWN = 500;

/** @type {Mount} */
export function mount(root, _, end) {
  /** @type {ImportJob | null} */
  let job = null;

  const choose = (problem = "") => {
    forget();
    const file = el("input.unseen", { type: "file", accept: ".csv,.tsv,.txt,text/csv",
      onchange: () => file.files?.[0] && open(file.files[0]) });
    const paste = el("textarea", { rows: 5, "aria-label": "Cells",
      placeholder: "…or copy the cells in your spreadsheet, and paste them here.",
      oninput: () => paste.value.trim() && check(sourceOf("pasted cells", paste.value, { pasted: true })) });
    fill(root, el("p.problem", { role: "alert" }, problem),
      el("div.drop", el("h2", "Import animals from a spreadsheet"),
        el("p.muted", "Drop a CSV file here. It has a column with names, and one with the names or numbers of categories; it may have one with the status, and others as in an export: breed, sex, birthDate, price, currency…"),
        el("label.btn.primary", "Choose a file", file), paste));
  };

  /** @returns {Source} */
  const sourceOf = (name = "", text = "", more = {}) => ({ key: key.id, time: 0, name, text, pasted: false, ...more });

  /** @param {File} file */
  const open = async (file) => {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const utf16 = { "255 254": "utf-16le", "254 255": "utf-16be" }[bytes.subarray(0, 2).join(" ")];
    try {
      check(sourceOf(file.name, new TextDecoder(utf16 ?? "utf-8", { fatal: true }).decode(bytes)));
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const note = "The file is not in UTF-8, so it was read as Windows-1252. Check names with accents.";
      check(sourceOf(file.name, new TextDecoder("windows-1252").decode(bytes), { note }));
    }
  };

  /** Shows what would be added, and what is wrong. @param {Source} source */
  const check = async (source) => {
    let rows, named;
    try {
      rows = readRows(source.text, source.pasted);
      named = findMore(rows[0]?.cells ?? []);
    } catch (error) {
      return choose(/** @type {Error} */ (error).message);
    }
    if (!rows.length) return choose("The file is empty.");
    if (can("pets:read")) await names.loadCategories().catch(() => {});
    const first = rows[0].cells;
    const found = findColumns(first);
    source.header ??= Object.values(found).some((column) => column >= 0);
    const inOrder = { name: 0, category: first.length > 1 ? 1 : -1, categoryId: -1, status: first.length > 2 ? 2 : -1 };
    const columns = (source.columns ??= source.header ? found : inOrder);
    const others = source.header ? named : {};
    /** @type {PetRow[]} */
    let pets = [];
    let filter = "rows";

    const selects = Object.entries(COLUMNS).map(([column, label]) => {
      const name = /** @type {keyof Columns} */ (column);
      const options = first.map((cell, at) =>
        el("option", { value: at, selected: columns[name] === at }, source.header && cell.trim() || `Column ${at + 1}`));
      const select = el("select", { onchange: () => {
        columns[name] = Number(select.value);
        read();
      } }, el("option", { value: -1 }, "–"), options);
      return field(label, select);
    });
    const header = el("input", { type: "checkbox", checked: source.header, onchange: () => {
      check({ ...source, header: header.checked, columns: undefined });
    } });
    const [cards, notes, actions, body, more] = [el("div.cards"), el("div"), el("div.bar"), el("tbody"), el("div.more")];

    const read = () => {
      const ids = new Map((source.categories ?? [...names.categories]).map(([id, name]) => [fold(name), id]));
      pets = rows.slice(source.header ? 1 : 0).map((row) => readPet(row, columns, others, ids, first.length));
      paint();
    };

    const paint = () => {
      const groups = { rows: pets, ready: pets.filter(({ pet }) => pet), invalid: pets.filter(({ pet }) => !pet) };
      const shown = groups[/** @type {keyof typeof groups} */ (filter)];
      fill(cards, Object.entries(groups).map(([name, { length }]) => el("button.card",
        { "aria-pressed": String(filter === name), onclick: () => ((filter = name), paint()) }, el("b", count(length)), name)));
      fill(notes, source.note && el("p.notice.warn", source.note),
        source.time > 0 && el("p.notice.warn", "This import was interrupted. Go on with it: animals that were added are not added again."),
        newCategories());
      const [ready, bad] = [groups.ready.length, groups.invalid.length];
      const label = source.time ? `Go on with ${plural(ready - nextRow(), "animal")}` : `Import ${plural(ready, "animal")}`;
      fill(actions, ready > 0 && button(label, "primary", () => add(source, pets), { "data-write": true }),
        button("Another file", "", () => choose()), bad > 0 && el("span.hint", `${plural(bad, "invalid row")} will be left out.`));
      fill(body, shown.slice(0, MAX_SHOWN).map(rowOf));
      fill(more, shown.length > MAX_SHOWN && `The first ${MAX_SHOWN} are shown.`);
    };

    const newCategories = () => {
      const unknown = pets.filter(({ pet, problems }) => !pet && problems[1].startsWith("No category"));
      const all = [...new Map(unknown.map(({ shown }) => [fold(shown[1].trim()), shown[1].trim()])).values()];
      if (!all.length || source.time || !can("pets:read")) return null;
      return el("div.notice.warn",
        el("span", `${plural(all.length, "category is", "categories are")} not known: ${all.slice(0, 9).join(", ")}${all.length > 9 ? "…" : ""}`),
        actButton(all.length === 1 ? "Add it" : "Add them", "small", async () => {
          try {
            for (const name of all) await createCategory(name);
          } finally {
            read();
          }
        }));
    };

    fill(root, el("h2", source.name),
      !source.time && el("div.fields", selects, el("label.check", header, "The first row names the columns")),
      Object.keys(others).length > 0 && el("p.hint.also", `Also read: ${Object.keys(others).join(", ")}.`),
      cards, notes, actions, tableOf(body), more);
    read();
  };

  /** @param {HTMLElement} body */
  const tableOf = (body) => table(["Line", "Name", "Category", "Status"], body, "rows");

  /** @param {PetRow} row */
  const rowOf = ({ line, shown: [name, category, status], problems }) => {
    const texts = [name, problems[1] ? category : names.category(category), status];
    return el("tr", el("td.number", String(line)), texts.map((text, at) =>
      el("td", { class: problems[at] && "bad" }, text, problems[at] && el("small", problems[at]))));
  };

  /** @param {Source} source @param {PetRow[]} rows */
  const add = (source, rows) => {
    const current = (job = new ImportJob(source, rows));
    const total = current.ready.length;
    const progress = el("progress", { max: total, "aria-label": "Progress" });
    const text = el("p");
    const notice = el("p", { role: "status" });
    const actions = el("div.bar");
    fill(root, el("div.drop", el("h2", `Importing ${source.name}`), progress, text, notice, actions));

    const paint = () => {
      progress.value = current.done;
      text.textContent = `${count(current.done)} of ${count(total)}`;
    };
    const offer = (/** @type {HTMLElement[]} */ ...buttons) => {
      fill(actions, buttons);
      buttons[0].focus();
    };
    const run = async () => {
      retries.delete(run);
      if (current.running || !root.isConnected) return;
      if (Date.now() - source.time > RESUME_WITHIN) return report(source, current);
      notice.textContent = "";
      offer(button("Pause", "", () => current.pause()));
      const problem = await current.run(paint);
      if (!current.queue.length) return report(source, current);
      paint();
      notice.textContent = problem ?? "Paused.";
      if (problem) retries.add(run);
      offer(button("Go on", "primary", run, { "data-write": true }), button("End", "", () => report(source, current)));
    };
    run();
  };

  /** @param {Source} source @param {ImportJob} job */
  const report = (source, { added, repeated, isResumed, rejected, queue }) => {
    forget();
    // After a reload, it is one import all the same.
    if (isResumed) [added, repeated] = [added + repeated, 0];
    rejected.sort((a, b) => a.line - b.line);
    const save = () => {
      const [header] = readRows(source.text, source.pasted);
      saveCsv("rejected.csv", [
        ...(source.header ? [[...header.cells, "problem"]] : []),
        ...rejected.map(({ cells, problems }) => [...cells, problems.filter(Boolean).join(" ")]),
      ]);
    };
    const title = el("h2", { tabindex: -1 }, `${plural(added, "animal was", "animals were")} added`);
    const [left, bad] = [queue.length, rejected.length];
    fill(root, el("div.drop", { role: "status" }, title,
      repeated > 0 && el("p", `${plural(repeated, "row")} of this file had been added before; ${repeated === 1 ? "it was" : "they were"} not added again.`),
      left > 0 && el("p", `${plural(left, "row was", "rows were")} not added.`),
      bad > 0 && el("p", `${plural(bad, "row was", "rows were")} rejected. Save them, correct them, and import them again.`),
      el("div.bar", bad > 0 && button("Save the rejected rows", "", save), el("a.btn", { href: "#/animals" }, "Show animals"),
        button("Import another file", "", () => choose()))),
      bad > 0 && tableOf(el("tbody", rejected.slice(0, MAX_SHOWN).map(rowOf))));
    title.focus();
  };

  const drag = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (event.type === "drop" && file && !job?.running) open(file);
  };
  document.addEventListener("dragover", drag, { signal: end });
  document.addEventListener("drop", drag, { signal: end });
  // Without a key, as another tab has signed out, there is nothing to wait for.
  addEventListener("beforeunload", (event) => job?.running && key.id && event.preventDefault(), { signal: end });
  end.addEventListener("abort", () => job?.pause());

  const saved = interrupted();
  const isOurs = saved?.key === key.id;
  if (!saved) choose();
  else if (isOurs && Date.now() - saved.time < RESUME_WITHIN) check(saved);
  else {
    choose(`The import of ${saved.name} was interrupted after ${plural(nextRow(), "row")}, and cannot be resumed ` +
      `${isOurs ? "after 20 hours" : "with another API key"}. Check which animals were added, and import the other rows as a new file.`);
  }

  return {};
}
