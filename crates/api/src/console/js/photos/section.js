// The photos in the panel of an animal: the cover, all of them in their order, and adding more.

import { ApiError } from "../api.js";
import { act, load, message, toast } from "../app.js";
import { button, el, fill } from "../dom.js";
import { plural } from "../format.js";
import { picture, preload } from "../pictures.js";
import { can } from "../session.js";
import { draw } from "../svg.js";
import { dropFiles } from "./drop.js";
import { deletePhoto, movePhoto } from "./arrange.js";
import { reorder } from "./reorder.js";

/** @import { Child, Pet, Photo, Upload } from "../../types" */

/** The number of photos that an animal can have. */
const MAX_PHOTOS = 20;
/** The types that the service takes. A phone converts other pictures. */
const ACCEPTED = "image/jpeg,image/png,image/webp";
const CAMERA = "M4 8h3.5l1.5-3h6l1.5 3H20v11H4zM12 10a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7z";
const PLUS = "M12 5v14M5 12h14";

/** @type {Promise<typeof import("./uploads.js")> | undefined} loaded with the first upload, which continues when its panel is closed */
let uploading;

const icon = (path = "") => {
  const drawing = draw("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: path }));
  return /** @type {SVGElement} */ (drawing);
};

/** @param {string} label @param {() => void} onclick @param {SVGElement} drawing */
const tileButton = (label, onclick, drawing) =>
  el("button.tile", { type: "button", "aria-label": label, title: label, "data-write": true, onclick }, drawing);

/**
 * @param {() => Pet} current
 * @param {(photos: Photo[]) => void} changed
 * @param {HTMLElement} panel where files can be dropped
 * @param {AbortSignal} end
 */
export function photoSection(current, changed, panel, end) {
  const canWrite = can("pets:write");
  const { id: petId } = current();
  /** @type {import("./uploads.js") | undefined} */
  let uploads;
  /** @type {ReturnType<import("./viewer.js").openViewer> | undefined} */
  let viewer;
  /** @type {Map<string, HTMLElement>} by photo or upload */
  const tiles = new Map();
  /** The order while it is being changed. @type {number[] | null} */
  let wanted = null;
  /** The photos that are shown. @type {Set<number>} */
  let shown = new Set(current().photos?.map(({ id }) => id));

  /** In the order that a person wants, without one that an upload shows still. */
  const photos = () => {
    const { photos = [] } = current();
    const place = (/** @type {Photo} */ { id }) => (wanted?.includes(id) ? wanted.indexOf(id) : photos.length);
    const all = wanted ? photos.toSorted((a, b) => place(a) - place(b)) : photos;
    const added = pending().some(({ state }) => state !== "waiting") && all.findLast(({ id }) => !shown.has(id));
    return added ? all.filter((photo) => photo !== added) : all;
  };
  const all = () => uploads?.uploadsOf(petId) ?? [];
  const pending = () => all().filter(({ state }) => state !== "failed");

  const front = el("div.cover");
  const list = el("ul.tiles", { "aria-label": "Photos" });
  const status = el("p.hint", { role: "status" });
  const cancel = button("Cancel", "small quiet", () => uploads?.cancel(petId));
  const progress = el("div.bar.sending", status, cancel);
  const failures = el("ul.failures", { "aria-live": "polite" });
  const spoken = el("p.unseen", { role: "status" });
  const element = el("section.photos", { "aria-label": "Photos" }, front, list, progress, failures, spoken);

  const chooser = (/** @type {object} */ more) => {
    const input = el("input", { type: "file", accept: ACCEPTED, hidden: true, ...more, onchange() {
      add([...(input.files ?? [])]);
      input.value = "";
    } });
    element.append(input);
    return () => input.click();
  };
  const choose = chooser({ multiple: true });
  const take = chooser({ capture: "environment" });
  const invitation = el("div.none",
    button("", "small touch", take, { "data-write": true }, icon(CAMERA), "Take a picture"),
    button("", "small", choose, { "data-write": true }, icon(PLUS), "Add photos"),
    el("p.hint", "or drop them here"));
  const adders = [
    el("li.touch", tileButton("Take a picture", take, icon(CAMERA))),
    el("li", tileButton("Add photos", choose, icon(PLUS))),
  ];

  /** @param {File[]} files */
  const add = async (files) => {
    if (!files.length) return;
    try {
      const module = await (uploading ??= load(import("./uploads.js")));
      follow(module);
      module.addFiles({ id: petId, name: current().name }, files);
    } catch (error) {
      uploading = undefined;
      report(error);
    }
  };
  /** @param {import("./uploads.js")} module */
  const follow = (module) => {
    if (uploads || end.aborted) return;
    uploads = module;
    module.follow(petId, { changed: paint, async added(photo) {
      await preload(petId, photo);
      shown.add(photo.id);
      const { photos = [] } = current();
      if (!photos.some(({ id }) => id === photo.id)) changed([...photos, photo]);
    } }, end);
  };
  /** @param {unknown} error */
  const report = (error) => {
    if (!(error instanceof ApiError)) throw error;
    toast(message(error), "danger");
  };

  /** @param {number} id */
  const nameOf = (id) => {
    const ids = photos().map((photo) => photo.id);
    return `Photo ${ids.indexOf(id) + 1} of ${ids.length} of ${current().name}`;
  };
  /** @param {number} id @param {HTMLElement} control */
  const view = (id, control) => act(control, async () => {
    const { openViewer } = await load(import("./viewer.js"));
    viewer = openViewer({ petId, name: current().name, photos: photos(), at: id, canWrite, move, remove, closed(last) {
      viewer = undefined;
      (tiles.get(String(last))?.querySelector("button") ?? front.querySelector("button"))?.focus();
    } });
  });

  /** @param {number} id @param {number} at */
  const move = async (id, at) => {
    const ids = photos().map((photo) => photo.id);
    wanted = ids.filter((other) => other !== id).toSpliced(at, 0, id);
    const mine = wanted;
    paint();
    spoken.textContent = at ? `${nameOf(id)}.` : `${nameOf(id)}, the cover.`;
    try {
      const now = await movePhoto(petId, id, at);
      if (wanted === mine) wanted = null;
      changed(now);
    } catch (error) {
      if (wanted === mine) wanted = null;
      paint();
      report(error);
    }
  };
  /** @param {number} id */
  const remove = async (id) => {
    await deletePhoto(current(), id, changed);
    const { photos = [] } = current();
    changed(photos.filter((photo) => photo.id !== id));
  };

  /** @param {KeyboardEvent} event @param {number} id */
  const onKey = (event, id) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const ids = photos().map((photo) => photo.id);
    const at = ids.indexOf(id);
    if (event.key === "Delete" && canWrite && !event.repeat) {
      const neighbour = ids[at + 1] ?? ids[at - 1];
      act(/** @type {HTMLElement} */ (event.currentTarget), () => remove(id)).then(() => {
        if (document.activeElement === document.body) (tiles.get(String(neighbour))?.querySelector("button") ?? panel.querySelector("h2"))?.focus();
      });
    } else if (step && event.shiftKey && canWrite) {
      if (ids[at + step]) move(id, at + step);
    } else if (step) tiles.get(String(ids[at + step]))?.querySelector("button")?.focus();
    else return;
    event.preventDefault();
  };

  /** @param {Photo} photo */
  const photoTile = (photo) => {
    const { id } = photo;
    const image = picture(petId, photo);
    /** @type {HTMLButtonElement} */
    const control = el("button.photo", { type: "button", onclick: () => view(id, control),
      onkeydown: (/** @type {KeyboardEvent} */ event) => onKey(event, id),
      title: canWrite && "Drag to move it, or press Shift and an arrow key; Delete removes it",
      "aria-keyshortcuts": canWrite && "Shift+ArrowLeft Shift+ArrowRight Delete" }, image);
    return el("li", { "data-photo": id }, control);
  };
  /** @param {Upload} upload */
  const uploadTile = ({ name }) => el("li.uploading", el("span.photo", el("progress", { max: 1, "aria-label": `Uploading ${name}` })));

  /** @param {HTMLElement} tile @param {Upload} upload */
  const showProgress = (tile, { preview, progress }) => {
    const frame = /** @type {HTMLElement} */ (tile.firstElementChild);
    const bar = /** @type {HTMLProgressElement} */ (frame.querySelector("progress"));
    if (preview && !frame.querySelector("img")) frame.prepend(el("img", { src: preview, alt: "" }));
    bar.value = progress;
  };

  /** @param {Upload} upload */
  const failure = (upload) => el("li.notice.danger",
    el("span", el("b", upload.name), ` ${upload.problem}`),
    el("span.steps", upload.canRetry && button("Try again", "small", () => uploads?.retry(upload)),
      button("×", "small quiet", () => uploads?.dismiss(upload), { "aria-label": `Dismiss ${upload.name}`, title: "Dismiss" })));

  /** Puts the children of a list in order, and moves only those that are not in their place. @param {HTMLElement[]} wanted */
  const arrange = (wanted) => {
    const focused = /** @type {HTMLElement | null} */ (list.contains(document.activeElement) ? document.activeElement : null);
    for (const child of [...list.children]) if (!wanted.includes(/** @type {HTMLElement} */ (child))) child.remove();
    for (const [at, child] of wanted.entries()) if (list.children[at] !== child) list.insertBefore(child, list.children[at]);
    if (focused?.isConnected) focused.focus();
  };

  const paintFront = () => {
    const [first] = photos();
    const [upload] = pending();
    const now = first ? `${first.id}` : upload?.preview ?? "";
    if (first) {
      const image = front.querySelector(".whole");
      if (image) image.setAttribute("alt", nameOf(first.id));
      if (front.dataset.shown === now) return;
      /** @type {HTMLButtonElement} */
      const control = el("button.photo", { type: "button", onclick: () => view(photos()[0].id, control) },
        picture(petId, first), Object.assign(picture(petId, first, "full", nameOf(first.id)), { className: "whole" }));
      const hadFocus = front.contains(document.activeElement);
      fill(front, control);
      if (hadFocus) control.focus();
    } else if (front.dataset.shown !== now || !front.firstChild) {
      fill(front, upload ? el("div.photo", upload.preview && el("img", { src: upload.preview, alt: "" })) : canWrite && invitation);
    }
    front.dataset.shown = now;
  };

  const paint = () => {
    const some = photos();
    const waiting = pending();
    const keys = new Map([...some.map((photo) => /** @type {const} */ ([String(photo.id), () => photoTile(photo)])),
      ...waiting.map((upload) => /** @type {const} */ ([upload.id, () => uploadTile(upload)]))]);
    for (const key of tiles.keys()) if (!keys.has(key)) tiles.delete(key);
    for (const [key, make] of keys) if (!tiles.has(key)) tiles.set(key, make());
    for (const { id } of some) tiles.get(String(id))?.querySelector("img")?.setAttribute("alt", nameOf(id));
    for (const upload of waiting) showProgress(/** @type {HTMLElement} */ (tiles.get(upload.id)), upload);
    shown = new Set(some.map(({ id }) => id));
    const isFull = some.length + waiting.length >= MAX_PHOTOS;
    arrange([...[...keys.keys()].map((key) => /** @type {HTMLElement} */ (tiles.get(key))), ...(canWrite && keys.size && !isFull ? adders : [])]);
    list.hidden = !keys.size;
    element.hidden = !keys.size && !canWrite;
    const text = waiting.some(({ state }) => state === "lost")
      ? "The connection was lost. Uploading continues when it is back."
      : waiting.length ? `Uploading ${plural(waiting.length, "photo")}…` : "";
    if (status.textContent !== text) status.textContent = text;
    progress.hidden = !waiting.length;
    const failed = all().filter(({ state }) => state === "failed");
    if (failed.length || failures.firstChild) fill(failures, failed.map(failure));
    paintFront();
    viewer?.update(some);
  };

  if (canWrite) {
    dropFiles(panel, add, end);
    reorder(list, move);
    uploading?.then(follow, () => {});
  }
  end.addEventListener("abort", () => viewer?.close());
  paint();
  return { element, paint };
}
