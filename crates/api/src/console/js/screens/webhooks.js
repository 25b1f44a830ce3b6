// Webhooks: their state, what could not be delivered, and tests.

import { go } from "../address.js";
import { get, getAll, send } from "../api.js";
import { actButton, showFailure, toast } from "../app.js";
import { confirm } from "../dialogs.js";
import { button, closeLink, el, empty, nameOf, pill, update } from "../dom.js";
import { ago, plural } from "../format.js";
import { liveList, newButton, table } from "../list.js";
import { names } from "../names.js";
import { can, canSee } from "../session.js";
import { loadStyles } from "../styles.js";
import { every, timeOf, when } from "../times.js";
import { replayDialog, rotateSecret, webhookDialog } from "../webhook-dialogs.js";
import { petOf, sentence } from "../words.js";

/** @import { Delivery, Mount, StoreEvent, Webhook } from "../../types" */

await loadStyles("log.css");

/** @type {Mount} */
export function mount(root, rest, end) {
  const canWrite = can("webhooks:write");
  /** @type {Map<string, StoreEvent | null>} events that were not delivered */
  const events = new Map();
  let isLoaded = false;
  let panel = el("aside");
  /** Of the webhook in the panel: what could not be delivered, and what came of a test. */
  let deliveries = /** @type {Delivery[] | null} */ (null);
  let result = el("div");

  const list = liveList(end, {
    key: (/** @type {Webhook} */ { id }) => id,
    row(webhook) {
      const { id, url, description, state, failingSince } = webhook;
      const href = `#/webhooks/${id}`;
      return el("tr", { class: id === Number(rest) && "selected", onclick: () => go(href) },
        el("td", nameOf("a", url, { href }), description && el("small.muted.block", description)),
        el("td", state === "enabled" && failingSince ? pill("retrying", "failing") : pill(state)),
        el("td.muted", progress(webhook)));
    },
    foot: (size) => (size ? plural(size, "webhook")
      : empty("No webhooks yet", el("p", "Add one, and your other programs learn of every change."))),
  });
  const split = el("div.split", el("section", { "aria-label": "List" },
    el("div.bar", el("p.hint", "Every change is sent to the URLs of other programs."),
      newButton(canWrite, "Add webhook", async () => webhookDialog(undefined, (webhook) => {
        list.take(webhook);
        go(`#/webhooks/${webhook.id}`);
      }))),
    table(["URL", "State", "Deliveries"], list.body), list.more));
  root.append(split);

  /** @param {Webhook} webhook */
  const progress = ({ state, disabledReason = "", failingSince, nextAttemptAt }) => {
    if (state === "disabled") return disabledReason.replaceAll("_", " ");
    if (!failingSince) return "no failures";
    return `failing since ${when(failingSince)}${nextAttemptAt ? `, next attempt ${when(nextAttemptAt)}` : ""}`;
  };
  /** @param {{ status?: number, error?: string }} attempt */
  const outcome = ({ status, error = "" }) => (status ? `response ${status}` : error.replaceAll("_", " "));

  const load = async () => {
    try {
      list.set(await getAll("webhooks"));
      if (!isLoaded) {
        isLoaded = true;
        return show(rest);
      }
      const webhook = list.get(Number(rest));
      if (!webhook) return;
      deliveries = (await get(`webhooks/${webhook.id}/deliveries?limit=100`)).data;
      await names.load([String(webhook.keyId)]);
      await loadEvents();
      paint();
    } catch (error) {
      if (!isLoaded) showFailure(list.more, error, load);
    }
  };

  const show = (id = "") => {
    rest = id;
    if (!isLoaded) return;
    panel.remove();
    [deliveries, result] = [null, el("div")];
    list.paint();
    paint();
    panel.querySelector("h2")?.focus();
    load();
  };

  const paint = () => {
    const webhook = list.get(Number(rest));
    if (!webhook) return;
    const { id, url, description, types, state, failingSince, createdAt, keyId } = webhook;
    const path = `webhooks/${id}`;
    const kind = state === "disabled" ? "danger" : failingSince ? "warn" : "ok";
    const set = async (/** @type {Webhook["state"]} */ state) => {
      await send("PATCH", path, { state });
      await load();
    };
    const now = el("aside.panel", { "aria-label": "Webhook" },
      nameOf("h2", url, { tabindex: -1 }),
      el("p.meta", description && `${description} · `, `added ${when(createdAt)} by ${names.who(String(keyId))}`),
      el("div", { class: `notice ${kind}` }, el("span", state), el("span", progress(webhook))),
      el("div.actions", canWrite && [
        actButton("Send a test", "primary", async () => {
          const { data } = await send("POST", `${path}/test`);
          result = el("div", { class: `notice ${data.delivered ? "ok" : "danger"}` },
            `${data.delivered ? "Delivered" : "Not delivered"}: ${outcome(data)}, ${data.durationMs} ms`);
          paint();
        }),
        state === "enabled"
          ? actButton("Disable", "", () => set("disabled"))
          : actButton("Enable", "", () => set("enabled")),
        button("Edit…", "", () => webhookDialog(list.get(id), changed), { "data-write": true, "data-edit": true }),
      ]),
      el("div", { role: "alert" }, result.cloneNode(true)),
      el("h3", "Failed deliveries"),
      el("ol.log", deliveries?.map((delivery) => failedDelivery(delivery, path))),
      el("p.hint", deliveries?.length === 0 && "None."),
      el("h3", "Sends"),
      el("p.hint", types.join(", ")),
      el("div.foot", canWrite && [
        actButton("Rotate secret…", "small", () => rotateSecret(list.get(id) ?? webhook)),
        button("Send again…", "small", () => replayDialog(list.get(id) ?? webhook, changed), { "data-write": true }),
      ], canWrite && actButton("Delete webhook…", "small danger quiet", async () => {
        if (!(await confirm("Delete this webhook?", `Nothing more is sent to ${url}.`, "Delete"))) return;
        await send("DELETE", path);
        toast("The webhook was deleted.");
        // Another one may be shown by now.
        if (rest === String(id)) go("#/webhooks");
      })),
      closeLink("webhooks"));
    if (panel.isConnected) return update(panel, now);
    panel = now;
    split.append(panel);
  };

  /** @param {Delivery} delivery */
  const failedDelivery = (delivery, path = "") => {
    const { eventId, state, attempts, lastAttemptAt, nextAttemptAt } = delivery;
    const event = events.get(eventId);
    return el("li",
      el("div", event && sentence(event), el("p.hint", pill(state), ` ${outcome(delivery)}, ${plural(attempts, "attempt")}, `,
        timeOf(lastAttemptAt, ago(lastAttemptAt)), nextAttemptAt && `; next ${when(nextAttemptAt)}`)),
      canWrite && actButton("Retry", "small", async () => {
        await send("POST", `${path}/deliveries/${eventId}/retry`);
        toast("The delivery is attempted again.");
        setTimeout(load, 1500);
      }));
  };

  /** Loads the events of failed deliveries. A page begins after an event, so the one before is found first. */
  const loadEvents = async () => {
    if (!["pet.", "order.", "key."].some(canSee)) return;
    const ids = deliveries?.map(({ eventId }) => eventId) ?? [];
    for (const id of ids) {
      if (events.has(id)) continue;
      const { data: [before] } = await get(`events?limit=1&sort=desc&after=${id}`).catch(() => ({ data: [] }));
      const { data } = await get(`events?limit=100${before ? `&after=${before.id}` : ""}`).catch(() => ({ data: [] }));
      events.set(id, null);
      for (const event of data) if (ids.includes(event.id)) events.set(event.id, event);
    }
    const known = ids.map((id) => events.get(id)).filter((event) => !!event);
    await names.load(known.map(({ keyid }) => keyid), known.map(petOf));
  };

  /** Shows a webhook as it is now. @param {Webhook} webhook */
  const changed = (webhook) => {
    list.take(webhook);
    paint();
    load();
  };

  load();
  every(10, () => document.hidden || load(), end);
  /** A change is delivered in a moment. */
  let soon = 0;
  return { show, onEvent: () => void (soon ||= setTimeout(() => ((soon = 0), end.aborted || load()), 1000)) };
}
