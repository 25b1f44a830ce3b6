// Photos on their way to the service, one after the other, so that they keep their order. They continue when their animal is not shown.

import { ApiError, randomId, repeat } from "../api.js";
import { message, retries, toast } from "../app.js";
import { key } from "../session.js";
import { shrink } from "./shrink.js";
import { withProgress } from "./transport.js";

/** @import { Photo, Upload } from "../../types" */

/** @typedef {{ changed(): void, added(photo: Photo): Promise<void> }} Panel what shows the uploads of an animal */

/** The types that the service takes. Other pictures, and larger ones, are converted if the browser can read them. */
const TYPES = ["image/jpeg", "image/png", "image/webp"];
const MAX_SIZE = 10 * 2 ** 20;
/** The statuses of responses to a picture of a kind that the service does not take, or only in another encoding. */
const REFUSED = [413, 415];
/** The longer side of a picture that is converted, in pixels. */
const SIDE = 3200;
/** The longer side of a preview, in pixels. */
const PREVIEW = 480;

/** @type {Upload[]} */
let uploads = [];
/** @type {Map<number, Panel>} by animal */
const panels = new Map();
let isRunning = false;
let connection = new AbortController();

/** @param {Upload} upload */
const isPending = ({ state }) => state !== "failed" && state !== "saved";

export const uploadsOf = (petId = 0) => uploads.filter(({ pet }) => pet.id === petId);

/**
 * Shows the uploads of an animal, until it is aborted.
 * @param {number} petId
 * @param {Panel} panel
 * @param {AbortSignal} end
 */
export function follow(petId, panel, end) {
  panels.set(petId, panel);
  end.addEventListener("abort", () => panels.get(petId) === panel && panels.delete(petId));
  panel.changed();
}

/** @param {Upload} upload @param {Partial<Upload>} change */
function update(upload, change) {
  Object.assign(upload, change);
  panels.get(upload.pet.id)?.changed();
}

/** @param {Upload} upload */
function drop(upload) {
  uploads = uploads.filter((other) => other !== upload);
  URL.revokeObjectURL(upload.preview);
  panels.get(upload.pet.id)?.changed();
}

/** Adds files to an animal. @param {Upload["pet"]} pet @param {Iterable<File>} files */
export function addFiles({ id, name }, files) {
  for (const file of files) {
    /** @type {Upload} */
    const upload = { id: randomId(), pet: { id, name }, name: file.name, file, state: "waiting",
      progress: 0, preview: "", problem: "", isConverted: false, canRetry: false };
    uploads.push(upload);
    preview(upload);
  }
  panels.get(id)?.changed();
  run();
}

let previews = Promise.resolve();
/** One at a time: a large picture takes much memory. @param {Upload} upload */
function preview(upload) {
  previews = previews.then(async () => {
    const small = await shrink(upload.file, PREVIEW);
    if (small && uploads.includes(upload)) update(upload, { preview: URL.createObjectURL(small) });
  });
}

/** Tries again what has failed, as the same request: it is not made twice. @param {Upload} upload */
export function retry(upload) {
  if (upload.state !== "failed" || !uploads.includes(upload)) return;
  update(upload, { state: "waiting", progress: 0, problem: "" });
  run();
}

export const dismiss = drop;

/** Drops what is not sent yet. */
export function cancel(petId = 0) {
  for (const upload of uploadsOf(petId).filter(({ state }) => state === "waiting")) drop(upload);
  if (uploadsOf(petId).some(isPending)) connection.abort();
}

async function run() {
  if (isRunning) return;
  isRunning = true;
  for (let next; (next = uploads.find(({ state }) => state === "waiting"));) await send(next);
  isRunning = false;
}

/** @param {Upload} upload */
async function send(upload) {
  const { id, pet, name } = upload;
  connection = new AbortController();
  update(upload, { state: "sending" });
  try {
    const transport = withProgress(await bytesOf(upload.file),
      (progress) => update(upload, { progress, state: "sending" }));
    const { data } = await repeat(`pets/${pet.id}/photos`, {
      method: "POST", signal: connection.signal,
      headers: { "Idempotency-Key": upload.isConverted ? `${id}-converted` : id, "Content-Type": "application/octet-stream" },
    }, undefined, (path, options) => transport(path, options).catch((error) => {
      update(upload, { state: "lost" });
      throw error;
    }));
    update(upload, { state: "saved" });
    Promise.resolve(panels.get(pet.id)?.added(data)).then(() => drop(upload));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === "aborted") return drop(upload);
    if (REFUSED.includes(error.status) && await convert(upload)) return send(upload);
    const problem = error.code === "too_many_photos" ? "An animal can have 20 photos. Delete one first." : message(error);
    update(upload, { state: "failed", problem, canRetry: !error.status || error.status >= 500 || error.status === 429 });
    if (error.code === "connection_lost") retries.add(() => retry(upload));
    if (!panels.has(pet.id)) toast(`${pet.name}, ${name}: ${problem}`, "danger");
  }
}

/** Converts a picture that the service refuses as it is, once. @param {Upload} upload */
async function convert(upload) {
  const converted = upload.isConverted ? null : await shrink(upload.file, SIDE, 0.9);
  if (!converted || !uploads.includes(upload)) return false;
  Object.assign(upload, { file: converted, isConverted: true });
  return true;
}

/** @param {Blob} file */
async function bytesOf(file) {
  const isTaken = TYPES.includes(file.type) && file.size <= MAX_SIZE;
  const converted = isTaken ? null : await shrink(file, SIDE, 0.9);
  try {
    return new Uint8Array(await (converted ?? file).arrayBuffer());
  } catch {
    throw new ApiError(400, "", "This file cannot be read. It may have been moved or changed.");
  }
}

// A person who has signed out is not asked.
addEventListener("beforeunload", (event) => key.id && uploads.some(isPending) && event.preventDefault());
