// Import from a spreadsheet: choose, check, add row by row, report.

import { ApiError } from "../api.js";
import { message } from "../app.js";
import { readRows, saveCsv } from "../csv.js";
import { button, el, field, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { FIELDS, findColumns, fold, keysOf, readPet } from "../pet-rows.js";

/** @import { Row } from "../csv.js" */
/** @import { Columns, PetRow } from "../pet-rows.js" */
/** @typedef {{ key: number, time: number, name: string, text: string, pasted: boolean, note?: string, header?: boolean, columns?: Columns, categories?: [string, string][] }} Source
 *   `time` is when the import began, if it did; then nothing else changes any more. */

/** Where a started import and its progress are kept, so that it survives a reload. */
const STORAGE = "petstore-import";
const PROGRESS = "petstore-import-progress";
/** How long it can be resumed. The service keeps idempotency keys for at least 24 hours. */
const RESUME_WITHIN = 20 * 3_600_000;
/** A browser opens six connections, and one of them is the event stream. */
const PARALLEL = 5;

/** @type {import("../app.js").Mount} */
export function imports(root, app) {
  const { api, names, key } = app;
  let running = false;

  const forget = () => [STORAGE, PROGRESS].forEach((name) => sessionStorage.removeItem(name));
  /** @returns {{ next: number, failed: [number, string][] }} the first row that may not be done, and what the service has rejected */
  const progressOf = () => JSON.parse(sessionStorage.getItem(PROGRESS) ?? "null") ?? { next: 0, failed: [] };

  const choose = (problem = "") => {
    forget();
    const file = el("input", { type: "file", class: "unseen", accept: ".csv,.tsv,.txt,text/csv", onchange: () => file.files?.[0] && open(file.files[0]) });
    const paste = el("textarea", { rows: 5, "aria-label": "Cells", placeholder: "…or copy the cells in your spreadsheet, and paste them here.", oninput: () => paste.value.trim() && check({ key: key.id, time: 0, name: "pasted cells", text: paste.value, pasted: true }) });
    fill(root, el("p", { class: "problem", role: "alert" }, problem),
      el("div", { class: "drop" }, el("h2", null, "Import animals from a spreadsheet"),
        el("p", { class: "muted" }, "Drop a CSV file here. It has a column with names, and one with the names or numbers of categories; it may have one with the status."),
        el("label", { class: "btn primary" }, "Choose a file", file), paste));
  };

  /** @param {File} file */
  const open = async (file) => {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const utf16 = { "255 254": "utf-16le", "254 255": "utf-16be" }[bytes.subarray(0, 2).join(" ")];
    const source = { key: key.id, time: 0, name: file.name, pasted: false };
    try {
      check({ ...source, text: new TextDecoder(utf16 ?? "utf-8", { fatal: true }).decode(bytes) });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      check({ ...source, text: new TextDecoder("windows-1252").decode(bytes), note: "The file is not in UTF-8, so it was read as Windows-1252. Check names with accents." });
    }
  };

  /** Shows what would be added, and what is wrong. @param {Source} source */
  const check = async (source) => {
    /** @type {Row[]} */
    let rows;
    try {
      rows = readRows(source.text, source.pasted);
    } catch (error) {
      return choose(/** @type {Error} */ (error).message);
    }
    if (!rows.length) return choose("The file is empty.");
    if (app.can("pets:read")) await names.loadCategories().catch(() => {});
    const first = findColumns(rows[0].cells);
    source.header ??= Object.values(first).some((column) => column >= 0);
    const width = rows[0].cells.length;
    const columns = (source.columns ??= source.header ? first : { name: 0, category: width > 1 ? 1 : -1, categoryId: -1, status: width > 2 ? 2 : -1 });
    /** @type {PetRow[]} */
    let pets = [];
    let filter = "";

    const selects = /** @type {(keyof Columns)[]} */ (Object.keys(FIELDS)).map((name) => {
      const options = rows[0].cells.map((cell, at) => el("option", { value: at, selected: columns[name] === at }, source.header && cell.trim() || `Column ${at + 1}`));
      return field(FIELDS[name], el("select", { onchange: (/** @type {Event} */ { target }) => {
        columns[name] = Number(/** @type {HTMLSelectElement} */ (target).value);
        read();
      } }, el("option", { value: -1 }, "–"), ...options));
    });
    const header = el("input", { type: "checkbox", checked: source.header, onchange: () => {
      source.header = header.checked;
      delete source.columns;
      check(source);
    } });
    const cards = el("div", { class: "cards" });
    const body = el("tbody");
    const notes = el("div");
    const more = el("div", { class: "more" });
    const actions = el("div", { class: "bar" });

    const read = () => {
      const ids = new Map((source.categories ?? [...names.categories]).map(([id, name]) => [fold(name), id]));
      pets = rows.slice(source.header ? 1 : 0).map((row) => readPet(row, columns, ids, width));
      paint();
    };

    const paint = () => {
      const ready = pets.filter(({ pet }) => pet);
      const bad = pets.length - ready.length;
      const unnamed = new Map(pets.filter(({ pet, problems }) => !pet && problems[1].startsWith("No category")).map(({ shown }) => [fold(shown[1].trim()), shown[1].trim()]));
      fill(cards, ...[["", "rows", pets.length], ["ready", "ready", ready.length], ["bad", "invalid", bad]].map(([value, label, number]) =>
        button("", { class: "card", "aria-pressed": String(filter === value), onclick: () => ((filter = String(value)), paint()) }, el("b", null, count(Number(number))), String(label))));
      fill(notes, source.note && el("p", { class: "notice warn" }, source.note),
        source.time > 0 && el("p", { class: "notice warn" }, "This import was interrupted. Go on with it: animals that were added are not added again."),
        unnamed.size > 0 && !source.time && app.can("pets:read") && el("div", { class: "notice warn" }, el("span", null, `${plural(unnamed.size, "category is", "categories are")} not known: ${[...unnamed.values()].slice(0, 9).join(", ")}${unnamed.size > 9 ? "…" : ""}`),
          app.button(unnamed.size === 1 ? "Add it" : "Add them", "small", () => nameAll([...unnamed.values()]))));
      fill(actions,
        ready.length > 0 && button(source.time ? `Go on with ${plural(ready.length - progressOf().next, "animal")}` : `Import ${plural(ready.length, "animal")}`, { class: "btn primary", "data-write": true, onclick: () => add(source, pets) }),
        button("Another file", { class: "btn", onclick: () => choose() }),
        bad > 0 && el("span", { class: "hint" }, `${plural(bad, "invalid row")} will be left out.`));
      fill(body);
      showMore();
    };

    /** Names new categories. @param {string[]} all */
    const nameAll = async (all) => {
      try {
        await names.loadCategories();
        for (const name of all) {
          while (![...names.categories.values()].some((other) => fold(other) === fold(name))) {
            const free = [...names.categories.keys()].map(BigInt).reduce((a, b) => (a > b ? a : b), 0n) + 1n;
            await api.send("PUT", `categories/${free}`, { name }, { "If-None-Match": "*" }).then(() => names.categories.set(String(free), name), (error) => {
              // Somebody else has named this one.
              if (error.status !== 412) throw error;
              return names.loadCategories();
            });
          }
        }
      } finally {
        read();
      }
    };

    // A few at a time: a table of thousands would be slow.
    const showMore = () => {
      const some = pets.filter(({ pet }) => !filter || !!pet === (filter === "ready"));
      const at = body.childElementCount;
      body.append(...some.slice(at, at + 100).map(rowOf));
      fill(more, at + 100 < some.length ? "Scroll for more" : "");
      watcher.unobserve(more);
      watcher.observe(more);
    };
    const watcher = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && more.textContent && showMore(), { rootMargin: "800px" });

    fill(root, el("h2", null, source.name), !source.time && el("div", { class: "fields" }, ...selects, el("label", { class: "check" }, header, "The first row names the columns")),
      cards, notes, actions, el("div", { class: "sheet" }, tableOf(body)), more);
    read();
  };

  /** @param {HTMLElement} body */
  const tableOf = (body) => el("table", { class: "rows" }, el("thead", null, el("tr", null, ...["Line", "Name", "Category", "Status"].map((head) => el("th", null, head)))), body);

  /** @param {PetRow} row */
  const rowOf = ({ line, shown: [name, category, status], problems, pet }) => el("tr", null, el("td", { class: "number" }, String(line)),
    ...[name, problems[1] ? category : names.category(category), status].map((text, at) =>
      el("td", { class: problems[at] && "bad" }, text, problems[at] && el("small", null, problems[at]))));

  /** Adds the animals. @param {Source} source @param {PetRow[]} pets */
  const add = (source, pets) => {
    const keyOf = keysOf(source.text);
    const ready = pets.filter(({ pet }) => pet);
    const rejected = pets.filter(({ pet }) => !pet);
    const total = ready.length;
    const resumed = source.time > 0;
    if (!resumed) forget();
    const { next, failed } = progressOf();
    /** By their position in `ready`: what is to be sent, and what is sent. */
    const queue = [...ready.keys()].slice(next).filter((at) => !failed.some(([other]) => other === at));
    const sent = new Set();
    let [added, repeated] = [next - failed.filter(([at]) => at < next).length, 0];
    /** @param {[number, string]} failure */
    const reject = ([at, problem]) => rejected.push({ ...ready[at], problems: [problem, "", ""] });
    failed.forEach(reject);
    source.time ||= Date.now();
    source.categories ??= [...names.categories];
    /** @param {string} name @param {object} value */
    const keep = (name, value) => {
      try {
        sessionStorage.setItem(name, JSON.stringify(value));
      } catch {
        // Too large: after a reload, the same file can be chosen again.
      }
    };
    keep(STORAGE, source);

    const progress = el("progress", { max: total, "aria-label": "Progress" });
    const text = el("p");
    const trouble = el("p", { role: "status" });
    const actions = el("div", { class: "bar" });
    fill(root, el("div", { class: "drop" }, el("h2", null, `Importing ${source.name}`), progress, text, trouble, actions));

    const paint = (problem = "") => {
      const done = added + repeated + rejected.length - (pets.length - total);
      progress.value = done;
      text.textContent = `${count(done)} of ${count(total)}`;
      if (trouble.textContent !== problem) trouble.textContent = problem;
    };

    const work = async () => {
      for (let at; running && (at = queue.shift()) !== undefined; paint()) {
        sent.add(at);
        try {
          const { replayed } = await api.send("POST", "pets", ready[at].pet ?? {}, { "Idempotency-Key": keyOf(ready[at]) });
          replayed ? repeated++ : added++;
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          if (![400, 409, 413, 422].includes(error.status)) {
            running = false;
            queue.push(at);
            queue.sort((a, b) => a - b);
            if (!error.status) app.retries.add(run);
            return message(error);
          }
          failed.push([at, message(error)]);
          reject([at, message(error)]);
        } finally {
          sent.delete(at);
        }
        keep(PROGRESS, { next: Math.min(...sent, queue[0] ?? total), failed });
      }
    };

    // After a reload, it is one import all the same.
    const finish = () => report(source, resumed ? added + repeated : added, resumed ? 0 : repeated, rejected, queue.length);

    const run = async () => {
      app.retries.delete(run);
      if (running || !root.isConnected) return;
      if (Date.now() - source.time > RESUME_WITHIN) return finish();
      running = true;
      const stop = button("Pause", { class: "btn", onclick: () => (running = false) });
      fill(actions, stop);
      stop.focus();
      const problems = await Promise.all(Array.from({ length: PARALLEL }, work));
      running = false;
      if (!queue.length) return finish();
      paint(problems.find(Boolean) ?? "Paused.");
      const go = button("Go on", { class: "btn primary", "data-write": true, onclick: run });
      fill(actions, go, button("End", { class: "btn", onclick: finish }));
      go.focus();
    };
    run();
  };

  /** @param {Source} source @param {number} added @param {number} repeated @param {PetRow[]} rejected @param {number} left */
  const report = (source, added, repeated, rejected, left) => {
    forget();
    rejected.sort((a, b) => a.line - b.line);
    const body = el("tbody", null, ...rejected.slice(0, 500).map(rowOf));
    const save = () => {
      const [header] = readRows(source.text, source.pasted);
      saveCsv("rejected.csv", [...(source.header ? [[...header.cells, "problem"]] : []), ...rejected.map(({ cells, problems }) => [...cells, problems.filter(Boolean).join(" ")])]);
    };
    const title = el("h2", { tabindex: -1 }, `${plural(added, "animal was", "animals were")} added`);
    fill(root, el("div", { class: "drop", role: "status" }, title,
      repeated > 0 && el("p", null, `${plural(repeated, "row")} of this file had been added before; ${repeated === 1 ? "it was" : "they were"} not added again.`),
      left > 0 && el("p", null, `${plural(left, "row was", "rows were")} not added.`),
      rejected.length > 0 && el("p", null, `${plural(rejected.length, "row was", "rows were")} rejected. Save them, correct them, and import them again.`),
      el("div", { class: "bar" }, rejected.length > 0 && button("Save the rejected rows", { class: "btn", onclick: save }),
        el("a", { class: "btn", href: "#/animals" }, "Show animals"), button("Import another file", { class: "btn", onclick: () => choose() }))),
      rejected.length > 0 && el("div", { class: "sheet" }, tableOf(body)));
    title.focus();
  };

  const drag = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (event.type === "drop" && file && !running) open(file);
  };
  const end = new AbortController();
  document.addEventListener("dragover", drag, end);
  document.addEventListener("drop", drag, end);
  addEventListener("beforeunload", (event) => running && event.preventDefault(), end);

  const saved = JSON.parse(sessionStorage.getItem(STORAGE) ?? "null");
  if (!saved) choose();
  else if (saved.key === key.id && Date.now() - saved.time < RESUME_WITHIN) check(saved);
  else choose(`The import of ${saved.name} was interrupted after ${plural(progressOf().next, "row")}, and cannot be resumed ${saved.key === key.id ? "after 20 hours" : "with another API key"}. Check which animals were added, and import the other rows as a new file.`);

  return {
    unmount() {
      running = false;
      end.abort();
    },
  };
}
