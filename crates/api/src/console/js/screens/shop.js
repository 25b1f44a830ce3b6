// The shop: its name, its address, the text of receipts, and the currency of new prices.

import { get } from "../api.js";
import { showFailure, toast } from "../app.js";
import { button, el, fill } from "../dom.js";
import { fieldsOf } from "../fields.js";
import { formOf } from "../forms.js";
import { recordOf } from "../members.js";
import { DIGITS } from "../price.js";
import { shopHead } from "../print/receipt.js";
import { saver } from "../save.js";
import { can } from "../session.js";
import { takeSettings } from "../settings.js";
import { timeOf } from "../times.js";
import { watch } from "../unsaved.js";

/** @import { Backup, Mount, Result, Settings } from "../../types" */

const PATH = "store/settings";

const shop = recordOf({
  name: { label: "Name", max: 200, placeholder: "Such as Happy Paws" },
  address: { label: "Address", kind: "lines", max: 500, placeholder: "In several lines, with a phone number" },
  receiptText: { label: "Text at the end of receipts", kind: "lines", max: 1000, placeholder: "Such as a tax number, or a warranty" },
  currency: { label: "Currency of new prices", kind: "choice",
    choices: { "": "The one that was used last", ...Object.fromEntries([...DIGITS.keys()].sort().map((code) => [code, nameOf(code)])) } },
});

/** "EUR – Euro". */
function nameOf(code = "") {
  const name = new Intl.DisplayNames("en", { type: "currency" }).of(code);
  return name === code ? code : `${code} – ${name}`;
}

const PLACES = { folder: "on the server", s3: "off site" };

/**
 * Shows when the newest backups were made, if the service takes any.
 * @param {HTMLElement} line
 * @param {AbortSignal} signal
 */
async function showBackups(line, signal) {
  const response = await fetch(new URL("readyz", document.baseURI), { cache: "no-store", signal });
  /** @type {{ backups?: Backup[] }} */
  const { backups = [] } = await response.json();
  fill(line, ...backups.flatMap(({ destination, newestAt, isLate, consecutiveFailures }) => [
    el("span", `Last backup ${PLACES[destination]}: `, newestAt ? timeOf(newestAt) : "none yet",
      consecutiveFailures ? ". The last attempt failed: run petstore doctor on the server. " : isLate ? ". It is late: run petstore doctor on the server. " : ". "),
  ]));
}

/** @type {Mount} */
export function mount(root, _, end) {
  const canWrite = can("store:write");
  const fields = fieldsOf(shop.members);
  const backups = el("p.hint");
  const preview = el("section.paper-head", { "aria-label": "Receipt head" });
  let base = shop.noValues;
  /** @type {() => Promise<Result>} */
  let save;

  const paint = () => {
    const { name, address, receiptText } = fields.values;
    const isEmpty = !name.trim() && !address.trim();
    fill(preview, isEmpty ? el("p.hint", "The head of your receipts is shown here.") : shopHead({ name, address }),
      el("h2", "Receipt"), el("p.lines.receipt-text", { dir: "auto" }, receiptText));
  };
  /** @param {Settings} settings */
  const take = (settings) => {
    takeSettings(settings);
    fields.values = base = shop.valuesOf(settings);
    paint();
  };
  const discard = button("Discard", "", () => {
    fields.values = base;
    paint();
  });
  const form = formOf("Save", [fields.grid()], async () => {
    take((await save()).data);
    toast("Saved.");
  }, discard);
  form.addEventListener("input", paint);
  if (!canWrite) {
    for (const control of form.elements) /** @type {HTMLInputElement} */ (control).disabled = true;
    form.lastElementChild?.replaceWith(el("p.hint", "Only an owner can change this."));
  }
  const unwatch = watch(() => canWrite && shop.names.some((name) => fields.values[name] !== base[name]));
  end.addEventListener("abort", unwatch);

  const load = async () => {
    try {
      const read = await get(PATH, end);
      save = saver(shop, fields, PATH, read);
      take(read.data);
      fill(root, el("div.shop-settings", el("div.sheet", el("h2", "The shop"), el("p.hint", "What your receipts and cage cards show."), form, canWrite && backups), preview));
      // Without them, the screen is complete.
      if (canWrite) showBackups(backups, end).catch(() => {});
    } catch (error) {
      if (!end.aborted) showFailure(root, error, load);
    }
  };
  fill(root, el("p.more", "Loading…"));
  load();
  return {};
}
