// People: who has access to the store, open invitations, and access that has ended.

import { api, getAll, send } from "../api.js";
import { actButton, load as loadPart, showFailure, toast } from "../app.js";
import { DAY, dayOf, onDay } from "../days.js";
import { confirm } from "../dialogs.js";
import { el, pill } from "../dom.js";
import { count, plural } from "../format.js";
import { liveList, newButton, table } from "../list.js";
import { names } from "../names.js";
import { canGrant, describeScopes, roleOf } from "../roles.js";
import { can, key, signOut } from "../session.js";
import { loadStyles } from "../styles.js";
import { every, timeOf } from "../times.js";

/** @import { ApiError } from "../api.js" */
/** @import { Child, Key, Mount } from "../../types" */

/** Access that ends within this many days is marked. */
const SOON = 7;

await loadStyles("people.css");

/** @type {Mount} */
export function mount(root, _, end) {
  const canWrite = can("keys:write");
  /** @type {{ id: number, ended(isAccepted: boolean): void } | null} the invitation whose link is shown */
  let link = null;
  let isLoading = false;
  let isOutdated = false;

  /** @param {string[]} scopes */
  const role = (scopes) => {
    const text = describeScopes(scopes);
    return roleOf(scopes) ? pill(text === "Owner" ? "ok" : "", text) : el("span.muted", text);
  };
  /** A cell whose heading is shown before it on a phone. @param {string} label @param {Child} content */
  const cell = (label, content) => el("td.muted", { "data-label": label }, content);
  /** @param {Key} key */
  const lastUse = ({ lastUsedAt }) => cell("Last used", lastUsedAt ? timeOf(lastUsedAt, onDay(lastUsedAt)) : "never");
  const isMe = (id = 0) => id === key.id;

  const people = liveList(end, {
    key: (/** @type {Key} */ { id }) => id,
    row: (person) => {
      const { id, name, scopes, expiresAt = "" } = person;
      const days = Math.floor((Date.parse(expiresAt) - Date.now()) / DAY);
      const soon = days < SOON && el("span.left", days < 1 ? "less than a day left" : `${plural(days, "day")} left`);
      return el("tr", el("td", el("b", name), isMe(id) && pill("ok", "you")), el("td", role(scopes)), lastUse(person),
        expiresAt ? cell("Ends", el("span", timeOf(expiresAt, dayOf(expiresAt)), soon))
          : el("td.muted.wide", "never"),
        el("td.steps", canWrite && [
          actButton("Renew…", "small", () => renew(person), undefined, { "aria-label": `Renew the access of ${name}…` }),
          actButton("Take access away…", "small danger quiet", () => remove(person), (error) => refuse(error, name),
            { "aria-label": `Take access away from ${name}…` }),
        ]));
    },
    foot: (size) => `${count(size)} with access`,
  });
  const invitations = liveList(end, {
    key: (/** @type {Key} */ { id }) => id,
    row: (invitation) => {
      const { name, invitation: later, expiresAt = "" } = invitation;
      return el("tr", el("td", el("b", name), later?.replaces !== undefined && el("small.muted.block", "Renews access")), el("td", role(later?.scopes ?? [])),
        cell("Link works until", timeOf(expiresAt, onDay(expiresAt))),
        el("td.steps", canWrite && actButton("Withdraw…", "small danger quiet", () => withdraw(invitation), (error) => refuse(error, name),
          { "aria-label": `Withdraw the invitation of ${name}…` })));
    },
    foot: () => "",
  });
  const ended = liveList(end, {
    key: (/** @type {Key} */ { id }) => id,
    row: (person) => {
      const { name, scopes, revokedAt, expiresAt = "" } = person;
      const time = revokedAt ?? expiresAt;
      return el("tr", el("td", name), el("td", role(scopes)), lastUse(person),
        el("td.muted", timeOf(time, `${revokedAt ? "taken away" : "expired"} ${onDay(time)}`)));
    },
    foot: () => "",
  });

  const summary = el("summary");
  const open = el("section", { hidden: true }, el("h2.section", "Open invitations"),
    table(["Name", "Role", "Link works until", ""], invitations.body, "stack people"));
  const past = el("details", { hidden: true }, summary, table(["Name", "Role", "Last used", "Ended"], ended.body, "stack people"));
  root.append(
    el("div.bar", el("p.hint", "People and programs that have access to this store."), newButton(canWrite, "Invite", () => invite())),
    table(["Name", "Role", "Last used", "Access ends", ""], people.body, "stack people"), people.more, open, past);

  const load = async () => {
    isOutdated = isLoading;
    if (isLoading) return;
    isLoading = true;
    try {
      paint(await getAll("keys"));
    } catch (error) {
      if (!people.items().length) showFailure(people.more, error, load);
    } finally {
      isLoading = false;
    }
    if (isOutdated && !end.aborted) load();
  };

  /** @param {Key[]} keys */
  const paint = (keys) => {
    const now = Date.now();
    const isValid = ({ revokedAt = "", expiresAt = "" }) => !revokedAt && !(Date.parse(expiresAt) <= now);
    for (const { id, name } of keys) names.keys.set(String(id), name);
    const valid = keys.filter((key) => !key.invitation && isValid(key));
    const sent = keys.filter((key) => key.invitation && isValid(key));
    const others = keys.filter((key) => !key.invitation && !isValid(key));
    // The owner who looks at the list comes first.
    people.set(valid.sort((a, b) => Number(isMe(b.id)) - Number(isMe(a.id)) || a.name.localeCompare(b.name)));
    invitations.set(sent.reverse());
    ended.set(others.reverse());
    open.hidden = !sent.length;
    past.hidden = !others.length;
    summary.textContent = `Ended access (${others.length})`;
    const used = keys.find(({ id, revokedAt }) => id === link?.id && revokedAt);
    if (used) link?.ended(valid.some(({ name, createdAt = "" }) => name === used.name && createdAt >= (used.createdAt ?? "")));
  };

  /** Invites a person who had access before, or a new one. @param {Key} [person] */
  const invite = async (person) => {
    const { inviteDialog } = await loadPart(import("../invite.js"));
    inviteDialog(person, (shown) => {
      link = shown;
      load();
    });
  };

  /** @param {Key} person */
  const renew = async (person) => {
    if (!canGrant(person.scopes)) return toast(beyond(person.name), "danger");
    await invite(person);
  };

  const beyond = (name = "") => `${name} may do things that your own access does not include. Ask an owner to do this.`;

  /** @param {ApiError} error */
  const refuse = (error, name = "") => {
    if (error.status === 403) return toast(beyond(name), "danger");
    if (error.code !== "last_owner") return false;
    toast(`${name} is the last one who can let people in. Make another person an owner first.`, "danger");
  };

  /** @param {Key} person */
  const remove = async ({ id, name }) => {
    const text = isMe(id)
      ? "This is your own access. You are signed out here, and come back only with a new invitation."
      : `The device with this access is signed out within a second. The history still shows what ${name} has done.`;
    if (!(await confirm(`Take access away from ${name}?`, text, "Take access away"))) return;
    const { onUnauthorized } = api;
    const leave = () => signOut("You took your own access away.");
    if (isMe(id)) api.onUnauthorized = leave;
    try {
      await send("DELETE", `keys/${id}`);
    } catch (error) {
      api.onUnauthorized = onUnauthorized;
      throw error;
    }
    if (isMe(id)) return leave();
    toast(`${name} no longer has access.`);
    await load();
  };

  /** @param {Key} invitation */
  const withdraw = async ({ id, name }) => {
    if (!(await confirm(`Withdraw the invitation of ${name}?`, "Its link stops working.", "Withdraw"))) return;
    await send("DELETE", `keys/${id}`);
    toast("The invitation was withdrawn.");
    await load();
  };

  load();
  // Keys are used and expire without an event.
  every(30, () => document.hidden || load(), end);
  return { onEvent: ({ type }) => void (type.startsWith("key.") && load()) };
}
