// The third step of an import: what it would do, compared with the store, before anything happens.

import { get } from "../api.js";
import { showFailure } from "../app.js";
import { escapeFormula, saveCsv, unescapeText } from "../csv.js";
import { button, el, fill, pill } from "../dom.js";
import { ago, count, plural } from "../format.js";
import { table } from "../list.js";
import { fold, names } from "../names.js";
import { mapInTurns } from "../pace.js";
import { comparer } from "./compare.js";
import { dateColumnsOf } from "./dates.js";
import { hashOf } from "./hash.js";
import { rowsOf } from "./header.js";
import { findAnimals } from "./lookup.js";
import { decimalMarkOf } from "./prices.js";
import { columnLabel, readRecord } from "./records.js";

/** @import { CheckedRow, FileImport, ImportRecord, ImportSource, RejectedRow, StoreView } from "../../types" */

/** More rows would make the page slow. */
const MAX_SHOWN = 200;
const MAX_NAMES = 9;
const HOW_CHANGED = "Only what is in the columns of the file is changed. An empty cell removes what the animal has there.";
const UNKNOWN_CHIPS = "Rows with the microchip of an animal in the store will be left out.";
const KINDS = /** @type {const} */ (["new", "changed", "unchanged", "invalid"]);

/** The problems of a row as a text. @param {Record<string, string>} problems */
const problemText = (problems) => Object.entries(problems).map(([column, text]) =>
  (column ? `${columnLabel(column.split("=")[0])}: ${text}` : text)).join("\n");

/** A cell of a workbook may look like a formula. Numbers are none, and cells of an export are escaped already. */
const safeCell = (cell = "") => (/^[+-]?[\d.,]+$/.test(cell) || unescapeText(cell) !== cell ? cell : escapeFormula(cell));

/** Saves rows with what is wrong with them, to be corrected and imported again. @param {string[]} headings @param {RejectedRow[]} rows */
export const saveRejected = (headings, rows) => saveCsv("rejected.csv", [
  ...(headings.length ? [[...headings, "problem"]] : []),
  ...rows.map(({ cells, reason }) => {
    const length = Math.max(headings.length, cells.length);
    return [...Array.from({ length }, (_, at) => safeCell(cells[at])), reason.replaceAll("\n", " ")];
  }),
]);

/** "1,200 animals were added, and 37 changed". */
export function outcomeText(added = 0, changed = 0, deleted = 0) {
  if (deleted) return `${plural(deleted, "animal was", "animals were")} deleted`;
  if (!changed) return `${plural(added, "animal was", "animals were")} added`;
  if (!added) return `${plural(changed, "animal was", "animals were")} changed`;
  return `${plural(added, "animal was", "animals were")} added, and ${count(changed)} changed`;
}

/** "Create 2 categories: Cats, Birds". @param {string[]} names */
function categoriesText(names) {
  const more = names.length > MAX_NAMES ? "…" : "";
  return `Create ${plural(names.length, "category", "categories")}: ${names.slice(0, MAX_NAMES).join(", ")}${more}`;
}

function chipsText(rows = 0) {
  const animals = rows === 1 ? "this animal" : "these animals";
  return `${plural(rows, "row has", "rows have")} the microchip of an animal in the store: change ${animals}`;
}

function actionText(added = 0, changed = 0) {
  if (!changed) return `Add ${plural(added, "animal")}`;
  return added ? `Add ${count(added)} and change ${plural(changed, "animal")}` : `Change ${plural(changed, "animal")}`;
}

/** The result of the last import of a file, wherever it was made, or "" if nothing is left of it. @param {FileImport} [last] */
function earlierText(last) {
  if (!last || (last.state === "undone" && !last.kept)) return "";
  const { state, added, changed, updatedAt, kept } = last;
  if (state === "undone") return `this file was undone ${ago(updatedAt)}, except for ${plural(kept, "animal")} changed or ordered since`;
  const outcome = `${ago(updatedAt)}, and ${outcomeText(added, changed)}`;
  if (state === "started") return `an import of this file is running, or was interrupted ${outcome}`;
  return state === "undoing" ? `a part of this file was undone ${ago(updatedAt)}` : `this file was imported ${outcome}`;
}

/**
 * @param {HTMLElement} root
 * @param {ImportSource} source
 * @param {AbortSignal} end
 * @param {{ start(rows: CheckedRow[], invalid: RejectedRow[], hash: string): Promise<void>, back(): void }} go
 */
export async function showCheck(root, source, end, go) {
  const { mapping, header, table: cells } = source;
  const status = el("p", { role: "status" }, "Reading…");
  const progress = el("progress", { "aria-label": "Progress" });
  fill(root, el("div.drop", el("h2", `Checking ${source.name}`), progress, status, el("div.bar", button("Back", "", go.back))));
  const failed = (/** @type {unknown} */ error) => end.aborted || showFailure(root, error, () => showCheck(root, source, end, go));

  /** @type {ImportRecord[]} */
  let records;
  /** @type {StoreView} */
  let view;
  let hash = "";
  let earlier = "";
  try {
    mapping.decimalMark = decimalMarkOf(rowsOf(cells, header), mapping);
    mapping.dates = dateColumnsOf(rowsOf(cells, header), mapping);
    hash = await hashOf(source.bytes, source.sheet.name);
    earlier = earlierText((await get(`imports?file=${hash}`, end)).data[0]);
    records = await mapInTurns(rowsOf(cells, header), (row) => readRecord(row, mapping));
    await names.loadCategories();
    const found = await findAnimals(records, end, (done, all) => {
      progress.max = all;
      progress.value = done;
      status.textContent = `Comparing with the animals in the store: ${Math.floor((done / all) * 100)} %`;
    });
    view = {
      ...found,
      categoryNames: new Map(names.categories),
      categoryIds: new Map([...names.categories].map(([id, name]) => [fold(name), id])),
      createsCategories: false,
      matchesChips: false,
      defaultStatus: mapping.defaultStatus,
    };
  } catch (error) {
    return failed(error);
  }
  if (end.aborted) return;

  let filter = "";
  let isAgain = false;
  const repeatedText = `Add animals a second time: ${earlier}`;
  const isRepeated = () => earlier !== "" && groups.new.length > 0;
  /** @type {Record<string, CheckedRow[]>} */
  let groups = {};
  const cards = el("div.cards");
  const notes = el("div");
  const actions = el("div.bar");
  const body = el("tbody");
  const more = el("div.more");

  const compare = async () => {
    const rows = await mapInTurns(records, comparer(view));
    if (end.aborted) return;
    groups = { all: rows, ...Object.fromEntries(KINDS.map((kind) => [kind, rows.filter((row) => row.kind === kind)])) };
    if (!groups[filter]?.length) filter = KINDS.find((kind) => kind !== "unchanged" && groups[kind].length) ?? "unchanged";
    paint();
  };

  const paint = () => {
    fill(cards, KINDS.map((kind) => el("button", { class: `card ${groups[kind].length ? kind : ""}`, "aria-pressed": String(filter === kind),
      onclick: () => ((filter = kind), paint()) }, el("b", count(groups[kind].length)), kind)));
    fill(notes, messages());
    const added = groups.new.length;
    const changed = groups.changed.length;
    const invalid = groups.invalid.length;
    const rejected = groups.invalid.map(({ line, cells, problems }) => ({ line, cells, reason: problemText(problems) }));
    const start = async () => {
      startButton.ariaBusy = "true";
      await go.start(groups.all.filter(({ kind }) => kind === "new" || kind === "changed"), rejected, hash).catch(failed);
    };
    const startButton = button(actionText(added, changed), "primary", () => startButton.ariaBusy || start(), { "data-write": true });
    fill(actions, added + changed > 0 && (isAgain || !isRepeated()) && startButton, button("Back", "", go.back),
      invalid > 0 && button("Save the invalid rows", "", () => saveRejected(header.headings, rejected)),
      invalid > 0 && added + changed > 0 && el("span.hint", `${plural(invalid, "invalid row")} will be left out.`));
    const shown = groups[filter];
    fill(body, shown.slice(0, MAX_SHOWN).map(rowOf));
    fill(more, shown.length > MAX_SHOWN && `The first ${MAX_SHOWN} of ${count(shown.length)} are shown.`);
  };

  const messages = () => {
    const newNames = [...new Map(groups.all.flatMap(({ newName }) => (newName === undefined ? [] : [[fold(newName), newName]]))).values()];
    const renumbered = groups.new.filter(({ isRenumbered }) => isRenumbered).length;
    const chips = groups.all.filter(({ holder, target }) => holder && (!target || target === holder) && !ids.has(holder.id));
    return [
      !groups.new.length && !groups.changed.length && !groups.invalid.length && el("p.notice.ok",
        `Nothing to do: ${plural(groups.unchanged.length, "animal is", "animals are")} in the store exactly as in this file.`),
      isRepeated() && checkbox(repeatedText, isAgain, (checked) => (isAgain = checked)),
      newNames.length > 0 && checkbox(categoriesText(newNames), view.createsCategories,
        (checked) => (view.createsCategories = checked)),
      view.unknownChips > 0 && el("p.notice.warn", `The store has too many animals to look for ${plural(view.unknownChips, "microchip")} now. ${UNKNOWN_CHIPS}`),
      chips.length > 0 && checkbox(chipsText(chips.length), view.matchesChips, (checked) => (view.matchesChips = checked)),
      groups.changed.length > 0 && el("p.hint.import-hint", HOW_CHANGED),
      renumbered > 0 && el("p.hint.import-hint", `${plural(renumbered, "row has", "rows have")} a number that no animal has: new animals get new numbers.`),
    ];
  };
  const ids = new Set(records.flatMap(({ id }) => id ?? []));

  /** @param {string} label @param {boolean} checked @param {(checked: boolean) => void} set */
  const checkbox = (label, checked, set) => {
    const input = el("input", { type: "checkbox", checked, onchange: () => {
      set(input.checked);
      compare();
    } });
    return el("label.check.notice.import-choice", input, label);
  };

  fill(root, el("div.import-head", el("div", el("h2", { tabindex: -1 }, source.name), el("p.muted", "Nothing has been changed yet."))),
    cards, notes, actions, table(["Line", "Name", "Category", "Status", "Details"], body, "import-rows"), more);
  await compare();
}

/** @param {CheckedRow} row */
function rowOf({ line, shown, kind, difference, problems, target }) {
  const lines = (kind === "invalid" ? problemText(problems) : difference ?? "").split("\n").filter(Boolean);
  const text = kind === "new" ? [el("small", lines.join(" · ") || "–")] : lines.map((line) => el("small", line));
  return el("tr", { class: kind }, el("td.number", String(line)),
    el("td", target ? el("a", { href: `#/animals/${target.id}` }, shown.name || "–") : el("b", shown.name || "–")),
    el("td", shown.category || "–"), el("td", shown.status ? pill(shown.status) : el("span.muted", "–")),
    el("td", text.length ? text : el("small.muted", "nothing changes")));
}
