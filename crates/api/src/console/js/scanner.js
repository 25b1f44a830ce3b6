// A chip scanner is a keyboard: it types the digits of a chip in quick succession, and Enter.

import { load, message, toast } from "./app.js";
import { chipOf } from "./microchip.js";

/** The longest pause between two keys of a scanner, in milliseconds. A person is slower. */
const GAP = 100;
/** Digits after a longer pause than `GAP`, but not than this, may be the rest of an interrupted scan. */
const INTERRUPTION = 500;
/** A burst of fewer digits is ordinary typing. */
const SHORTEST = 6;

/**
 * The digits that were typed last and when; where the first one was typed, and the text of the field before; and the
 * most digits before an interruption.
 */
let burst = { digits: "", time: 0, field: /** @type {HTMLInputElement | null} */ (null), before: "", interrupted: 0 };

/** Takes a key before the page does. The Enter of a scanner submits no form and presses no button. @param {KeyboardEvent} event */
export function scan(event) {
  const { key, timeStamp: time } = event;
  const target = /** @type {HTMLInputElement} */ (event.target);
  if (key === "Shift") return;
  const isNext = !event.repeat && time - burst.time <= GAP;
  if (/^\d$/.test(key)) {
    // A field may be replaced when its text changes.
    if (isNext) burst = { ...burst, digits: burst.digits + key, time };
    else if (!event.repeat && time - burst.time <= INTERRUPTION) {
      burst = { ...burst, digits: key, time, interrupted: Math.max(burst.digits.length, burst.interrupted) };
    } else burst = { digits: key, time, field: target, before: target.value, interrupted: 0 };
    return;
  }
  const { digits, field, before, interrupted } = burst;
  burst.time = 0;
  const isSearch = target.matches("[data-search]");
  if (key === "Enter" && isNext && interrupted && Math.max(digits.length, interrupted) >= SHORTEST) {
    event.preventDefault();
    event.stopPropagation();
    change(field, isSearch ? "" : before);
    return toast("The scan was interrupted. Scan again.", "danger");
  }
  const chip = chipOf(digits);
  if (key !== "Enter" || !isNext || digits.length < SHORTEST || (isSearch && !chip)) return;
  event.preventDefault();
  event.stopPropagation();
  // Other bar codes stay where they were typed, such as the number of a receipt.
  if (!chip || (field?.name === "reference" && chip.length < 15)) return;
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
