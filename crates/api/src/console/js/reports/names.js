// Categories and people in reports. Those that were deleted have a number only.

import { names } from "../names.js";

/** @import { SalesGroup } from "../../types" */

/** @param {Pick<SalesGroup, "categoryId">} group */
export const categoryName = ({ categoryId }) =>
  (categoryId === undefined ? "Not recorded" : (names.categories.get(String(categoryId)) ?? `Category ${categoryId}`));

/** @param {Pick<SalesGroup, "keyId">} group */
export const personName = ({ keyId }) => (keyId === undefined ? "Not recorded" : (names.keys.get(String(keyId)) ?? `Key ${keyId}`));
