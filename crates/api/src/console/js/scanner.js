// A chip scanner is a keyboard: it types the digits of a chip in quick succession, and Enter.

import { load, message, toast } from "./app.js";

/** The longest pause between two keys of a scanner, in milliseconds. A person is slower. */
const GAP = 50;
/** A burst of fewer digits is ordinary typing. */
const SHORTEST = 6;

/** The digits of a text that looks like the number of a chip, or "". */
export function chipOf(text = "") {
  const digits = text.replace(/[\s-]/g, "");
  return /^(\d{9,10}|\d{15})$/.test(digits) ? digits : "";
}

/** The digits that were typed last and when; where the first one was typed, and the text of the field before. */
let burst = { digits: "", time: 0, field: /** @type {HTMLInputElement | null} */ (null), before: "" };

/** Takes a key before the page does. The Enter of a scanner submits no form and presses no button. @param {KeyboardEvent} event */
export function scan(event) {
  const { key, timeStamp: time } = event;
  const target = /** @type {HTMLInputElement} */ (event.target);
  if (key === "Shift") return;
  const isNext = !event.repeat && time - burst.time <= GAP;
  if (/^\d$/.test(key)) {
    // A field may be replaced when its text changes.
    const { digits, field, before } = isNext ? burst : { digits: "", field: target, before: target.value };
    burst = { digits: digits + key, time, field, before };
    return;
  }
  const { digits, field, before } = burst;
  burst.time = 0;
  const [chip, isSearch] = [chipOf(digits), target.matches("[data-search]")];
  if (key !== "Enter" || !isNext || digits.length < SHORTEST || (isSearch && !chip)) return;
  event.preventDefault();
  event.stopPropagation();
  // Other bar codes stay where they were typed, such as the number of a receipt.
  if (!chip) return;
  const dialog = document.querySelector("dialog[open]:not([data-chip])");
  const form = target.closest("form") ?? dialog?.querySelector("form");
  const input = form?.elements.namedItem("microchip");
  if (field !== input) change(field, isSearch ? "" : before);
  if (input instanceof HTMLInputElement && (field === input || !input.value)) {
    change(input, chip);
    return input.focus();
  }
  if (!dialog && !form) {
    load(import("./chip.js")).then(({ openChip }) => openChip(chip)).catch((error) => toast(message(error), "danger"));
    return;
  }
  const text = `The chip ${chip} was scanned. Finish or close this first, and scan it again.`;
  const problem = form?.querySelector(":scope > .problem");
  if (problem) problem.textContent = text;
  else toast(text, "danger");
}

/** Changes a field as if it was typed. @param {HTMLInputElement | null} field */
function change(field, value = "") {
  if (!field?.matches("input, select, textarea") || field.value === value) return;
  field.value = value;
  for (const type of ["input", "change"]) field.dispatchEvent(new Event(type, { bubbles: true }));
}
