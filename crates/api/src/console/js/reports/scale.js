// The axis of a chart.

/** The most bars of a chart: two months of days, or five years of months. */
export const MAX_BARS = 62;
/** Round numbers between two powers of ten. */
const ROUND = [1, 2, 5, 10];

/**
 * Round values from the lowest to the highest, with zero: 0, 200, 400. They are whole numbers, as amounts are.
 * @param {number[]} values
 */
export function ticksOf(values, most = 5) {
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const rough = Math.max(1, (high - low) / most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (ROUND.find((round) => round * power >= rough) ?? 10);
  const first = Math.floor(low / step);
  const last = Math.max(Math.ceil(high / step), first + 1);
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
}

/** @type {Record<string, number[]>} Usual distances between the labels of a chart, as numbers of bars. */
const STEPS = { day: [1, 2, 3, 7, 14, 28], week: [1, 2, 4, 8, 13, 26], month: [1, 2, 3, 6, 12, 24] };

/** The distance between labels at which they have room. @param {number} band the width of a bar with its share of the gaps */
export function labelStep(band, widest = 0, by = "day") {
  const least = (widest + 12) / band;
  return STEPS[by].find((step) => step >= least) ?? Math.ceil(least);
}
