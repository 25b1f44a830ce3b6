// Buttons that choose what a list shows.

import { el } from "./dom.js";

/**
 * Buttons of which one is pressed, at first the first one.
 * @param {string} label
 * @param {Record<string, string>} options
 * @param {(value: string) => void} choose
 */
export function tabs(label, options, choose) {
  const press = (value = "") => {
    for (const tab of all) tab.ariaPressed = String(tab.textContent === options[value]);
    choose(value);
  };
  const all = Object.entries(options).map(([value, text]) => el("button", { onclick: () => press(value) }, text));
  press(Object.keys(options)[0]);
  return el("div.tabs", { role: "group", "aria-label": label }, all);
}
