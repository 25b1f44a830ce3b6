// Events in words.

/** @import { Event, Pet } from "./api.js" */
/** @import { Names } from "./names.js" */

/** @param {Pet["status"]} status */
export const statusWord = (status) => status ?? "no status";

/**
 * What happened to an animal, and who did it.
 * @param {Event} event
 * @param {Pet | undefined} before the animal before the event, if it is known
 * @param {Names} names
 */
export function describe(event, before, names) {
  const by = ` by ${names.who(event.keyid)}`;
  if (event.type === "pet.created") return `Added${by}`;
  if (event.type === "pet.deleted") return `Deleted${by}`;
  /** @type {Pet} */
  const after = event.data;
  if (!before) return `Changed${by}`;
  const changes = [];
  if (before.name !== after.name) changes.push(`renamed from “${before.name}”`);
  if (before.categoryId !== after.categoryId) changes.push(`moved from ${names.category(before.categoryId)} to ${names.category(after.categoryId)}`);
  if (before.status !== after.status) {
    if (before.status === "pending" && !event.keyid) return "Reservation expired";
    const change = `${before.status} ${after.status}`;
    changes.push({
      "available pending": "reserved",
      "pending sold": "sold",
      "pending available": "released",
      "sold available": "returned",
    }[change] ?? (after.status ? `marked as ${after.status}` : "taken off sale"));
  }
  const text = changes.join(", ") || "changed";
  return text[0].toUpperCase() + text.slice(1) + by;
}
