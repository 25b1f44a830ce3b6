// Webhooks: their state, what could not be delivered, and tests.

import { confirm, dialog, message, toast } from "../app.js";
import { button, el, field, fill } from "../dom.js";
import { ago, exactly, plural, when } from "../format.js";
import { arrows, newButton, table } from "../list.js";

/**
 * @typedef {{ id: number, url: string, types: string[], description?: string, state: "enabled" | "disabled", disabledReason?: string,
 *   keyId: number, createdAt: string, position: string, failingSince?: string, nextAttemptAt?: string }} Webhook
 * @typedef {{ eventId: string, state: "retrying" | "failed", attempts: number, lastAttemptAt: string, status?: number, error: string, nextAttemptAt?: string }} Delivery
 */

const REFRESH = 10_000;
/** Deliveries take a moment. */
const BEHIND = 15_000;
const TYPES = { pet: ["created", "updated", "deleted"], order: ["placed", "completed", "cancelled", "returned"], category: ["updated", "deleted"] };

/** @param {{ status?: number, error?: string }} attempt */
const reason = ({ status, error = "" }) => (status ? `response ${status}` : error.replaceAll("_", " "));

/** @type {import("../app.js").Mount} */
export function webhooks(root, app, rest) {
  const { api, names } = app;
  const canWrite = app.can("webhooks:write");
  /** @type {Webhook[]} */
  let all = [];
  /** @type {Map<number, string>} since when events wait, if they do */
  const waiting = new Map();
  let chosen = 0;
  let loaded = false;
  /** Counts what was shown in the panel: only the last is still wanted. */
  let turn = 0;
  let refresh = () => {};
  const body = el("tbody");
  const sheet = table(["URL", "State", "Deliveries"], body);
  const more = el("div", { class: "more", role: "status" });
  const panel = el("aside", { class: "panel", "aria-label": "Webhook" });
  const split = el("div", { class: "split" }, el("section", { "aria-label": "List" },
    el("div", { class: "bar" }, el("p", { class: "hint" }, "Every change is sent to the URLs of other programs."),
      newButton(canWrite, "Add webhook", () => create())),
    sheet, more));
  root.append(split);

  /** @param {Webhook} webhook */
  const pill = ({ state, failingSince }) => el("span", { class: `pill ${state === "enabled" && failingSince ? "retrying" : state}` }, state === "enabled" && failingSince ? "failing" : state);

  /** @param {Webhook} webhook */
  const progress = ({ id, state, disabledReason = "", failingSince, nextAttemptAt }) =>
    state === "disabled" ? disabledReason.replaceAll("_", " ")
    : failingSince ? `failing since ${when(failingSince)}${nextAttemptAt ? `, next attempt ${when(nextAttemptAt)}` : ""}`
    : waiting.get(id) ? `behind: events wait since ${when(waiting.get(id) ?? "")}` : "up to date";

  const paint = () => {
    sheet.hidden = !all.length;
    const focused = document.activeElement?.getAttribute("href");
    fill(body, ...all.map((webhook) => el("tr", { class: webhook.id === chosen && "selected", onclick: () => (location.hash = `#/webhooks/${webhook.id}`) },
      el("td", null, el("a", { href: `#/webhooks/${webhook.id}` }, webhook.url), webhook.description && el("small", { class: "muted block" }, webhook.description)),
      el("td", null, pill(webhook)), el("td", { class: "muted" }, progress(webhook)))));
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(`[href="${focused}"]`))?.focus();
    fill(more, all.length ? plural(all.length, "webhook") : el("div", { class: "empty" }, el("h2", null, "No webhooks yet"), el("p", null, "Add one, and your other programs learn of every change.")));
  };

  const load = async () => {
    try {
      const found = [];
      for (let query = /** @type {string | null} */ ("?limit=100"); query;) {
        const page = /** @type {import("../api.js").Result} */ (await api.get(`webhooks${query}`));
        found.push(...page.data);
        query = page.next;
      }
      all = found;
      paint();
      if (!loaded) {
        loaded = true;
        show(rest);
      }
      for (const { id, position, types, state } of all) {
        if (state === "disabled" || !types.every((type) => app.can(type.startsWith("order.") ? "orders:read" : "pets:read"))) continue;
        const { data } = await api.get(`events?limit=1&after=${position}&types=${types}`).catch(() => ({ data: [] }));
        waiting.set(id, data[0] && Date.now() - Date.parse(data[0].time) > BEHIND ? data[0].time : "");
      }
      paint();
      refresh();
    } catch (error) {
      if (!loaded) app.failed(more, error, load);
    }
  };

  /** @param {string} id */
  const show = async (id) => {
    rest = id;
    if (!loaded) return;
    chosen = Number(id);
    const mine = ++turn;
    const webhook = all.find((webhook) => webhook.id === chosen);
    split.classList.toggle("open", !!webhook);
    paint();
    refresh = () => {};
    if (!webhook) return panel.remove();
    const { url, description, types, state, keyId, createdAt } = webhook;
    const result = el("div", { role: "status" });
    const notice = el("div");
    const failed = el("div");
    /** @param {object} change */
    const set = async (change) => {
      await api.send("PATCH", `webhooks/${chosen}`, change);
      await load();
      show(id);
    };
    const heading = el("h2", { tabindex: -1 }, url);
    await names.loadKeys([String(keyId)]);
    if (mine !== turn) return;
    fill(panel, heading, el("p", { class: "meta" }, description && `${description} · `, `added ${when(createdAt)} by ${names.who(String(keyId))}`),
      notice,
      canWrite && el("div", { class: "actions" },
        app.button("Send a test", "primary", async () => {
          fill(result);
          const { data } = await api.send("POST", `webhooks/${id}/test`);
          fill(result, el("p", { class: `notice ${data.delivered ? "ok" : "danger"}` }, `${data.delivered ? "Delivered" : "Not delivered"}: ${reason(data)}, ${data.durationMs} ms`));
        }),
        state === "enabled" ? app.button("Disable", "", () => set({ state: "disabled" })) : app.button("Enable", "", () => set({ state: "enabled" }))),
      result, el("h3", null, "Failed deliveries"), failed,
      el("h3", null, "Sends"), el("p", { class: "hint" }, types.join(", ")),
      el("div", { class: "foot" }, el("span"), canWrite && app.button("Delete webhook…", "small danger quiet", async () => {
        if (!(await confirm("Delete this webhook?", `Nothing more is sent to ${url}.`, "Delete"))) return;
        await api.send("DELETE", `webhooks/${id}`);
        toast("The webhook was deleted.");
        location.hash = "#/webhooks";
        load();
      })),
      el("a", { class: "close", href: "#/webhooks", "aria-label": "Close" }, "×"));
    split.append(panel);
    heading.focus();

    let shown = "";
    const loadFailed = async () => {
      /** @type {Delivery[]} */
      const deliveries = (await api.get(`webhooks/${id}/deliveries?limit=100`)).data;
      if (shown === (shown = JSON.stringify(deliveries))) return;
      fill(failed, deliveries.length ? el("ol", { class: "log" }, ...deliveries.map((delivery) => {
        const { eventId, state, attempts, lastAttemptAt, nextAttemptAt } = delivery;
        return el("li", null, el("span", null, el("span", { class: `pill ${state}` }, state), ` ${reason(delivery)}, ${plural(attempts, "attempt")}, `,
          el("time", { title: exactly(lastAttemptAt) }, ago(lastAttemptAt)), nextAttemptAt && `; next ${when(nextAttemptAt)}`),
        canWrite && app.button("Retry", "small", async () => {
          await api.send("POST", `webhooks/${id}/deliveries/${eventId}/retry`);
          toast("The delivery is attempted again.");
          setTimeout(load, 1500);
        }));
      })) : el("p", { class: "hint" }, "None."));
    };
    refresh = () => {
      const now = all.find((webhook) => webhook.id === chosen) ?? webhook;
      notice.className = `notice ${now.state === "disabled" ? "danger" : now.failingSince ? "warn" : "ok"}`;
      fill(notice, el("span", null, now.state), el("span", null, progress(now)));
      loadFailed().catch((error) => app.failed(failed, error, refresh));
    };
    refresh();
  };

  const create = () => {
    const url = el("input", { type: "url", required: true, autofocus: true, placeholder: "https://…" });
    const description = el("input", { maxlength: 200 });
    const types = Object.entries(TYPES).flatMap(([subject, what]) => app.can(subject === "order" ? "orders:read" : "pets:read") ? what.map((end) => `${subject}.${end}`) : [])
      .map((value) => ({ value, box: el("input", { type: "checkbox", checked: true }) }));
    const post = api.once();
    const problem = el("p", { class: "problem", role: "alert" });
    const submit = el("button", { class: "btn primary", "data-write": true }, "Add webhook");
    const form = el("form", null, field("URL", url), field("Description", description),
      el("fieldset", null, el("legend", null, "Send"), ...types.map(({ value, box }) => el("label", { class: "check" }, box, value))),
      problem, el("div", { class: "actions" }, submit, button("Cancel", { class: "btn", onclick: () => box.close() })));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      app.act(submit, async () => {
        const { data } = await post("webhooks", { url: url.value, description: description.value || null, types: types.filter(({ box }) => box.checked).map(({ value }) => value) });
        box.close();
        const secret = el("input", { readonly: true, value: data.secret, onfocus: () => secret.select() });
        const shown = dialog("The webhook was added", field("Secret", secret, el("small", null, "Its receiver verifies signatures with it. It is not shown again.")),
          el("div", { class: "actions" }, navigator.clipboard && button("Copy", { class: "btn primary", onclick: () => navigator.clipboard.writeText(data.secret).then(() => toast("Copied.")) }),
            button("Done", { class: "btn", onclick: () => shown.close() })));
        await load();
        location.hash = `#/webhooks/${data.id}`;
      }, (error) => void (problem.textContent = message(error)));
    });
    const box = dialog("Add webhook", form);
  };

  fill(more, "Loading…");
  sheet.hidden = true;
  load();
  const timer = setInterval(() => document.hidden || load(), REFRESH);
  /** A change is delivered in a moment. */
  let soon = 0;
  const move = arrows(body);
  return {
    show,
    onEvent: () => void (soon ||= setTimeout(() => ((soon = 0), load()), 1000)),
    onKey: (event) => event.key === "Escape" && chosen ? !!(location.hash = "#/webhooks") : move(event),
    unmount() {
      turn++;
      clearInterval(timer);
      clearTimeout(soon);
    },
  };
}
