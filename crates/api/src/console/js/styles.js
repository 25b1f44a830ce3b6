// Style sheets that are not part of the first screen.

import { el } from "./dom.js";

/** Loads a style sheet. Without it, the page works still. @returns {Promise<void>} */
export const loadStyles = (name = "") => new Promise((resolve) => {
  const href = new URL(`../${name}`, import.meta.url).href;
  document.head.append(el("link", { rel: "stylesheet", href, onload: () => resolve(), onerror: () => resolve() }));
});
