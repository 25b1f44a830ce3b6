// Builds elements. Text reaches the page only as text nodes and attributes.

import { go, itemHref } from "./address.js";

/** @import { Content, ElementOf } from "../types" */

/**
 * An element: `el("a.btn", { href: "#/animals", onclick: … }, "Animals")`. Attributes and children that are null,
 * undefined or false are left out.
 * @template {string} Tag
 * @param {Tag} tag with its classes
 * @param {...Content} content
 */
export function el(tag, ...content) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const part of content.flat()) {
    if (part instanceof Node || typeof part === "string") element.append(part);
    else for (const [name, value] of Object.entries(part || {})) {
      if (typeof value === "function") element.addEventListener(name.slice(2), /** @type {any} */ (value));
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  return /** @type {ElementOf<Tag>} */ (element);
}

/** @param {Element} element @param {...Content} content */
export const fill = (element, ...content) => element.replaceChildren(...el("div", ...content).childNodes);

/**
 * Puts a newer version of an element in its place, and keeps the focus; unless it looks the same, so that its buttons
 * stay pending. Returns what is shown.
 * @param {Element} old
 * @param {Element} now
 */
export function replace(old, now) {
  let before = old;
  if (old.querySelector("[aria-busy], [disabled]")) {
    before = /** @type {Element} */ (old.cloneNode(true));
    for (const control of before.querySelectorAll("button")) {
      control.ariaBusy = null;
      control.disabled = false;
    }
  }
  if (before.isEqualNode(now)) return old;
  const focused = controls(old).find((control) => control === document.activeElement);
  old.replaceWith(now);
  if (!focused) return now;
  const same = controls(now).find(({ textContent }) => textContent === focused.textContent);
  // Another button would be the next step: Enter, pressed again, must not take it.
  (same ?? (focused.matches("a") ? controls(now)[0] : null))?.focus();
  return now;
}

/** Does so with each child of an element, or with all at once if there are more or fewer. Returns whether one has changed. @param {Element} old @param {Element} now */
export function update(old, now) {
  old.className = now.className;
  const children = [...old.children];
  if (children.length !== now.childElementCount) {
    old.replaceChildren(...now.childNodes);
    return true;
  }
  return [...now.children].filter((child, at) => replace(children[at], child) === child).length > 0;
}

/** @param {Element | null} [element] */
export const controls = (element) => /** @type {HTMLElement[]} */ ([...(element?.querySelectorAll("a, button") ?? [])]);

/** An element of the page. @returns {any} */
export const byId = (id = "") => document.getElementById(id);

/**
 * A name that is clamped if it is long. Its title is the whole name, and a click on a heading shows it.
 * @template {string} Tag
 * @param {Tag} tag
 * @param {string} name
 * @param {...Content} more
 */
export const nameOf = (tag, name, ...more) => el(`${tag}.clamp`, { title: name,
  onclick: tag === "h2" && ((/** @type {Event} */ { target }) => /** @type {Element} */ (target).classList.toggle("whole")) }, ...more, name);

/** @param {string} label @param {string} kind classes @param {(event: MouseEvent) => unknown} onclick @param {...Content} more */
export const button = (label, kind, onclick, ...more) =>
  el("button", { type: "button", class: `btn ${kind}`, onclick }, label, ...more);

/** Closes the panel of a screen; the filters of the list stay. */
export const closeLink = (screen = "") => el("a.close", { href: `#/${screen}`, "aria-label": "Close",
  onclick(/** @type {Event} */ event) {
    event.preventDefault();
    go(itemHref(screen));
  } }, "×");

/** The content instead of an empty list. @param {string} title @param {...Content} content */
export const empty = (title, ...content) => el("div.empty", el("h2", title), ...content);

export const pill = (status = "", text = status) => el("span", { class: `pill ${status}` }, text);
