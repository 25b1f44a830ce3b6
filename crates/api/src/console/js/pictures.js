// Pictures of animals: fetched with the key while they are in view, a few at a time, and kept within bounds.

import { api, limited, sleep } from "./api.js";
import { retries } from "./app.js";
import { el } from "./dom.js";

/** @import { Pet, Photo } from "../types" */

/** The number of pictures that are loaded at the same time. */
const PARALLEL = 4;
/** The size of the pictures that are kept, in bytes. */
const MAX_KEPT = 16 * 2 ** 20;

/** @type {Map<string, { url: string, size: number }>} by path, the least recently seen first */
const kept = new Map();
let bytes = 0;
/** @type {Set<HTMLImageElement>} */
const inView = new Set();
/** @type {Set<string>} what is being loaded, or waits for the connection */
const pending = new Set();
let loading = 0;

const pathOf = (/** @type {HTMLImageElement} */ { dataset }) => dataset.picture ?? "";
/** @returns {NodeListOf<HTMLImageElement>} */
const imagesOf = (path = "") => document.querySelectorAll(`img[data-picture="${path}"]`);

// An image has an address exactly while its picture is kept, so that a row that is painted again looks the same.
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const image = /** @type {HTMLImageElement} */ (target);
    if (!isIntersecting) inView.delete(image);
    else inView.add(image);
    const found = isIntersecting && kept.get(pathOf(image));
    if (!found) continue;
    kept.delete(pathOf(image));
    kept.set(pathOf(image), found);
    if (image.src !== found.url) image.src = found.url;
  }
  loadInView();
}, { rootMargin: "200px" });

function loadInView() {
  for (const image of inView) {
    if (loading >= PARALLEL) return;
    const path = pathOf(image);
    if (!kept.has(path) && !pending.has(path)) load(path);
  }
}

async function load(path = "") {
  loading++;
  pending.add(path);
  try {
    const response = await limited(path, { cache: "default" });
    if (response.ok) keep(path, await response.blob());
    else if (response.status === 429 || response.status === 503) await sleep(1000 * (Number(response.headers.get("retry-after")) || 1));
    // It was deleted, unless it is in view again.
    else for (const image of imagesOf(path)) inView.delete(image);
    pending.delete(path);
  } catch {
    retries.add(() => (pending.delete(path), loadInView()));
    api.onConnection(false);
  }
  loading--;
  loadInView();
}

/** @param {string} path @param {Blob} picture */
function keep(path, picture) {
  const url = URL.createObjectURL(picture);
  kept.set(path, { url, size: picture.size });
  bytes += picture.size;
  for (const image of imagesOf(path)) image.src = url;
  const shown = new Set([...inView].map(pathOf));
  for (const [oldest, { url, size }] of kept) {
    if (bytes <= MAX_KEPT) return;
    if (shown.has(oldest)) continue;
    kept.delete(oldest);
    bytes -= size;
    for (const image of imagesOf(oldest)) image.removeAttribute("src");
    URL.revokeObjectURL(url);
  }
}

// With the digest, the browser keeps a picture, and never shows one of another store.
/** @param {number} petId @param {Photo} photo @param {string} size */
const addressOf = (petId, { id, digest }, size) => `pets/${petId}/photos/${id}?size=${size}&digest=${digest}`;

/** Loads a picture that will come into view. @param {number} petId @param {Photo} photo */
export async function preload(petId, photo, size = "thumb") {
  const path = addressOf(petId, photo, size);
  if (!kept.has(path) && !pending.has(path)) await load(path);
}

/** A picture of an animal, which is loaded when it comes into view. @param {number} petId @param {Photo} photo */
export function picture(petId, photo, size = "thumb", alt = "") {
  const path = addressOf(petId, photo, size);
  const image = el("img", { alt, "data-picture": path, src: kept.get(path)?.url, draggable: "false" });
  watcher.observe(image);
  return image;
}

/** The cover of an animal, or its initial. The name is beside it. @param {Pet} pet */
export const cover = ({ id, name, photos: [first] = [] }) =>
  el("span.photo", { "aria-hidden": "true", "data-initial": [...name.trim()][0]?.toUpperCase() }, first && picture(id, first));
