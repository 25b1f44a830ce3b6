// Events in words.

const STEPS = { "available pending": "reserved", "pending sold": "sold", "pending available": "released", "sold available": "returned" };
/** @type {Record<string, string>} */
const EVENTS = { "pet.created": "added", "pet.deleted": "deleted", "category.deleted": "deleted", "order.placed": "reserved", "order.completed": "sold", "order.cancelled": "reservation cancelled", "order.returned": "returned" };

/**
 * What happened to an animal, an order or a category, and who did it.
 * @param {import("./api.js").Event} event
 * @param {import("./api.js").Pet | undefined} before the animal or category before it, if that is known
 * @param {import("./names.js").Names} names
 */
export function describe({ type, data: after, keyid }, before, names) {
  const what = [];
  if (type === "order.cancelled" && !keyid) return "Reservation expired";
  if (EVENTS[type]) what.push(EVENTS[type]);
  else if (before) {
    if (before.name !== after.name) what.push(`renamed from “${before.name}”`);
    if (before.categoryId !== after.categoryId) what.push(`moved from ${names.category(before.categoryId)} to ${names.category(after.categoryId)}`);
    if (before.status === "pending" && before.status !== after.status && !keyid) return "Reservation expired";
    const step = `${before.status} ${after.status}`;
    if (before.status !== after.status) what.push(STEPS[/** @type {keyof STEPS} */ (step)] ?? (after.status ? `marked as ${after.status}` : "taken off sale"));
  }
  const text = what.join(", ") || (type === "category.updated" ? "named" : "changed");
  return `${text[0].toUpperCase()}${text.slice(1)} by ${names.who(keyid)}`;
}
