// The panel of an animal that was deleted: as it was, who deleted it, and its history.

import { animalDetails } from "../details.js";
import { closeLink, el, fill, nameOf } from "../dom.js";
import { historyOf } from "../history.js";
import { names } from "../names.js";
import { loadStyles } from "../styles.js";
import { minuteOf } from "../times.js";

/** @import { StoreEvent } from "../../types" */

await loadStyles("log.css");

/** @param {StoreEvent} deletion @param {() => void} restored is called when the deletion is undone */
export function deletedPanel({ time, keyid, data: pet }, restored) {
  const { id, name, categoryId } = pet;
  const end = new AbortController();
  const title = nameOf("h2", name, { tabindex: -1 });
  const meta = el("p.meta");
  const notice = el("div.notice.danger");
  const history = historyOf(`pets/${id}`, end.signal);
  const details = animalDetails(pet);
  const element = el("aside.panel", { "aria-label": "Deleted animal" }, title, meta, notice, el("h3", "Details"),
    details.length ? details : el("p.hint", "Nothing else was recorded."), el("h3", "History"), history.element, closeLink("animals"));

  const paint = () => {
    meta.textContent = `${names.category(categoryId)} · id ${id}`;
    fill(notice, el("span", `Deleted on ${minuteOf(time)} by ${names.who(keyid)}`));
  };
  paint();
  names.load([keyid]).then(paint, () => {});

  return {
    /** @type {number} */
    id,
    element,
    focus: () => title.focus(),
    rename: paint,
    close() {
      end.abort();
      element.remove();
    },
    /** @param {StoreEvent} event */
    onEvent(event) {
      const { type, subject, data } = event;
      if (subject === `pets/${id}` && type !== "pet.deleted") return restored();
      if (subject === `pets/${id}` || (type.startsWith("order.") && data.petId === id)) history.add(event);
    },
  };
}
