// Sales by category or by person, as a table with bars; the most first.

import { el } from "../dom.js";
import { count } from "../format.js";
import { draw } from "../svg.js";
import { formatValue, totalOf, valueOf } from "./money.js";

/** @import { SalesGroup } from "../../types" */

/** @param {number} value @param {number} low @param {number} high */
function bar(value, low, high) {
  const percent = (part = 0) => `${(100 * part) / (high - low || 1)}%`;
  return draw("svg", { class: "rank", "aria-hidden": "true" },
    draw("rect", { class: "track", width: "100%", height: 8, rx: 4 }),
    draw("rect", { class: value < 0 ? "bar back" : "bar", x: percent(Math.min(value, 0) - low), width: percent(Math.abs(value)), height: 8, rx: 4 }));
}

/** @param {string} heading @param {SalesGroup[]} groups @param {(group: SalesGroup) => string} nameOf @param {string} currency */
export function ranking(heading, groups, nameOf, currency) {
  const rows = groups.map((group) => ({ name: nameOf(group), total: totalOf(group, currency) }))
    .filter(({ total }) => total.sold || total.returned).sort((a, b) => valueOf(b.total) - valueOf(a.total));
  const values = rows.map(({ total }) => valueOf(total));
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  return el("table.figures", el("thead", el("tr", el("th", heading), el("th.amount", "Sold"), el("th.amount", "Returned"), currency && el("th.amount", "Total"))),
    el("tbody", rows.map(({ name, total }) => el("tr", el("td.main", el("span.clamp", { title: name }, name), bar(valueOf(total), low, high)),
      el("td.amount", count(total.sold)), el("td.amount", count(total.returned)),
      currency && el("td.amount", formatValue(valueOf(total), currency))))));
}
