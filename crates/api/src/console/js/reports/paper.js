// The head of a report, on screen and on paper, where the shop is named, too.

import { act } from "../app.js";
import { button, el, fill } from "../dom.js";
import { currentSettings } from "../settings.js";
import { periodName } from "./period.js";

/** @import { Child, Days, Settings } from "../../types" */

/** @type {Settings} */
let shop = {};

/** Loads the name and the address of the shop, if it has any. */
export async function loadShop() {
  shop = await currentSettings().catch(() => shop);
  for (const place of document.querySelectorAll(".report-head .shop")) fillShop(place);
}

/** @param {Element} place */
const fillShop = (place) => fill(place, shop.name && el("b", shop.name), shop.address && el("span.lines", shop.address));

/** @param {string} title @param {Days} days @param {...Child} more */
export function reportHead(title, days, ...more) {
  const place = el("p.shop");
  fillShop(place);
  const printButton = button("Print", "small", () => act(printButton, async () => {
    await loadShop();
    print();
  }));
  return el("div.report-head", place, el("h2", el("span.on-paper", `${title}, `), periodName(days)), ...more, printButton);
}
