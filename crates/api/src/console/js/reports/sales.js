// Sales of a period: totals by currency, a chart over time, and who and what they are of.

import { getKept } from "../api.js";
import { act, retries, showFailure } from "../app.js";
import { localDay } from "../days.js";
import { button, el, empty, fill } from "../dom.js";
import { count, plural } from "../format.js";
import { names } from "../names.js";
import { formatPrice } from "../price.js";
import { can } from "../session.js";
import { tabs } from "../tabs.js";
import { barChart } from "./chart.js";
import { changesSales, follower } from "./follow.js";
import { formatValue, soldText, totalOf, valueOf } from "./money.js";
import { categoryName, personName } from "./names.js";
import { reportHead } from "./paper.js";
import { groupName, labelsOf, lengthOf, periodName, startsOf, timeZone } from "./period.js";
import { ranking } from "./ranking.js";
import { saveSales } from "./sales-csv.js";
import { MAX_BARS } from "./scale.js";

/** @import { Bar, Days, ReportFilter, Result, Sales, SalesGroup, SalesTotal, StoreEvent } from "../../types" */

const GROUPINGS = { day: "Day", week: "Week", month: "Month" };

/** The groupings of a period that make several bars, but not too many. @param {Days} days */
const groupingsOf = (days) => Object.keys(GROUPINGS).filter((by) => {
  const bars = by === "day" ? lengthOf(days) : startsOf(days, by).length;
  return bars > 1 && bars <= MAX_BARS;
});

/** The grouping that is chosen, or one that makes few bars. @param {ReportFilter} filter */
function groupingOf({ days, by }) {
  const all = groupingsOf(days);
  const length = lengthOf(days);
  const usual = length <= MAX_BARS ? "day" : length <= 183 ? "week" : "month";
  return all.includes(by) ? by : all.includes(usual) || length === 1 ? usual : (all.at(-1) ?? "day");
}

/** @param {SalesTotal} total */
function totalText({ currency, sold, returned, soldAmount, returnedAmount }) {
  const price = (amount = 0) => (currency ? formatPrice({ amount, currency }) : "");
  return [el("span", `${count(sold)} sold ${price(Number(soldAmount))}`),
    returned > 0 && el("span", `${count(returned)} returned ${currency ? price(-Number(returnedAmount)) : ""}`)];
}

/** @param {HTMLElement} root @param {(change: { by?: string, currency?: string }) => void} choose @param {AbortSignal} end */
export function salesView(root, choose, end) {
  /** @type {ReportFilter} */
  let filter;
  let loading = new AbortController();
  let chart = new AbortController();
  /** @type {Map<string, Result>} what was read of this period, by the grouping */
  const reports = new Map();
  let period = "";

  const load = async () => {
    loading.abort();
    loading = new AbortController();
    const signal = AbortSignal.any([end, loading.signal]);
    const by = groupingOf(filter);
    const query = new URLSearchParams({ ...filter.days, timeZone: timeZone() });
    if (String(query) !== period) reports.clear();
    period = String(query);
    /** Another currency, or other bars, need not read all again. @returns {Promise<Result>} */
    const read = async (by = "") => {
      const report = reports.get(by) ?? await getKept(`store/sales?${query}&by=${by}`, signal);
      if (!report.isOld && !signal.aborted) reports.set(by, report);
      return report;
    };
    root.ariaBusy = "true";
    try {
      const [times, categories, people] = await Promise.all([by, "category", "key"].map(read));
      const keys = people.data.groups.map((/** @type {SalesGroup} */ { keyId }) => keyId && String(keyId));
      await Promise.all([names.load(keys), can("pets:read") && names.loadCategories().catch(() => {})]);
      if (signal.aborted) return;
      if (times.isOld) retries.add(() => void (signal.aborted || load()));
      paint({ by, times: times.data, categories: categories.data, people: people.data });
    } catch (error) {
      if (!signal.aborted) showFailure(root, error, () => signal.aborted || load());
    }
    if (!signal.aborted) root.ariaBusy = null;
  };

  /** @param {{ by: string, times: Sales, categories: Sales, people: Sales }} sales */
  const paint = ({ by, times, categories, people }) => {
    const { days } = filter;
    chart.abort();
    chart = new AbortController();
    const head = reportHead("Sales", days);
    if (!times.totals.length) {
      const yet = days.to < localDay() ? "in this period" : "yet";
      return fill(root, head, empty(`No sales ${yet}`,
        el("p", "A sale counts when its order is completed, and a return when the animal comes back."), el("a.btn", { href: "#/orders" }, "Orders")));
    }
    const currency = chosen(times.totals);
    const parts = el("div.rankings",
      part("category", "By category", categories, ranking("Category", categories.groups, categoryName, currency)),
      part("person", "By person", people, ranking("Person", people.groups, personName, currency)));
    fill(root, head, totals(times.totals, currency), overTime(by, times, currency), parts);
  };

  /** The currency that is chosen, or the one of most sales. @param {SalesTotal[]} totals */
  const chosen = (totals) => {
    const currencies = totals.map(({ currency = "none" }) => currency);
    const [most] = [...totals].sort((a, b) => Number(!a.currency) - Number(!b.currency) || b.sold - a.sold);
    const found = currencies.includes(filter.currency) ? filter.currency : (most.currency ?? "none");
    return found === "none" ? "" : found;
  };

  /** The totals of each currency. If there are several, one is chosen for the figures below. @param {SalesTotal[]} all */
  const totals = (all, chosen = "") => el("div.totals", { role: "group", "aria-label": "Totals" }, all.map((total) => {
    const { currency = "" } = total;
    const content = [el("small", currency || "Without a price"), el("b", formatValue(valueOf(total), currency)), el("span.total-parts", totalText(total))];
    return all.length === 1 ? el("div.total", content)
      : el("button.total", { type: "button", "aria-pressed": String(currency === chosen), onclick: () => choose({ currency: currency || "none" }) }, content);
  }));

  /** @param {string} by @param {string} title @param {Sales} sales @param {HTMLElement} table */
  const part = (by, title, sales, table) => el("section.part", { "aria-label": title },
    el("div.part-head", el("h3", title), saveButton(by, sales)), table);

  /** @param {string} by @param {Sales} sales @param {string[]} [starts] */
  const saveButton = (by, sales, starts) => button("Download CSV", "small quiet", ({ currentTarget }) =>
    act(/** @type {HTMLElement} */ (currentTarget), () => saveSales(sales, { by, days: filter.days, starts, nameOf: by === "category" ? categoryName : personName })),
    { "aria-label": `Download CSV: sales by ${by}` });

  /** @param {string} by @param {Sales} sales @param {string} currency */
  const overTime = (by, sales, currency) => {
    const { days } = filter;
    const starts = startsOf(days, by);
    if (starts.length < 2) return "";
    const labels = labelsOf(starts, by);
    const byStart = new Map(sales.groups.map((group) => [group.start, group]));
    /** @type {Bar[]} */
    const bars = starts.map((start, at) =>
      ({ start, label: labels[at], name: groupName(days, start, by), total: totalOf(byStart.get(start) ?? { totals: [] }, currency) }));
    const choices = groupingsOf(days);
    const switcher = tabs("Bars", Object.fromEntries(choices.map((choice) => [choice, GROUPINGS[/** @type {keyof typeof GROUPINGS} */ (choice)]])), (by) => choose({ by }));
    switcher.press(by);
    return el("section.part", { "aria-label": `By ${by}` },
      el("div.part-head", el("h3", `By ${by}`), choices.length > 1 && switcher.element, saveButton(by, sales, starts)),
      barChart(bars, { currency, by, summary: summaryOf(bars, sales.totals, currency, by) }, AbortSignal.any([end, chart.signal])),
      el("details", el("summary", "Figures of the chart"), figures(bars, currency, by)));
  };

  /** @param {Bar[]} bars @param {SalesTotal[]} totals @param {string} currency @param {string} by */
  const summaryOf = (bars, totals, currency, by) => {
    const total = totalOf({ totals }, currency);
    const best = bars.reduce((best, bar) => (valueOf(bar.total) > valueOf(best.total) ? bar : best));
    return `Sales by ${by}, ${periodName(filter.days)}: ${formatValue(valueOf(total), currency)} in all, ${soldText(total)}. ` +
      `The most: ${formatValue(valueOf(best.total), currency)}, ${best.name}.`;
  };

  /** The bars with sales or returns, as a table. @param {Bar[]} bars */
  const figures = (bars, currency = "", by = "") => {
    const price = (amount = 0) => formatPrice({ amount, currency });
    /** @param {string} name @param {SalesTotal} total */
    const row = (name, total) => el("tr", el("td", name), el("td.amount", count(total.sold)), el("td.amount", count(total.returned)), currency && [
      el("td.amount.wide", price(Number(total.soldAmount))), el("td.amount.wide", total.returned > 0 && price(-Number(total.returnedAmount))),
      el("td.amount", price(Number(total.amount)))]);
    const shown = bars.filter(({ total }) => total.sold || total.returned);
    const without = bars.length - shown.length;
    return el("div", el("table.figures", el("thead", el("tr", el("th", GROUPINGS[/** @type {keyof typeof GROUPINGS} */ (by)]), el("th.amount", "Sold"), el("th.amount", "Returned"),
      currency && [el("th.amount.wide", "Sales"), el("th.amount.wide", "Returns"), el("th.amount", "Total")])),
      el("tbody", shown.map(({ name, total }) => row(name, total)))),
    without > 0 && el("p.hint", `${plural(without, by)} without sales or returns.`));
  };

  const follow = follower(() => {
    reports.clear();
    return load();
  }, end);

  return {
    /** @param {ReportFilter} now */
    show(now) {
      filter = now;
      load();
    },
    /** @param {StoreEvent} event */
    onEvent(event) {
      if (changesSales(event, filter.days)) follow();
    },
  };
}
