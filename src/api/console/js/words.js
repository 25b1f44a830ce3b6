// Events in words.

const STEPS = { "available pending": "reserved", "pending sold": "sold", "pending available": "released", "sold available": "returned" };

/**
 * What happened to an animal, and who did it.
 * @param {import("./api.js").Event} event
 * @param {import("./api.js").Pet | undefined} before the animal before it, if that is known
 * @param {import("./names.js").Names} names
 */
export function describe({ type, data: after, keyid }, before, names) {
  const what = [];
  if (type === "pet.created") what.push("added");
  else if (type === "pet.deleted") what.push("deleted");
  else if (before) {
    if (before.name !== after.name) what.push(`renamed from “${before.name}”`);
    if (before.categoryId !== after.categoryId) what.push(`moved from ${names.category(before.categoryId)} to ${names.category(after.categoryId)}`);
    if (before.status === "pending" && before.status !== after.status && !keyid) return "Reservation expired";
    const step = `${before.status} ${after.status}`;
    if (before.status !== after.status) what.push(STEPS[/** @type {keyof STEPS} */ (step)] ?? (after.status ? `marked as ${after.status}` : "taken off sale"));
  }
  const text = what.join(", ") || "changed";
  return `${text[0].toUpperCase()}${text.slice(1)} by ${names.who(keyid)}`;
}
