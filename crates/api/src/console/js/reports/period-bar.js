// Chooses a period: a usual one, or the person's own dates.

import { el } from "../dom.js";
import { tabs } from "../tabs.js";
import { PERIODS, isDay, lengthOf } from "./period.js";

/** @import { Days, ReportFilter } from "../../types" */

/** Five years. */
const MAX_DAYS = 1827;

/** The problem with a period, or "". @param {Days} days */
export function problemOf({ from, to }) {
  if (!isDay(from) || !isDay(to)) return "Choose the first and the last day.";
  if (from > to) return "The first day is after the last day.";
  return lengthOf({ from, to }) > MAX_DAYS ? "Choose at most five years." : "";
}

/** @param {(period: string, days?: Days) => void} choose */
export function periodBar(choose) {
  const chooseDates = () => {
    const days = { from: from.value, to: to.value };
    problem.textContent = problemOf(days);
    if (!problem.textContent) choose("dates", days);
  };
  const date = (label = "") => el("input", { type: "date", "aria-label": label, min: "1970-01-01", max: "9999-12-31", onchange: chooseDates });
  const from = date("First day");
  const to = date("Last day");
  const problem = el("p.problem", { role: "alert" });
  const dates = el("div.dates", from, el("span", "to"), to, problem);
  const periods = tabs("Period", PERIODS, (period) => choose(period));
  return {
    element: el("div.periods", periods.element, dates),
    /** @param {ReportFilter} filter */
    show({ period, days }) {
      periods.press(period);
      const pressed = /** @type {HTMLElement} */ (periods.element.querySelector("[aria-pressed=true]"));
      periods.element.scrollLeft = pressed.offsetLeft - periods.element.offsetLeft - (periods.element.clientWidth - pressed.offsetWidth) / 2;
      dates.hidden = period !== "dates";
      [from.value, to.value, problem.textContent] = [days.from, days.to, ""];
    },
  };
}
