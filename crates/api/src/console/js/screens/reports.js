// Reports: the sales of a period, and the register of the animals that were acquired and sold in it.

import { go, hrefOf } from "../address.js";
import { titleList } from "../app.js";
import { localDay } from "../days.js";
import { el, fill } from "../dom.js";
import { loadShop } from "../reports/paper.js";
import { problemOf, periodBar } from "../reports/period-bar.js";
import { PERIODS, daysOf, periodName } from "../reports/period.js";
import { registerView } from "../reports/register.js";
import { salesView } from "../reports/sales.js";
import { can } from "../session.js";
import { loadStyles } from "../styles.js";
import { tabs } from "../tabs.js";
import { every } from "../times.js";

/** @import { Filters, Mount, ReportFilter } from "../../types" */

const VIEWS = { sales: "Sales", register: "Register" };

await loadStyles("reports.css");

/** @param {Filters} filters @returns {ReportFilter} */
function readFilters({ view = "", period = "", from = "", to = "", by = "", currency = "" }) {
  const isOwn = period === "dates" && !problemOf({ from, to });
  const known = isOwn || (period !== "dates" && Object.hasOwn(PERIODS, period)) ? period : "month";
  return { view: view === "register" && can("pets:read") ? view : "sales", period: known, days: isOwn ? { from, to } : daysOf(known), by, currency };
}

/** @type {Mount} */
export function mount(root, _, end, filters) {
  let filter = readFilters(filters);
  let shown = "";
  /** Ends the view. */
  let leaving = new AbortController();
  /** @type {ReturnType<typeof salesView> | ReturnType<typeof registerView>} */
  let view;

  /** @param {Partial<ReportFilter>} change */
  const find = (change) => {
    const { view, period, days, by, currency } = { ...filter, ...change };
    go(hrefOf("reports", "", { view: view === "sales" ? "" : view, period: period === "month" ? "" : period,
      ...(period === "dates" && days), by, currency }));
  };

  const views = tabs("Report", VIEWS, (view) => find({ view }));
  const periods = periodBar((period, days = filter.days) => find({ period, days, by: "" }));
  const content = el("div.report");
  root.append(el("div.report-bar", can("pets:read") && views.element, periods.element), content);

  const paint = () => {
    views.press(filter.view);
    periods.show(filter);
    titleList([VIEWS[/** @type {keyof typeof VIEWS} */ (filter.view)].toLowerCase(), periodName(filter.days)]);
    if (filter.view !== shown) {
      leaving.abort();
      leaving = new AbortController();
      const signal = AbortSignal.any([end, leaving.signal]);
      const box = el("div", { class: filter.view }, el("p.more", "Loading…"));
      fill(content, box);
      view = filter.view === "register" ? registerView(box, signal) : salesView(box, find, signal);
      shown = filter.view;
    }
    view.show(filter);
  };
  paint();
  loadShop();

  // "Today" and "this month" become others at midnight.
  let today = localDay();
  every(30, () => {
    if (localDay() === today) return;
    today = localDay();
    filter = { ...filter, days: filter.period === "dates" ? filter.days : daysOf(filter.period) };
    paint();
  }, end);

  return {
    show(_, filters) {
      filter = readFilters(filters);
      paint();
    },
    onEvent: (event) => view.onEvent(event),
  };
}
