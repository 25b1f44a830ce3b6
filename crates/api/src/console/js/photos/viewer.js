// The viewer: one photo at a time, as large as the window allows.

import { act } from "../app.js";
import { button, byId, el, fill } from "../dom.js";
import { picture, preload } from "../pictures.js";
import { loadStyles } from "../styles.js";
import { onSwipe } from "./swipe.js";

/** @import { Photo } from "../../types" */

await loadStyles("viewer.css");

/**
 * @typedef {object} ViewerOptions
 * @property {number} petId
 * @property {string} name of the animal
 * @property {Photo[]} photos
 * @property {number} at the photo that is shown first
 * @property {boolean} canWrite
 * @property {(id: number, at: number) => Promise<void>} move
 * @property {(id: number) => Promise<void>} remove
 * @property {(last: number) => void} closed
 */

/** @param {ViewerOptions} options */
export function openViewer({ petId, name, photos, at: id, canWrite, move, remove, closed }) {
  const stage = el("div.stage");
  const place = el("span.digits", { role: "status" });
  const back = button("", "round back", () => step(-1), { "aria-label": "Previous photo" }, "‹");
  const forward = button("", "round forward", () => step(1), { "aria-label": "Next photo" }, "›");
  const close = button("", "round", () => box.close(), { "aria-label": "Close", autofocus: true }, "×");
  const lead = button("Make it the cover", "small", () => act(lead, () => move(id, 0)), { "data-write": true });
  const erase = button("Delete", "small danger", () => act(erase, () => remove(id)), { "data-write": true });
  const box = el("dialog.viewer", { "aria-label": `Photos of ${name}` },
    el("div.top", el("b.clamp", name), place, close), stage, back, forward, canWrite && el("div.foot-bar", lead, erase));
  const at = () => photos.findIndex((photo) => photo.id === id);

  const show = (direction = 0) => {
    const photo = photos[at()];
    const { width, height } = photo;
    const text = `Photo ${at() + 1} of ${photos.length} of ${name}`;
    if (stage.dataset.shown === String(id)) stage.querySelector(".whole")?.setAttribute("alt", text);
    else {
      const whole = Object.assign(picture(petId, photo, "full", text), { className: "whole" });
      const frame = el("div", { class: `frame ${["from-left", "", "from-right"][Math.sign(direction) + 1]}` }, picture(petId, photo), whole);
      frame.style.setProperty("--width", String(width));
      frame.style.setProperty("--height", String(height));
      fill(stage, frame);
      stage.dataset.shown = String(id);
    }
    const previous = photos[at() - 1];
    const next = photos[at() + 1];
    place.textContent = `${at() + 1} of ${photos.length}`;
    const focused = document.activeElement;
    back.hidden = !previous;
    forward.hidden = !next;
    lead.hidden = !previous;
    if (focused instanceof HTMLElement && box.contains(focused) && focused.hidden) close.focus();
    // The one that is likely to be wanted next.
    const likely = direction < 0 ? previous : next;
    if (likely) preload(petId, likely, "full");
  };

  const step = (direction = 0) => {
    const next = photos[at() + direction];
    if (!next) return;
    id = next.id;
    show(direction);
  };

  box.addEventListener("keydown", (event) => {
    const { key, repeat } = event;
    if (key === "ArrowLeft") step(-1);
    else if (key === "ArrowRight") step(1);
    else if (key === "Home") step(-at());
    else if (key === "End") step(photos.length - 1 - at());
    else if (key === "Delete" && canWrite && !repeat) erase.click();
    else return;
    event.preventDefault();
  });
  stage.addEventListener("click", ({ target }) => target === stage && box.close());
  onSwipe(stage, step);
  // Messages are shown above the photo.
  const toasts = byId("toasts");
  box.append(toasts);
  box.addEventListener("close", () => {
    document.body.append(toasts);
    box.remove();
    closed(id);
  });
  document.body.append(box);
  show();
  box.showModal();

  return {
    close: () => box.close(),
    /** Shows what has changed. @param {Photo[]} now */
    update(now) {
      const before = at();
      photos = now;
      if (!photos.length) return box.close();
      if (at() < 0) id = photos[Math.min(before, photos.length - 1)].id;
      show();
    },
  };
}
