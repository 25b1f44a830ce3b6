// Builds elements. Text reaches the page only as text nodes and attributes.

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * An element with attributes, listeners (`onclick: …`) and children. Attributes that are
 * null, undefined or false are left out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...shown(children));
  return element;
}

/**
 * Replaces the content of an element.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...shown(children));
}

/**
 * Replaces the content if its state has changed, so that otherwise buttons stay pending;
 * the focus stays in it.
 * @param {HTMLElement} element
 * @param {string} state
 * @param {() => Child[]} content
 */
export function refill(element, state, content) {
  if (element.dataset.state === state) return;
  element.dataset.state = state;
  const hadFocus = element.contains(document.activeElement);
  fill(element, ...content());
  if (hadFocus) /** @type {HTMLElement | null} */ (element.querySelector("a, button"))?.focus();
}

/** @param {Child[]} children */
const shown = (children) => /** @type {(Node | string)[]} */ (children.filter((child) => child || child === ""));

/**
 * The element with an id, which the page has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/**
 * A button. Those that change something (`write`) are disabled while there is no
 * connection.
 * @param {string} label
 * @param {Record<string, any>} attributes
 * @param {...Child} children
 */
export const button = (label, attributes, ...children) =>
  el("button", { type: "button", ...attributes }, label, ...children);

/**
 * A form field with its label, and a place for what is wrong with it.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {Child} [hint]
 */
export const field = (label, control, hint) =>
  el("label", { class: "field" }, el("span", null, label), control, hint);
