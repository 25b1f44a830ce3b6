// Invitations: the dialog that creates one, and the link that it consists of.

import { send } from "./api.js";
import { load, toast } from "./app.js";
import { DAY, dayOf, localDay, onDay } from "./days.js";
import { dialog } from "./dialogs.js";
import { button, el } from "./dom.js";
import { field, formDialog } from "./forms.js";
import { isLoopback } from "./loopback.js";
import { postOnce } from "./once.js";
import { ROLES, SCOPES, canGrant, roleOf, scopeText } from "./roles.js";
import { can, key } from "./session.js";

/** @import { Key } from "../types" */

const NOT_YOURS = "Your own access does not include this.";
const LASTING = { 30: "30 days", 90: "90 days", 365: "1 year" };

/** Asks for the name, the role and the end of the access. @param {Key | undefined} person whose access is renewed @param {(shown: ReturnType<typeof showLink>) => void} done */
export function inviteDialog(person, done) {
  const name = el("input", { name: "name", required: true, maxlength: 100, autocomplete: "off", value: person?.name ?? "" });
  const access = accessInputs(person?.scopes);
  // An owner is replaced only by one who stays for as long.
  const ends = endInputs(!!person?.expiresAt && !person.scopes.includes("keys:write"));
  const post = postOnce();
  /** @type {Key | undefined} */
  let invitation;
  const create = async () => {
    const { data } = await post("keys/invitations", { name: name.value.trim(), scopes: access.scopes(),
      ...(ends.value() && { expiresAt: ends.value() }), ...(person && { replaces: person.id }) });
    if (data.secret) return void (invitation = data);
    // The connection was lost, and the secret with it, which is shown only once.
    await send("DELETE", `keys/${data.id}`);
    await create();
  };
  const box = formDialog(person ? [`Renew the access of ${person.name}`, "Create link"] : ["Invite a person", "Create link"], [
    person && el("p.also", `${person.name} gets a new link, for a new device or one that was lost. The old access ends when the link is accepted.`),
    field("Name", name), access.element, ends.element,
  ], create);
  box.addEventListener("close", () => invitation && done(showLink(invitation, !!person)));
}

/** A role, or single scopes. @param {string[]} [before] */
function accessInputs(before) {
  const grantable = ROLES.filter(({ scopes }) => canGrant(scopes));
  const wanted = before ? roleOf(before) : (grantable.find(({ name }) => name === "Staff") ?? grantable[0]);
  const choice = (value = "", text = "", isAllowed = true) => {
    const input = el("input", { type: "radio", name: "role", value, disabled: !isAllowed, checked: value === (wanted?.name ?? "Custom"), onchange: () => paint() });
    return { input, label: el("label.choice", input, el("span", el("b", value), el("small.block.muted", isAllowed ? text : NOT_YOURS))) };
  };
  const choices = [...ROLES.map(({ name, text, scopes }) => choice(name, text, canGrant(scopes))), choice("Custom", "Choose what this person or program may do")];
  const boxes = SCOPES.map((value) => el("input", { type: "checkbox", name: "scopes", value, disabled: !can(value), checked: before?.includes(value) }));
  const custom = el("fieldset.scopes", el("legend", "May"), boxes.map((box) =>
    el("label.check", { title: !can(box.value) && NOT_YOURS }, box, scopeText(box.value))));
  const chosen = () => choices.find(({ input }) => input.checked)?.input.value;
  const paint = () => {
    custom.hidden = chosen() !== "Custom";
  };
  paint();
  return {
    element: el("div", el("fieldset.choices", el("legend", "Role"), choices.map(({ label }) => label)), custom),
    scopes: () => ROLES.find(({ name }) => name === chosen())?.scopes ?? boxes.filter(({ checked }) => checked).map(({ value }) => value),
  };
}

/** The end of the access, which the end of the own access limits. */
function endInputs(isLimited = false) {
  // A retry must ask for the same end.
  const now = Date.now();
  const limit = key.expiresAt ? Date.parse(key.expiresAt) : Infinity;
  const date = el("input", { type: "date", "aria-label": "Last day", min: localDay(Date.now() + DAY),
    max: key.expiresAt && localDay(limit) });
  const choice = el("select", { onchange: () => show()?.focus() },
    key.expiresAt ? el("option", { value: key.expiresAt }, `With mine, on ${dayOf(key.expiresAt)}`) : el("option", { value: "" }, "Never"),
    Object.entries(LASTING).filter(([days]) => now + Number(days) * DAY <= limit)
      .map(([days, text]) => el("option", { value: days, selected: isLimited && days === "90" }, `After ${text}`)),
    el("option", { value: "date" }, "On a date…"));
  const show = () => {
    date.hidden = date.disabled = choice.value !== "date";
    date.required = !date.hidden;
    return date.hidden ? null : date;
  };
  show();
  const hint = el("small", key.expiresAt && `Your own access ends on ${dayOf(key.expiresAt)}, so this one cannot last longer.`);
  return {
    element: field("Access ends", el("div.field", choice, date), hint),
    value() {
      if (choice.value === "date") return new Date(Math.min(Date.parse(`${date.value}T23:59:59`), limit)).toISOString();
      return choice.value in LASTING ? new Date(now + Number(choice.value) * DAY).toISOString() : choice.value;
    },
  };
}

/** Shows a link, which is nowhere on the page afterwards. @param {Key} invitation */
function showLink({ id, name, secret, expiresAt = "" }, isRenewal = false) {
  const link = `${location.origin}${location.pathname}#invitation=${secret}`;
  const input = el("input", { readonly: true, value: link, onfocus: () => input.select() });
  // `navigator.clipboard` exists only over HTTPS.
  const copy = () => {
    input.select();
    toast(document.execCommand("copy") ? "Copied." : "Copy the selected link.");
  };
  const code = el("div.more");
  const content = el("div",
    el("p.also", `Send this link to ${name}${isLoopback() ? "" : ", or let their phone scan the code"}. It works once, within 24 hours (until ${onDay(expiresAt)}), and is shown only now.`,
      isRenewal && ` The old access of ${name} ends when the link is accepted.`),
    field("Link", input),
    isLoopback() ? el("div.notice.warn",
      el("b", `A phone cannot open ${location.host}: that address is this computer only.`),
      el("p", "Start the service with ", el("code", `petstore serve --listen 0.0.0.0:${location.port || 80}`), ", open the console at the address of this computer in your network, and invite again."))
      : code,
    el("div.actions", button("Copy link", "primary", copy, { autofocus: true }), button("Done", "", () => box.close())));
  const box = dialog(`Invitation for ${name}`, content);
  // A click beside it must not lose the link.
  box.setAttribute("closedby", "closerequest");
  if (!isLoopback()) {
    load(import("./qr.js")).then(({ qrCode }) => code.append(qrCode(link, "QR code of the link")), () => {});
  }
  return {
    id,
    ended(isAccepted = false) {
      if (!box.open) return;
      content.replaceChildren(
        el("div.notice", { class: isAccepted ? "notice ok" : "notice", role: "status" }, isAccepted ? `${name} has accepted the invitation.` : "The invitation was withdrawn."),
        el("div.actions", button("Done", "primary", () => box.close(), { autofocus: true })));
      content.querySelector("button")?.focus();
    },
  };
}
