// The dialogs of webhooks: adding and editing one, its secret, and sending events again.

import { ApiError, get, send } from "./api.js";
import { toast } from "./app.js";
import { confirm, dialog } from "./dialogs.js";
import { button, el } from "./dom.js";
import { field, formDialog } from "./forms.js";
import { plural } from "./format.js";
import { postOnce } from "./once.js";
import { canSee } from "./session.js";

/** @import { Result, StoreEvent, Webhook } from "../types" */

const TYPES = [
  "pet.created", "pet.updated", "pet.deleted", "order.placed", "order.updated", "order.completed",
  "order.cancelled", "order.returned", "category.updated", "category.deleted", "key.created", "key.rotated", "key.revoked",
];
/** The number of events that are loaded at a time to find a point in time. */
const PAGE = 1000;
/** The number of times that they are loaded at most. */
const MAX_PAGES = 20;

/** Asks for the URL, the description and the types of events. @param {Webhook | undefined} webhook @param {(webhook: Webhook) => void} done */
export function webhookDialog(webhook, done) {
  const url = el("input", { name: "url", type: "url", required: true, placeholder: "https://…", value: webhook?.url });
  const description = el("input", { name: "description", maxlength: 200, value: webhook?.description });
  // A type that this key cannot see stays as it is.
  const boxes = TYPES.filter((type) => canSee(type) || webhook?.types.includes(type)).map((value) =>
    el("input", { type: "checkbox", value, checked: webhook ? webhook.types.includes(value) : true, disabled: !canSee(value) }));
  const post = postOnce();
  formDialog(webhook ? ["Edit webhook", "Save changes"] : ["Add webhook", "Add webhook"], [field("URL", url), field("Description", description),
    el("fieldset", el("legend", "Send"), boxes.map((box) => el("label.check", box, box.value)))], async () => {
    const types = boxes.filter(({ checked }) => checked).map(({ value }) => value);
    const body = { url: url.value, description: description.value || null, types };
    if (webhook) return done((await send("PATCH", `webhooks/${webhook.id}`, body)).data);
    const { secret, ...added } = (await post("webhooks", body)).data;
    done(added);
    showSecret("The webhook was added", secret);
  });
}

/** Gives a webhook another secret. @param {Webhook} webhook */
export async function rotateSecret({ id, url }) {
  const isWanted = await confirm("Rotate the secret?",
    `Deliveries to ${url} are signed with the new secret and, for 24 hours, with the old one as well.`, "Rotate");
  if (!isWanted) return;
  const { data } = await send("POST", `webhooks/${id}/rotate-secret`);
  showSecret("The new secret", data.secret);
}

function showSecret(title = "", secret = "") {
  const input = el("input", { readonly: true, value: secret, onfocus: () => input.select() });
  // `navigator.clipboard` exists only over HTTPS.
  const copy = () => {
    input.select();
    toast(document.execCommand("copy") ? "Copied." : "Copy the selected secret.");
  };
  const box = dialog(title,
    field("Secret", input, el("small", "Its receiver verifies signatures with it. It is not shown again.")),
    el("div.actions", button("Copy", "primary", copy), button("Done", "", () => box.close())));
  // A click beside it must not lose the secret.
  box.setAttribute("closedby", "closerequest");
}

/** Sends the events since a point in time again. @param {Webhook} webhook @param {(webhook: Webhook) => void} done */
export function replayDialog({ id, types }, done) {
  const hourAgo = new Date(Date.now() - 3_600_000);
  // As the input has it: local time, without seconds.
  const local = new Date(hourAgo.getTime() - hourAgo.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  const since = el("input", { name: "after", type: "datetime-local", required: true, value: local });
  formDialog(["Send events again", "Send again"], [
    field("Everything since", since, el("small", "The receiver gets these events once more, and must ignore those that it knows.")),
  ], async () => {
    const { after, count } = await findEvent(new Date(since.value), types);
    done((await send("POST", `webhooks/${id}/replay`, { after })).data);
    toast(`${plural(count, "event")} ${count === 1 ? "is" : "are"} sent again.`);
  });
}

/** The last event before a time, and the number of later ones of these types. @param {Date} time @param {string[]} types */
async function findEvent(time, types) {
  let query = `?sort=desc&limit=${PAGE}`;
  let count = 0;
  for (let page = 0; page < MAX_PAGES; page++) {
    /** @type {Result} */
    const { data, next } = await get(`events${query}`);
    for (const event of /** @type {StoreEvent[]} */ (data)) {
      if (new Date(event.time) < time) return { after: event.id, count };
      if (types.includes(event.type)) count++;
    }
    // A position is an event, so the first one of all cannot be sent again.
    if (!next) return { after: data.at(-1)?.id ?? "now", count: Math.max(0, count - 1) };
    query = next;
  }
  throw new ApiError(400, "", `after: More than ${(PAGE * MAX_PAGES).toLocaleString("en")} events have happened since then. Choose a later time.`);
}
