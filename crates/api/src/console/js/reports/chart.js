// A bar chart of sales over time, drawn at the width that it has. The arrow keys and the pointer show the figures of a bar.

import { el, fill } from "../dom.js";
import { draw } from "../svg.js";
import { formatTicks, formatValue, soldText, valueOf } from "./money.js";
import { labelStep, ticksOf } from "./scale.js";

/** @import { Bar } from "../../types" */

/** The font of the labels. */
const FONT = "12px system-ui, sans-serif";
/** The space above the bars, in pixels. */
const ABOVE = 10;
/** The space below the bars, for labels, in pixels. */
const BELOW = 26;
/** The widest bar. */
const MAX_BAR = 56;
/** The width of the chart on paper. */
const PAPER = 680;
/** The curve of the ends of bars. */
const RADIUS = 3;

const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
pen.font = FONT;
const widthOf = (text = "") => pen.measureText(text).width;

/** A bar from zero, rounded at its other end. */
function barPath(x = 0, width = 0, zero = 0, end = 0) {
  const radius = Math.min(RADIUS, width / 2, Math.abs(end - zero));
  const curve = end < zero ? radius : -radius;
  return `M${x} ${zero}V${end + curve}q0 ${-curve} ${radius} ${-curve}h${width - 2 * radius}q${radius} 0 ${radius} ${curve}V${zero}z`;
}

/**
 * @param {Bar[]} bars
 * @param {{ currency: string, by: string, summary: string }} options
 * @param {AbortSignal} end
 */
export function barChart(bars, { currency, by, summary }, end) {
  const values = bars.map(({ total }) => valueOf(total));
  const plot = el("div.plot", { tabindex: 0, role: "group", "aria-label": "Chart. The arrow keys show the figures of each bar." });
  const tip = el("p.tip", { role: "status", hidden: true });
  let marked = -1;
  let left = 0;
  let band = 1;
  let painted = 0;

  /** Draws it in this many pixels. */
  const paint = (width = plot.clientWidth) => {
    painted = width;
    const height = width < 500 ? 200 : 260;
    const ticks = ticksOf(values, height < 250 ? 4 : 5);
    const texts = formatTicks(ticks, currency);
    left = Math.ceil(Math.max(...texts.map(widthOf))) + 10;
    band = (width - left) / bars.length;
    const lowest = ticks[0];
    const highest = ticks[ticks.length - 1];
    const y = (value = 0) => Math.round(ABOVE + ((highest - value) / (highest - lowest)) * (height - ABOVE - BELOW));
    const bar = Math.max(1, Math.min(MAX_BAR, band * (bars.length > 31 ? 0.8 : 0.68)));
    const middle = (at = 0) => left + band * (at + 0.5);
    const step = labelStep(band, Math.max(...bars.map(({ label }) => widthOf(label))), by);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary },
      ...ticks.flatMap((tick, at) => [
        draw("path", { class: tick ? "rule" : "zero", d: `M${left} ${y(tick) + 0.5}H${width}` }),
        draw("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, texts[at])]),
      ...bars.flatMap(({ label }, at) => (at % step || middle(at) + widthOf(label) / 2 > width ? []
        : [draw("text", { class: "label", x: middle(at), y: height - 6, "text-anchor": "middle" }, label)])),
      ...bars.map((_, at) => draw("path", { class: values[at] < 0 ? "bar back" : "bar", "data-value": values[at],
        d: values[at] ? barPath(middle(at) - bar / 2, bar, y(0), y(values[at])) : "" })));
    fill(plot, svg, tip);
    mark(marked);
  };

  /** Shows the figures of a bar, or of none. */
  const mark = (at = -1) => {
    marked = at;
    for (const [other, bar] of plot.querySelectorAll(".bar").entries()) bar.classList.toggle("dim", at >= 0 && other !== at);
    tip.hidden = at < 0;
    if (at < 0) return;
    const { name, total } = bars[at];
    fill(tip, el("span", name), el("b", formatValue(values[at], currency)), el("span", soldText(total)));
    const room = plot.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(0, Math.min(room, left + band * (at + 0.5) - tip.offsetWidth / 2))}px`;
  };

  plot.addEventListener("keydown", (event) => {
    const last = bars.length - 1;
    const to = { ArrowRight: Math.min(last, marked + 1), ArrowLeft: marked < 0 ? last : Math.max(0, marked - 1), Home: 0, End: last, Escape: -1 }[event.key];
    if (to === undefined || (to < 0 && marked < 0)) return;
    event.preventDefault();
    event.stopPropagation();
    mark(to);
  });
  const point = (/** @type {PointerEvent} */ { clientX }) => {
    const at = Math.floor((clientX - plot.getBoundingClientRect().left - left) / band);
    mark(at >= 0 && at < bars.length ? at : -1);
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerdown", point);
  plot.addEventListener("pointerleave", ({ pointerType }) => pointerType === "mouse" && mark());
  plot.addEventListener("blur", () => mark());

  const watcher = new ResizeObserver(() => plot.clientWidth && plot.clientWidth !== painted && paint());
  watcher.observe(plot);
  end.addEventListener("abort", () => watcher.disconnect());
  addEventListener("beforeprint", () => (mark(), paint(PAPER)), { signal: end });
  addEventListener("afterprint", () => paint(), { signal: end });
  return plot;
}
