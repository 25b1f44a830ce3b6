// The rights of people: roles, and scopes in words.

import { can } from "./session.js";

const STAFF = ["pets:read", "pets:write", "orders:read", "orders:write"];
/** With what they are about. */
const RESOURCES = { pets: "animals", orders: "orders", webhooks: "webhooks", keys: "people", store: "the shop" };
/** Everyone sees the shop. */
export const SCOPES = Object.keys(RESOURCES).flatMap((name) => (name === "store" ? [`${name}:write`] : [`${name}:read`, `${name}:write`]));

export const ROLES = [
  { name: "Owner", text: "Everything, and lets people in", scopes: SCOPES },
  { name: "Staff", text: "Adds, changes and sells animals", scopes: STAFF },
  { name: "Read only", text: "Sees animals and orders", scopes: ["pets:read", "orders:read"] },
];

/** @param {string[]} scopes */
export const roleOf = (scopes) =>
  ROLES.find((role) => role.scopes.length === scopes.length && role.scopes.every((scope) => scopes.includes(scope)));

/** "see animals", "manage people". */
export function scopeText(scope = "") {
  const [name, action] = scope.split(":");
  const verb = action === "read" ? "see" : name === "keys" ? "manage" : "change";
  return `${verb} ${RESOURCES[/** @type {keyof RESOURCES} */ (name)] ?? name}`;
}

/** The role, or the scopes: "Staff", "see animals, see and change orders". @param {string[]} scopes */
export function describeScopes(scopes) {
  const role = roleOf(scopes);
  if (role) return role.name;
  const all = Map.groupBy(scopes, (scope) => scope.split(":")[0]);
  return [...all.values()].map((some) => (some.length > 1 ? `see and ${scopeText(some[1])}` : scopeText(some[0])))
    .join(", ") || "nothing";
}

/** A key can give only the scopes that it has. @param {string[]} scopes */
export const canGrant = (scopes) => scopes.every(can);
