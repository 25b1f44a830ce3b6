// Buttons that choose what a list shows.

import { el } from "./dom.js";

/**
 * Buttons of which one is pressed.
 * @param {string} label
 * @param {Record<string, string>} options
 * @param {(value: string) => void} choose
 */
export function tabs(label, options, choose) {
  const all = Object.entries(options).map(([value, text]) =>
    ({ value, element: el("button", { type: "button", onclick: () => choose(value) }, el("span", { "data-label": text }, text)) }));
  return {
    element: el("div.tabs", { role: "group", "aria-label": label }, all.map(({ element }) => element)),
    press(chosen = "") {
      for (const { value, element } of all) element.ariaPressed = String(value === chosen);
    },
  };
}
