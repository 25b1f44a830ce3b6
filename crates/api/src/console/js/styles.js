// Style sheets that are not part of the first screen.

import { el } from "./dom.js";

/** @type {Map<string, Promise<void>>} */
const loaded = new Map();

/** Loads a style sheet, once. Without it, the page works still. @returns {Promise<void>} */
export function loadStyles(name = "") {
  const styles = loaded.get(name) ?? add(new URL(`../${name}`, import.meta.url).href);
  loaded.set(name, styles);
  return styles;
}

/** @returns {Promise<void>} */
const add = (href = "") => new Promise((resolve) => {
  document.head.append(el("link", { rel: "stylesheet", href, onload: () => resolve(), onerror: () => resolve() }));
});
