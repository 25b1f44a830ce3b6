// The settings of the shop, which papers and prices need.

import { get } from "./api.js";
import { can } from "./session.js";
import { setShopCurrency } from "./typed-price.js";

/** @import { Settings } from "../types" */

/** @type {Promise<Settings> | undefined} */
let loaded;

/** Loads them once. */
export const shopSettings = () => (loaded ??= load().catch((error) => {
  loaded = undefined;
  throw error;
}));

const load = async () => takeSettings(can("pets:read") || can("orders:read") ? (await get("store/settings")).data : {});

/** Reads them again: another browser may have changed them, and a paper stays. Without a connection, returns those from before. */
export async function currentSettings() {
  const before = loaded;
  loaded = undefined;
  return shopSettings().catch((error) => {
    if (!before || error.code !== "connection_lost") throw error;
    return (loaded = before);
  });
}

/** Takes the settings as they are now. @param {Settings} settings */
export function takeSettings(settings) {
  setShopCurrency(settings.currency);
  loaded = Promise.resolve(settings);
  return settings;
}
