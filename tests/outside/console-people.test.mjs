// The console: letting people in and taking access away, and the sign-in that tabs share.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import jsQR from "jsqr";
import { PNG } from "pngjs";
import { modulesOf } from "../../crates/api/src/console/js/qr.js";
import { caller, closePages, launch, openConsole, startProxy } from "./console.mjs";
import { startService } from "./harness.mjs";

const PHONE = { width: 390, height: 844 };
const STAFF = ["pets:read", "pets:write", "orders:read", "orders:write"];
const OWNER = [...STAFF, "webhooks:read", "webhooks:write", "keys:read", "keys:write", "store:write"];
// Phones know the store by a name, and not over HTTPS.
const HOST = "shop.test";

let service, browser, ada, call, lan;

before(async () => {
  service = await startService({ inMemory: true });
  browser = await launch(`--host-resolver-rules=MAP ${HOST} 127.0.0.1`);
  ada = service.createKeyNamed("Ada", "--role", "owner");
  call = caller(service.address, ada);
  lan = service.address.replace("127.0.0.1", HOST);
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

afterEach(closePages(() => browser));

const link = (secret, address = lan) => `${address}/console#invitation=${secret}`;
const invite = (name, more) => call("POST", "keys/invitations", { name, scopes: STAFF, ...more });
const claim = ({ secret }) => caller(service.address, secret)("POST", "keys/claim");
const letIn = async (name, more) => claim(await invite(name, more));
const person = (page, name) => page.getByRole("row").filter({ has: page.getByText(name, { exact: true }) });
const signedInAs = (page, name) => page.locator("#key-name").getByText(name, { exact: true }).waitFor();
// What a storage has, but for the number of sign-ins.
const stored = (page, storage) => page.evaluate((storage) =>
  Object.entries(window[storage]).filter(([name]) => name !== "petstore-sign-ins").map(([, value]) => value), storage);
const accept = (page) => page.button("Accept on this device").click();

// Opens the People screen.
async function openPeople(secret = ada, { address = lan, ...options } = {}) {
  const page = await openConsole(browser, address, secret, options);
  await page.live();
  await page.open("People");
  await page.getByRole("heading", { name: "People", level: 1 }).waitFor();
  await page.getByText("with access", { exact: false }).last().waitFor();
  return page;
}

// Another tab of the same browser.
async function openTab(page, url = `${lan}/console`) {
  const tab = await page.context().newPage();
  await tab.goto(url);
  return Object.assign(tab, { button: (name) => tab.getByRole("button", { name, exact: true }) });
}

// Opens an invitation in a browser of its own.
async function openInvitation(secret, options) {
  const page = await openConsole(browser, lan, null, options);
  await page.goto(link(secret));
  return page;
}

// Reads the QR code of a picture.
function decode({ data, width, height }) {
  return jsQR(new Uint8ClampedArray(data), width, height)?.data;
}

test("QR codes of every size can be read", () => {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_:/#=.";
  // Always the same letters: a linear congruential generator.
  let seed = 1;
  const letter = () => alphabet[(seed = (seed * 48271) % 2147483647) % alphabet.length];
  const [scale, border] = [4, 4];
  // The shortest and the longest text of each version.
  const longest = [14, 26, 42, 62, 84, 106, 122, 152, 180, 213];
  for (const length of [1, ...longest.flatMap((length) => [length, length + 1])].slice(0, -1)) {
    const text = Array.from({ length }, letter).join("");
    const rows = modulesOf(text);
    assert.equal(rows.length, 21 + 4 * longest.findIndex((limit) => length <= limit));
    const width = (rows.length + 2 * border) * scale;
    const data = new Uint8ClampedArray(4 * width * width).fill(255);
    for (let y = 0; y < width; y++) for (let x = 0; x < width; x++) {
      const isDark = rows[Math.floor(y / scale) - border]?.[Math.floor(x / scale) - border];
      if (isDark) data.fill(0, 4 * (y * width + x), 4 * (y * width + x) + 3);
    }
    assert.equal(decode({ data, width, height: width }), text, `${length} characters`);
  }
  assert.throws(() => modulesOf("x".repeat(214)), RangeError);
});

test("an owner lets a person in, who sells an animal, and takes the access away again", async () => {
  const { id: petId } = await call("POST", "pets", { name: "Biscuit", categoryId: 1, status: "available" });
  const owner = await openConsole(browser, lan, ada);
  await owner.live();
  // By keyboard.
  const { keyboard } = owner;
  const tabTo = async (role, name) => {
    const target = owner.getByRole(role, { name, exact: true });
    await target.waitFor();
    for (let presses = 0; presses < 60; presses++) {
      if (await target.evaluate((element) => element === document.activeElement)) return;
      await keyboard.press("Tab");
    }
    assert.fail(`the ${role} ${name} cannot be reached by Tab`);
  };
  await tabTo("link", "People");
  await keyboard.press("Enter");
  await person(owner, "Ada").getByText("you").waitFor();
  await person(owner, "Ada").getByText("Owner").waitFor();
  await owner.inspect("people");
  await keyboard.press("n");
  await owner.getByRole("dialog", { name: "Invite a person" }).waitFor();
  await keyboard.type("Bo");
  await owner.inspect("people-invite");
  await tabTo("radio", "Staff Adds, changes and sells animals");
  await keyboard.press("Enter");
  const shown = owner.getByRole("dialog", { name: "Invitation for Bo" });
  await shown.getByRole("img", { name: "QR code of the link" }).waitFor();
  await owner.focused("button", "Copy link");
  await owner.inspect("people-link");
  const url = await shown.getByLabel("Link", { exact: true }).inputValue();
  assert.ok(url.startsWith(`${lan}/console#invitation=psk_`), url);
  assert.equal(decode(PNG.sync.read(await shown.getByRole("img").screenshot())), url);
  await shown.getByText("It works once, within 24 hours").waitFor();

  const phone = await openConsole(browser, lan, null, PHONE);
  await phone.goto(url);
  await phone.getByText(`to Petstore at ${new URL(lan).host} as Bo (Staff).`).waitFor();
  assert.equal(phone.url(), `${lan}/console`);
  await phone.inspect("invitation");
  await phone.setViewportSize(PHONE);
  await accept(phone);
  await signedInAs(phone, "Bo");
  await phone.getByRole("link", { name: "People" }).waitFor({ state: "hidden" });
  // The owner sees that it was accepted, and the link is gone.
  await shown.getByText("Bo has accepted the invitation.").waitFor();
  assert.ok(!(await owner.content()).includes("psk_"));
  await owner.focused("button", "Done");
  await keyboard.press("Enter");
  await person(owner, "Bo").getByText("Staff").waitFor();

  await phone.open("Biscuit");
  await phone.button("Sell…").click();
  await phone.getByRole("dialog").getByRole("button", { name: "Sell" }).click();
  await phone.panel.getByText(/^Sold, order \d+$/).waitFor();
  await tabTo("link", "Activity");
  await keyboard.press("Enter");
  const entry = (text) => owner.getByRole("listitem").filter({ hasText: text }).waitFor();
  await entry("Biscuit: sold by “Bo”");
  await entry("Bo accepted the invitation as Staff");
  await entry("Ada invited Bo as Staff");
  await tabTo("button", "People");
  await keyboard.press("Enter");
  await owner.getByRole("listitem").filter({ hasText: "Biscuit" }).first().waitFor({ state: "detached" });
  await entry("Bo accepted the invitation as Staff");

  await tabTo("link", "People");
  await keyboard.press("Enter");
  await tabTo("button", "Take access away from Bo…");
  await keyboard.press("Enter");
  await owner.getByRole("dialog", { name: "Take access away from Bo?" }).waitFor();
  await owner.inspect("people-remove");
  await tabTo("button", "Take access away");
  await keyboard.press("Enter");
  await phone.getByText("You were signed out, because your access was taken away or has ended.").waitFor();
  assert.deepEqual([await stored(phone, "sessionStorage"), await stored(phone, "localStorage")], [[], []]);
  await person(owner, "Bo").locator("visible=true").waitFor({ state: "detached" });
  await owner.getByText("Ended access (1)").click();
  await person(owner, "Bo").getByText("taken away today").waitFor();
  await owner.inspect("people-ended");
  await owner.open("Activity");
  await entry("Ada took access away from Bo");
  assert.equal((await call("GET", `store/orders?petId=${petId}`))[0].status, "completed");
  assert.deepEqual(owner.problems(), []);
  assert.deepEqual(phone.problems(/status of 401/), []);
});

test("the link is on the page only while its dialog is open", async () => {
  const page = await openPeople();
  const history = await page.evaluate(() => window.history.length);
  await page.button("Invite").click();
  await page.getByRole("dialog").getByLabel("Name").fill("Cleo");
  await page.button("Create link").click();
  const input = page.getByRole("textbox", { name: "Link" });
  const url = await input.inputValue();
  await page.button("Copy link").click();
  await page.getByText("Copied.").waitFor();
  // A click beside the dialog does not lose the link.
  await page.mouse.click(5, 5);
  assert.equal(await input.inputValue(), url);
  await page.keyboard.press("Escape");
  await input.waitFor({ state: "detached" });
  const [secret] = url.match(/psk_\w+/);
  assert.ok(!(await page.content()).includes(secret));
  assert.ok(!page.url().includes("psk_"));
  assert.equal(await page.evaluate(() => window.history.length), history);
  assert.ok(![...await stored(page, "sessionStorage"), ...await stored(page, "localStorage")].includes(secret));
  // What was copied can be pasted.
  await page.keyboard.press("n");
  await page.getByRole("dialog").getByLabel("Name").press("Control+V");
  assert.equal(await page.getByRole("dialog").getByLabel("Name").inputValue(), url.slice(0, 100));
  assert.deepEqual(page.problems(), []);
});

test("on this computer only, the dialog says how a phone can reach the store", async () => {
  const page = await openPeople(ada, { address: service.address });
  await page.keyboard.press("n");
  await page.getByRole("dialog").getByLabel("Name").fill("Dora");
  await page.keyboard.press("Enter");
  await page.getByText(`A phone cannot open ${new URL(service.address).host}`).waitFor();
  await page.getByText(`petstore serve --listen 0.0.0.0:${new URL(service.address).port}`).waitFor();
  assert.equal(await page.getByRole("img", { name: "QR code of the link" }).count(), 0);
  await page.inspect("people-loopback");
  assert.deepEqual(page.problems(), []);
});

test("an invitation is withdrawn, and its link says so kindly", async () => {
  const { secret } = await invite("Eve");
  const page = await openPeople();
  await person(page, "Eve").getByText("Staff").waitFor();
  const guest = await openInvitation(secret, PHONE);
  await guest.button("Accept on this device").waitFor();
  await page.button("Withdraw the invitation of Eve…").click();
  await page.isAccessible();
  await page.button("Withdraw").click();
  await person(page, "Eve").waitFor({ state: "detached" });
  // Of a page that is open already, too.
  await accept(guest);
  await guest.getByRole("heading", { name: "This link no longer works" }).waitFor();
  await guest.inspect("invitation-ended");
  const late = await openInvitation(secret);
  await late.getByText("Ask the owner of the store for a new one.").waitFor();
  assert.ok(!late.url().includes("psk_"));
  assert.deepEqual(page.problems(), []);
  assert.deepEqual(late.problems(/status of 401/), []);
});

test("two devices accept at the same moment, and one wins", async () => {
  const { secret } = await invite("Finn");
  const pages = await Promise.all([1, 2].map(() => openInvitation(secret)));
  let arrived = 0;
  let release;
  const released = new Promise((resolve) => (release = resolve));
  for (const page of pages) {
    await page.button("Accept on this device").waitFor();
    await page.route("**/v1/keys/claim", async (route) => {
      if (++arrived === 2) release();
      await released;
      await route.continue();
    });
  }
  await Promise.all(pages.map(accept));
  const won = (page) => signedInAs(page, "Finn").then(() => true);
  const lost = (page) => page.getByRole("heading", { name: "This link no longer works" }).waitFor().then(() => false);
  const outcomes = await Promise.all(pages.map((page) => Promise.any([won(page), lost(page)])));
  assert.deepEqual(outcomes.sort(), [false, true]);
  const keys = (await call("GET", "keys?limit=100")).filter(({ name, revokedAt }) => name === "Finn" && !revokedAt);
  assert.equal(keys.length, 1);
});

test("a response that is lost costs an invitation, but not the link", async () => {
  const proxy = await startProxy(service.address);
  try {
    const page = await openPeople(ada, { address: proxy.address });
    await page.keyboard.press("n");
    await page.getByRole("dialog").getByLabel("Name").fill("Gus");
    proxy.dropResponses(true);
    await page.keyboard.press("Enter");
    await page.getByText(/^No connection/).waitFor();
    proxy.dropResponses(false);
    const url = await page.getByRole("textbox", { name: "Link" }).inputValue();
    const { name } = await caller(service.address, url.match(/psk_\w+/)[0])("GET", "keys/current");
    assert.equal(name, "Gus");
    const open = (await call("GET", "keys?limit=100")).filter(({ name, revokedAt }) => name === "Gus" && !revokedAt);
    assert.equal(open.length, 1);
  } finally {
    await proxy.close();
  }
});

test("a renewed access replaces the old one when its link is accepted", async () => {
  const { secret } = await letIn("Hal");
  const old = await openConsole(browser, lan, secret);
  await old.live();
  const page = await openPeople();
  await page.button("Renew the access of Hal…").click();
  const dialog = page.getByRole("dialog", { name: "Renew the access of Hal" });
  assert.equal(await dialog.getByLabel("Name").inputValue(), "Hal");
  assert.ok(await dialog.getByLabel("Staff").isChecked());
  await page.inspect("people-renew");
  await page.button("Create link").click();
  const url = await page.getByRole("textbox", { name: "Link" }).inputValue();
  await page.getByText("The old access of Hal ends when the link is accepted.").waitFor();
  // Until then, it stays.
  await caller(service.address, secret)("GET", "pets");
  const phone = await openConsole(browser, lan, null, PHONE);
  await phone.goto(url);
  await accept(phone);
  await signedInAs(phone, "Hal");
  await old.getByText("You were signed out, because your access was taken away or has ended.").waitFor();
  await page.getByText("Hal has accepted the invitation.").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(await person(page, "Hal").locator("visible=true").count(), 1);
  await page.open("Activity");
  await page.getByRole("listitem").filter({ hasText: "The old access of Hal ended" }).waitFor();
  await page.getByRole("listitem").filter({ hasText: "Ada invited Hal as Staff, to renew access" }).waitFor();
  assert.deepEqual(page.problems(), []);
});

test("scopes and an end can be chosen", async () => {
  const page = await openPeople();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("12");
  await dialog.getByLabel("Custom").check();
  await page.button("Create link").click();
  await dialog.getByRole("alert").filter({ hasText: /\S/ }).first().waitFor();
  await dialog.getByLabel("see animals").check();
  await page.button("Create link").click();
  await page.locator("[name=name][aria-invalid=true]").waitFor();
  await dialog.getByLabel("Name").fill("Ida");
  await dialog.getByLabel("change orders").check();
  await dialog.getByLabel("Access ends").selectOption("On a date…");
  await dialog.getByLabel("Last day").fill("2090-05-17");
  await page.inspect("people-custom");
  await page.button("Create link").click();
  await page.getByRole("textbox", { name: "Link" }).waitFor();
  await page.keyboard.press("Escape");
  await person(page, "Ida").getByText("see animals, change orders").waitFor();
  const { id, invitation } = (await call("GET", "keys?limit=100")).find(({ name }) => name === "Ida");
  assert.deepEqual(invitation.scopes, ["pets:read", "orders:write"]);
  const last = await page.evaluate(() => new Date("2090-05-17T23:59:59").getTime());
  assert.equal(Date.parse(invitation.expiresAt), last);
  await call("DELETE", `keys/${id}`);
  assert.deepEqual(page.problems(/status of 400/), []);
});

test("a person gives no more than their own access, and no longer", async () => {
  const expiresAt = new Date(Date.now() + 60 * 86_400_000).toISOString();
  const { secret } = await letIn("Jo", { scopes: ["pets:read", "orders:read", "keys:read", "keys:write"], expiresAt });
  const { secret: staff } = await letIn("Kim");
  const page = await openPeople(secret);
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("Lu");
  for (const role of ["Owner", "Staff"]) {
    assert.ok(await dialog.getByRole("radio", { name: role }).isDisabled());
    await dialog.getByRole("radio", { name: `${role} Your own access does not include this.` }).waitFor();
  }
  assert.ok(await dialog.getByLabel("Read only").isChecked());
  const ends = dialog.getByLabel("Access ends");
  assert.match((await ends.locator("option").allInnerTexts()).join("; "), /^With mine, on [^;]+; After 30 days; On a date…$/);
  await dialog.getByText("so this one cannot last longer").waitFor();
  await dialog.getByLabel("Custom").check();
  assert.ok(await dialog.getByLabel("change animals").isDisabled());
  await page.inspect("people-limited");
  await dialog.getByLabel("Read only").check();
  await ends.selectOption("On a date…");
  // The last day of the own access ends with it.
  await dialog.getByLabel("Last day").fill(await dialog.getByLabel("Last day").getAttribute("max"));
  await page.button("Create link").click();
  await page.getByRole("textbox", { name: "Link" }).waitFor();
  await page.keyboard.press("Escape");
  const { invitation } = (await call("GET", "keys?limit=100")).find(({ name }) => name === "Lu");
  assert.equal(Date.parse(invitation.expiresAt), Math.floor(Date.parse(expiresAt)));

  const refused = page.getByText("Kim may do things that your own access does not include. Ask an owner to do this.");
  await page.button("Renew the access of Kim…").click();
  await refused.waitFor();
  await page.button("Dismiss").click();
  await page.button("Take access away from Kim…").click();
  await page.button("Take access away").click();
  await refused.waitFor();
  await caller(service.address, staff)("GET", "pets");
  assert.deepEqual(page.problems(/status of 403/), []);
});

test("the last owner stays, and another one can leave", async () => {
  const page = await openPeople();
  const others = (await call("GET", "keys?limit=100")).filter(({ name, scopes, revokedAt }) => name !== "Ada" && !revokedAt && scopes.includes("keys:write"));
  for (const { id } of others) await call("DELETE", `keys/${id}`);
  await page.button("Take access away from Ada…").click();
  await page.getByText("This is your own access. You are signed out here").waitFor();
  await page.button("Take access away").click();
  await page.getByText("Ada is the last one who can let people in. Make another person an owner first.").waitFor();
  await page.isAccessible();
  const { secret } = await letIn("Max", { scopes: OWNER });
  await person(page, "Max").getByText("Owner").waitFor();
  const max = await openPeople(secret);
  await max.button("Take access away from Max…").click();
  await max.button("Take access away").click();
  await max.getByText("You took your own access away.").waitFor();
  await max.getByLabel("API key").waitFor();
  assert.deepEqual(page.problems(/status of 409/), []);
});

test("the list follows what others do", async () => {
  const page = await openPeople();
  const { id } = await letIn("Nia");
  await person(page, "Nia").getByText("Staff").waitFor();
  await person(page, "Nia").getByText("never", { exact: true }).first().waitFor();
  await page.button("Take access away from Nia…").focus();
  const moe = await letIn("Moe");
  await person(page, "Moe").waitFor();
  await page.focused("button", "Take access away from Nia…");
  await call("DELETE", `keys/${id}`);
  await person(page, "Nia").locator("visible=true").waitFor({ state: "detached" });
  // A rotation, and not the key that it creates as well.
  await page.open("Activity");
  await call("POST", `keys/${moe.id}/rotate`, {});
  await page.getByRole("listitem").filter({ hasText: "Ada rotated the key of Moe" }).waitFor();
  await page.getByRole("listitem").filter({ hasText: "let Moe in" }).waitFor({ state: "detached" });
  service.createKeyNamed("Ned", "--role", "staff");
  await page.getByRole("listitem").filter({ hasText: "Ned was let in as Staff, on the server" }).waitFor();
  // The names of new people are known on other screens.
  await page.open("Animals");
  const { secret } = await letIn("Olga");
  await caller(service.address, secret)("POST", "pets", { name: "Pebble", categoryId: 1 });
  await page.open("Pebble");
  await page.panel.getByText("Added by “Olga”").waitFor();
  // To a key that may not see people, too.
  const { secret: reader } = await letIn("Pia", { scopes: ["pets:read"] });
  const other = await openConsole(browser, lan, reader);
  await other.live();
  const { secret: late } = await letIn("Quin");
  await caller(service.address, late)("POST", "pets", { name: "Quartz", categoryId: 1 });
  await other.open("Quartz");
  await other.panel.getByText("Added by “Quin”").waitFor();
  assert.deepEqual(page.problems(), []);
});

test("People needs the scope, and its actions another one", async () => {
  const { secret } = await letIn("Rae");
  const staff = await openConsole(browser, lan, secret);
  await staff.live();
  assert.deepEqual(await staff.getByRole("navigation").getByRole("link").allInnerTexts(), ["Animals", "Orders", "Categories", "Activity", "Reports", "Import"]);
  await staff.goto(`${lan}/console#/people`);
  await staff.reload();
  await staff.getByText("Your access does not include this page.").waitFor();
  await staff.open("Activity");
  await staff.getByRole("group", { name: "Type" }).waitFor();
  assert.equal(await staff.button("People").count(), 0);

  const { secret: auditor } = await letIn("Sam", { scopes: ["keys:read"] });
  const page = await openPeople(auditor);
  await person(page, "Rae").waitFor();
  await page.getByText("read-only key").waitFor();
  assert.equal(await page.getByRole("main").getByRole("button").count(), 0);
  await page.open("Activity");
  await page.getByRole("listitem").filter({ hasText: "Rae accepted the invitation as Staff" }).waitFor();
  // The first screen does not load any of this.
  const loaded = await staff.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => name.split("/").at(-1)));
  assert.deepEqual(loaded.filter((name) => ["people.js", "invite.js", "invitation.js", "qr.js"].includes(name)), []);
  assert.deepEqual(page.problems(), []);
});

test("all tabs share the sign-in, and the sign-out", async () => {
  const page = await openConsole(browser, lan, ada);
  await page.live();
  const tab = await openTab(page);
  await signedInAs(tab, "Ada");
  assert.deepEqual(await stored(page, "localStorage"), []);
  assert.deepEqual(await stored(tab, "sessionStorage"), [ada]);
  // After a reload, with no other tab to ask.
  await page.close();
  await tab.reload();
  await signedInAs(tab, "Ada");

  // A link with another key signs all tabs in with it, and each stays where it is.
  const { secret } = await letIn("Tess");
  const first = await openTab(tab, `${lan}/console#/orders`);
  await signedInAs(first, "Ada");
  await first.getByRole("heading", { name: "Orders", level: 1 }).waitFor();
  const second = await openTab(tab, `${lan}/console#key=${secret}`);
  for (const each of [second, first, tab]) await signedInAs(each, "Tess");
  await first.getByRole("heading", { name: "Orders", level: 1 }).waitFor();
  assert.ok(!second.url().includes("psk_"));

  // This one misses the sign-out.
  const away = await openTab(tab);
  await signedInAs(away, "Tess");
  await away.goto("about:blank");

  await second.locator("#key-name").click();
  await second.button("Sign out").click();
  await second.getByLabel("API key").waitFor();
  for (const each of [first, tab]) await each.getByText("You signed out in another tab.").waitFor();
  for (const each of [second, first, tab]) assert.deepEqual(await stored(each, "sessionStorage"), []);
  await away.goBack();
  await away.getByLabel("API key").waitFor();
  assert.deepEqual(await stored(away, "sessionStorage"), []);
  // A tab that waits at the sign-in page follows another one.
  await first.getByLabel("API key").fill(ada);
  await first.keyboard.press("Enter");
  for (const each of [first, second, tab]) await signedInAs(each, "Ada");
});

test("a revoked key signs out all tabs, with the reason", async () => {
  const { id, secret } = await letIn("Uma");
  const page = await openConsole(browser, lan, secret);
  await page.live();
  const tab = await openTab(page);
  await signedInAs(tab, "Uma");
  await call("DELETE", `keys/${id}`);
  for (const each of [page, tab]) {
    await each.getByText("You were signed out, because your access was taken away or has ended.").waitFor();
    assert.deepEqual(await stored(each, "sessionStorage"), []);
  }
});

test("a person stays signed in on a device, if asked for", async () => {
  const { secret } = await invite("Vic");
  const phone = await openInvitation(secret, PHONE);
  await phone.getByLabel("Keep me signed in on this device").check();
  await accept(phone);
  await signedInAs(phone, "Vic");
  assert.equal((await stored(phone, "localStorage")).length, 1);
  assert.deepEqual(await stored(phone, "sessionStorage"), []);
  // All tabs are closed, and the browser is started again.
  const storageState = await phone.context().storageState();
  await phone.leave();
  const context = await browser.newContext({ storageState });
  const page = await context.newPage();
  await page.goto(`${lan}/console`);
  await signedInAs(page, "Vic");
  await page.locator("#key-name").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  assert.deepEqual(await stored(page, "localStorage"), []);

  // On the sign-in page.
  await page.getByLabel("API key").fill(ada);
  await page.getByLabel("Keep me signed in on this device").check();
  await page.getByLabel("API key").press("Enter");
  await signedInAs(page, "Ada");
  assert.deepEqual(await stored(page, "localStorage"), [ada]);
  // Its own link changes nothing. Another sign-in takes its place once it is confirmed, and is not kept.
  await page.goto(`${lan}/console#key=${ada}`);
  await signedInAs(page, "Ada");
  assert.deepEqual(await stored(page, "localStorage"), [ada]);
  const { id, secret: other } = await letIn("Wes");
  await page.goto(`${lan}/console#key=${other}`);
  await page.getByText("This browser is signed in with another key.").waitFor();
  assert.deepEqual(await stored(page, "localStorage"), [ada]);
  assert.ok(!page.url().includes("psk_"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await signedInAs(page, "Wes");
  assert.deepEqual(await stored(page, "localStorage"), []);
  // A key that has ended is not kept either.
  await page.evaluate((secret) => localStorage.setItem("petstore-key", secret), other);
  const blank = await context.newPage();
  await page.close();
  await call("DELETE", `keys/${id}`);
  await blank.goto(`${lan}/console`);
  await blank.getByText("You were signed out, because your access was taken away or has ended.").waitFor();
  assert.deepEqual(await stored(blank, "localStorage"), []);
});

test("without being asked, a device keeps nothing", async () => {
  const { secret } = await invite("Xia");
  const phone = await openInvitation(secret, PHONE);
  await accept(phone);
  await signedInAs(phone, "Xia");
  assert.deepEqual(await stored(phone, "localStorage"), []);
  const kept = await stored(phone, "sessionStorage");
  assert.equal(kept.length, 1);
  assert.notEqual(kept[0], secret);
  const storageState = await phone.context().storageState();
  await phone.leave();
  const page = await (await browser.newContext({ storageState })).newPage();
  await page.goto(`${lan}/console`);
  await page.getByLabel("API key").waitFor();
  await page.getByText("Ask the owner of the store for an invitation link.").waitFor();
  await page.getByText("petstore keys create NAME --role owner").waitFor();
});

test("an invitation says who is signed in, and replaces that", async () => {
  const page = await openConsole(browser, lan, ada);
  await page.live();
  const { secret } = await invite("Yve");
  const tab = await openTab(page, link(secret));
  await tab.getByText("This browser is signed in as “Ada”. Accepting signs it in as “Yve” instead, in all tabs.").waitFor();
  await tab.screenshot();
  await tab.getByRole("link", { name: "Stay “Ada”" }).click();
  await signedInAs(tab, "Ada");
  // In the same tab.
  await tab.goto(link(secret));
  await tab.getByText("This browser is signed in as “Ada”.").waitFor();
  await accept(tab);
  for (const each of [tab, page]) await signedInAs(each, "Yve");
  assert.deepEqual(page.problems(), []);
});
