// The register of a period: the animals that were acquired and sold, as an inspector asks for them.

import { get } from "../api.js";
import { act, showFailure } from "../app.js";
import { button, el, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { names } from "../names.js";
import { clockOf } from "../times.js";
import { changesRegister, follower } from "./follow.js";
import { reportHead } from "./paper.js";
import { timeZone } from "./period.js";
import { saveRegister } from "./register-csv.js";
import { registerTable } from "./register-table.js";
import { loadUndated, undatedText } from "./undated.js";

/** @import { Undated } from "./undated.js" */
/** @import { Kind } from "./register-table.js" */
/** @import { Days, RegisterEntry, ReportFilter, Result, StoreEvent } from "../../types" */

/** The most entries that are loaded and saved as CSV. */
const MAX_ENTRIES = 10_000;
/** The most entries of a table on the screen. */
const MAX_ROWS = 1000;
/** The most entries on paper: browsers need minutes to print many more. */
const MAX_PRINTED = 2000;
/** The most entries of a register that follows changes by itself. */
const MAX_LIVE = 500;
/** The progress is shown after this time, in milliseconds. */
const PATIENCE = 2000;

/**
 * All entries of a kind, as far as the limit allows.
 * @param {Kind} kind
 * @param {Days} days
 * @param {AbortSignal} signal
 * @param {(more: number) => void} progress
 */
async function loadEntries(kind, days, signal, progress) {
  /** @type {RegisterEntry[]} */
  const entries = [];
  let next = `?${new URLSearchParams({ entry: kind, ...days, timeZone: timeZone(), limit: "100" })}`;
  while (next && entries.length < MAX_ENTRIES) {
    /** @type {Result} */
    const page = await get(`store/register${next}`, signal);
    entries.push(...page.data);
    progress(page.data.length);
    next = page.next ?? "";
  }
  return { entries, isLimited: next !== "" };
}

/** @typedef {Awaited<ReturnType<typeof loadEntries>>} Loaded */

/** "1,050", or "more than 10,000". @param {Loaded} loaded */
const sizeOf = ({ entries, isLimited }) => `${isLimited ? "more than " : ""}${count(entries.length)}`;
/** A number of entries, of which some may not be loaded. */
const leastOf = (number = 0, isLimited = false) => `${isLimited ? "at least " : ""}${count(number)}`;

/** @param {HTMLElement} root @param {AbortSignal} end */
export function registerView(root, end) {
  /** @type {ReportFilter} */
  let filter;
  let loading = new AbortController();
  let size = 0;
  /** @type {Set<number>} the animals that are shown */
  let shown = new Set();
  /** @type {((isPrinted?: boolean) => void)[]} what shows the rows of each table, on paper all of them */
  let tables = [];

  const load = async () => {
    loading.abort();
    loading = new AbortController();
    const signal = AbortSignal.any([end, loading.signal]);
    const { days } = filter;
    let loaded = 0;
    const slow = setTimeout(() => signal.aborted || fill(root, status), PATIENCE);
    const status = el("p.more", { role: "status" });
    const progress = (more = 0) => (status.textContent = `Loading the register: ${plural((loaded += more), "entry", "entries")}…`);
    progress();
    root.ariaBusy = "true";
    try {
      const [acquired, sold, undated] = await Promise.all([loadEntries("acquired", days, signal, progress), loadEntries("sold", days, signal, progress),
        loadUndated(signal), names.loadCategories().catch(() => {})]);
      if (!signal.aborted) paint(acquired, sold, undated);
    } catch (error) {
      if (!signal.aborted) showFailure(root, error, () => signal.aborted || load());
    }
    clearTimeout(slow);
    if (!signal.aborted) root.ariaBusy = null;
  };

  /** @param {Loaded} acquired @param {Loaded} sold @param {Undated} undated */
  const paint = (acquired, sold, undated) => {
    size = acquired.entries.length + sold.entries.length;
    tables = [];
    shown = new Set([...acquired.entries, ...sold.entries].map(({ petId }) => petId));
    const returned = sold.entries.filter(({ sale }) => sale?.returnedAt).length;
    const summary = `${sizeOf(acquired)} acquired, ${sizeOf(sold)} sold${returned ? `, ${leastOf(returned, sold.isLimited)} of them returned` : ""}`;
    fill(root, reportHead("Register of animals", filter.days, el("p.muted", `${summary}, as of ${clockOf(new Date().toISOString())}`)),
      part("acquired", acquired, el("p.undated.hint", undatedText(undated, sold))), part("sold", sold));
  };

  /** @param {Kind} kind @param {Loaded} loaded @param {HTMLElement} [note] */
  const part = (kind, loaded, note) => {
    const { entries, isLimited } = loaded;
    const title = kind === "acquired" ? "Acquired" : "Sold";
    const more = el("div");
    const notice = el("div");
    const range = el("p.range.hint");
    const showRows = (isPrinted = false) => {
      const rows = Math.min(entries.length, isPrinted ? MAX_PRINTED : MAX_ROWS);
      fill(more, rows > MAX_ROWS && registerTable(kind, entries.slice(MAX_ROWS, rows)));
      fill(notice, (isLimited || rows < entries.length) && limits(loaded, isPrinted));
      range.textContent = `Rows 1 to ${count(rows)} of ${sizeOf(loaded)}`;
    };
    showRows();
    tables.push(showRows);
    return el("section.part", { "aria-label": title },
      el("div.part-head", el("h3", title), el("span.muted", `${sizeOf(loaded)} ${entries.length === 1 ? "animal" : "animals"}`),
        entries.length > 0 && button("Download CSV", "small quiet", ({ currentTarget }) =>
          act(/** @type {HTMLElement} */ (currentTarget), () => saveRegister(kind, filter.days, entries)), { "aria-label": `Download CSV: ${kind}` })),
      notice, entries.length ? [registerTable(kind, entries.slice(0, MAX_ROWS)), more, range] : el("p.none", `No animal was ${kind} in this period.`), note);
  };

  /** Says what is missing from a table or from paper, and where it is. @param {Loaded} loaded */
  const limits = (loaded, isPrinted = false) => {
    const { from, to } = filter.days;
    const size = loaded.entries.length;
    const command = loaded.isLimited && [", or run on the server: ", el("code", `petstore register --from ${from} --to ${to} --time-zone ${timeZone()}`)];
    const all = [["The table", MAX_ROWS], ["paper", MAX_PRINTED], ["the CSV file", MAX_ENTRIES]].map(([place, most]) =>
      `${place} has ${Number(most) < size || (loaded.isLimited && most === MAX_ENTRIES) ? "the first" : "all"} ${count(Math.min(Number(most), size))}`);
    const text = isPrinted ? `This list is not complete: it ends after ${count(Math.min(size, MAX_PRINTED))} of ${sizeOf(loaded)}. Choose a shorter period`
      : `${new Intl.ListFormat("en").format(all)}.${size > MAX_PRINTED ? " Choose a shorter period to print them all" : ""}`;
    return el("p.notice.warn", el("span", text, command, (isPrinted || size > MAX_PRINTED) && !command && "."));
  };

  addEventListener("beforeprint", () => tables.forEach((showRows) => showRows(true)), { signal: end });
  addEventListener("afterprint", () => tables.forEach((showRows) => showRows()), { signal: end });

  const follow = follower(load, end);

  return {
    /** @param {ReportFilter} now */
    show(now) {
      const isSame = filter?.days.from === now.days.from && filter?.days.to === now.days.to;
      filter = now;
      if (!isSame) load();
    },
    /** A long register stays as it was loaded. @param {StoreEvent} event */
    onEvent(event) {
      if (size <= MAX_LIVE && changesRegister(event, filter.days, shown)) follow();
    },
  };
}
