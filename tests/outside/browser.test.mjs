// End-to-end tests of the docs page in a real browser.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { startService } from "./harness.mjs";

const artefacts = process.env.ARTEFACTS ?? "artefacts";
mkdirSync(artefacts, { recursive: true });
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const desktop = { width: 1440, height: 900 };
const phone = { width: 390, height: 844 };

let service, secret, browser, context, page, problems;

before(async () => {
  service = await startService();
  secret = service.createKey();
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

// Opens the page and records console errors, exceptions and requests to other origins.
async function open(viewport, fragment = "") {
  await context?.close();
  context = await browser.newContext({ viewport });
  page = await context.newPage();
  page.setDefaultTimeout(60_000);
  problems = [];
  page.on("console", (message) => {
    // The browser logs expected responses as errors.
    if (["error", "warning"].includes(message.type()) && !/status of 40[01]/.test(message.text())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(service.address) && !url.startsWith("data:")) problems.push(`a request to ${url}`);
  });
  await page.goto(`${service.address}/docs${fragment}`);
  await page.locator("html.ready").waitFor();
  await page.locator(".opblock").first().waitFor();
}

const operation = (id) => page.locator(`[id$="-${id}"].opblock`);

async function expand(id) {
  await operation(id).locator(".opblock-summary-control").click();
  await operation(id).locator(".opblock-body").waitFor();
}

async function tryOut(id) {
  await expand(id);
  await operation(id).locator(".try-out__btn").click();
}

async function submitKey(text) {
  await page.locator("dialog input").fill(text);
  await page.locator("dialog .primary").click();
}

// Executes an operation in its "Try it out" panel and returns the response shown.
async function execute(id, body) {
  const block = operation(id);
  if (body !== undefined) await block.locator("textarea.body-param__text").fill(body);
  const responded = page.waitForResponse((response) => response.url().includes("/v1/"));
  // At the end of the screen, so that the response below it is not shown by itself.
  await block.locator(".btn.execute").evaluate((button) => button.scrollIntoView({ block: "end" }));
  await block.locator(".btn.execute").click();
  const status = String((await responded).status());
  const live = block.locator(".live-response");
  await live.locator("b", { hasText: status }).waitFor();
  return { status, text: await live.locator("pre.body").innerText() };
}

// Waits until the top of the element is on screen, with a good part of it.
const isOnScreen = async (locator) => page.waitForFunction((element) => {
  const { top } = element.getBoundingClientRect();
  return top >= 0 && top < innerHeight - 150;
}, await locator.elementHandle());

// What axe finds. The dark colours are the same on every screen.
async function axe(what, root, schemes) {
  await page.evaluate(axeSource);
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme });
    // In the dark, only the colours differ.
    const rules = colorScheme === "dark" ? { runOnly: ["color-contrast"] } : {};
    const found = await page.evaluate(([root, rules]) => axe.run(root, { resultTypes: ["violations"], ...rules }), [root, rules]);
    const where = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
    assert.deepEqual(where, [], `${what}, ${colorScheme}`);
    const isDark = await page.evaluate(() => {
      const [red] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return red < 128;
    });
    assert.equal(isDark, colorScheme === "dark");
    await page.screenshot({ path: `${artefacts}/${what}-${colorScheme}.png` });
  }
  await page.emulateMedia({ colorScheme: "light" });
}

// One visit, from opening the page to a response.
for (const [device, viewport] of Object.entries({ desktop, phone })) {
  const schemes = viewport === desktop ? ["light", "dark"] : ["light"];
  test(`${device}: guides, operations, the key and a response fit the screen`, async () => {
    await open(viewport);
    assert.equal(await page.title(), "Petstore API");
    assert.match(await page.locator("main").innerText(), /petstore keys create/);
    assert.equal(await page.locator("header a[href=console]").count(), 1);
    for (const name of ["Authentication", "Pagination", "Errors", "All guides"]) {
      const link = page.locator("header").getByRole("link", { name });
      await link.click();
      const target = page.locator(await link.getAttribute("href"));
      await isOnScreen(target.getByRole("heading").first());
    }
    const links = await page.locator("a[href^='#']").evaluateAll((links) => links.map((link) => link.getAttribute("href")));
    assert.ok(links.length > 20, `${links.length} links`);
    for (const link of new Set(links.filter((link) => !link.startsWith("#/")))) assert.equal(await page.locator(link).count(), 1, link);
    const cells = page.locator("#errors td");
    const edge = await cells.evaluateAll((cells) => Math.max(...cells.map((cell) => cell.getBoundingClientRect().right)));
    assert.ok((await cells.count()) > 100 && edge <= viewport.width, `the errors end at ${edge} px`);

    // Without a key, and with a wrong one.
    await tryOut("createPet");
    assert.equal((await execute("createPet")).status, "401");
    await page.locator(".authorize").click();
    for (const wrong of [`${secret.slice(0, -1)}${secret.endsWith("0") ? 1 : 0}`, "schlüssel"]) {
      await submitKey(wrong);
      await page.locator("dialog [role=alert]", { hasText: "does not accept this key" }).waitFor();
    }
    await axe(`${device}-dialog`, "dialog", schemes);
    // As the service prints it.
    await submitKey(`export PETSTORE_KEY=${secret}\n`);
    await page.locator("dialog").waitFor({ state: "detached" });
    assert.equal(await page.locator(".authorization [role=status]").innerText(), "Key accepted: test");

    const created = await execute("createPet");
    assert.equal(created.status, "201");
    await isOnScreen(operation("createPet").locator(".live-response"));
    await operation("createPet").locator(".live-response details").last().locator("summary").click();
    const command = await operation("createPet").locator("pre.curl").innerText();
    assert.match(command, /-H "Authorization: Bearer \$PETSTORE_KEY"/);
    const printed = execFileSync("bash", ["-c", command], { env: { ...process.env, PETSTORE_KEY: secret }, stdio: "pipe" });
    assert.match(printed.toString(), /^HTTP\/1.1 201 /);
    assert.ok(!(await page.content()).includes(secret), "the page shows the secret");

    await tryOut("listPets");
    await page.locator(".models-control").click();
    await page.locator("summary").evaluateAll((all) => all.forEach((summary) => (summary.parentElement.open = true)));
    await axe(device, "body", schemes);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    assert.deepEqual(problems, []);
  });
}

test("a link to a guide works from elsewhere", async () => {
  await open(desktop, "#errors");
  await isOnScreen(page.locator("#errors"));
  assert.equal(new URL(page.url()).hash, "#errors");
});

const navigation = () => page.locator("#contents");
const entry = (name) => navigation().getByRole("link", { name });
const isCurrent = (name) => navigation().locator("a[aria-current]", { hasText: name }).waitFor();

test("the navigation groups operations by resource, and marks what is on screen", async () => {
  await open(desktop);
  const groups = await navigation().locator("summary").allInnerTexts();
  const known = ["Animals", "Categories", "Orders", "Events", "Webhooks", "Keys", "Guides"];
  assert.deepEqual(groups.filter((group) => known.includes(group)), known);
  assert.deepEqual(await page.locator(".opblock-tag > span").allInnerTexts(), groups.filter((group) => group !== "Guides"));
  assert.equal(await navigation().locator("a[href^='#/']").count(), await page.locator(".opblock").count());
  // The contract itself keeps the tag of the specification.
  const contract = await (await fetch(`${service.address}/v1/openapi.json`)).json();
  assert.deepEqual(contract.paths["/store/orders"].get.tags, ["animals"]);

  await entry("Place an order").click();
  await operation("placeOrder").locator(".opblock-body").waitFor();
  await isOnScreen(operation("placeOrder"));
  assert.equal(new URL(page.url()).hash, "#/Orders/placeOrder");
  await isCurrent("Place an order");
  await entry("An event, sent to your receiver").click();
  await operation("receiveEvent").locator(".opblock-body").waitFor();
  await entry("Idempotent requests").click();
  await isCurrent("Idempotent requests");
  await page.goBack();
  await isOnScreen(operation("receiveEvent"));
  await page.goBack();
  await isOnScreen(operation("placeOrder"));
  await isCurrent("Place an order");
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForFunction(() => !document.querySelector("#contents a[aria-current]"));
  assert.deepEqual(problems, []);
});

test("the navigation is searched with the keyboard", async () => {
  await open(desktop);
  await page.keyboard.press("/");
  await page.keyboard.type("ROTATE webhook");
  const found = () => navigation().locator("[role=status]").innerText();
  assert.match(await found(), /^\d found$/);
  await entry("Rotate the secret of a webhook").waitFor();
  assert.equal(await entry("Rotate an API key").count(), 0);
  await axe("navigation", "#contents", ["light", "dark"]);
  await page.keyboard.press("Enter");
  await operation("rotateWebhookSecret").locator(".opblock-body").waitFor();
  await isOnScreen(operation("rotateWebhookSecret"));
  assert.equal(await page.locator("#contents input").inputValue(), "");
  // By path, method and the text of a guide.
  for (const [text, name] of [["delete /pets/{petId}", "Delete an animal"], ["512 levels", null], ["case folding", "Finding animals"]]) {
    await page.locator("#contents input").fill(text);
    if (name) await entry(name).waitFor();
    else assert.equal(await found(), "Nothing found");
  }
  await page.keyboard.press("ArrowDown");
  assert.equal(await page.evaluate(() => document.activeElement.hash), "#finding-animals");
  await page.keyboard.press("Escape");
  assert.equal(await found(), "");
  assert.deepEqual(problems, []);
});

test("phone: the navigation opens over the page and closes behind a choice", async () => {
  // With the tag of the contract, as in links from elsewhere.
  await open(phone, "#/animals/getOrder");
  await operation("getOrder").locator(".opblock-body").waitFor();
  await isOnScreen(operation("getOrder"));
  const toggle = page.locator(".contents-toggle");
  await toggle.locator(".current", { hasText: "Get an order" }).waitFor();
  assert.equal(await entry("Cancel an order").isVisible(), false);
  await toggle.click();
  await axe("phone-navigation", "body", ["light", "dark"]);
  await entry("Cancel an order").click();
  await navigation().waitFor({ state: "hidden" });
  await operation("cancelOrder").locator(".opblock-body").waitFor();
  await isOnScreen(operation("cancelOrder"));
  assert.deepEqual(problems, []);
});

test("an opened operation is a screenful, and says what is special about it", async () => {
  await open(desktop);
  const { paths, webhooks } = await page.evaluate(() => fetch("v1/openapi.json").then((response) => response.json()));
  const operations = Object.values({ ...paths, ...webhooks }).flatMap(Object.keys);
  assert.equal(await page.locator(".opblock").count(), operations.length);
  const height = (id) => operation(id).evaluate((block) => block.offsetHeight);
  for (const id of ["listPets", "createPet", "createWebhook", "listOrders", "streamEvents", "getPet"]) {
    await expand(id);
    // The list has many parameters.
    const limit = desktop.height * (id === "listPets" ? 1.15 : 1);
    assert.ok((await height(id)) <= limit, `${id} is ${await height(id)} px high`);
    const text = await operation(id).innerText();
    assert.doesNotMatch(text, /RateLimit|Retry-After|Cache-Control/);
    assert.match(text, /503\s+unavailable/);
    // Every expanded operation slows the page down.
    if (!["listOrders", "streamEvents", "getPet"].includes(id)) await operation(id).locator(".opblock-summary-control").click();
  }
  const shared = await page.locator("#response-headers").innerText();
  assert.match(shared, /RateLimit-Policy[^]*Retry-After/);
  const badges = { listOrders: "experimental", updatePet: "beta", getPet: "to be removed on 5 December 2030", getCurrentKey: "experimental" };
  for (const [id, badge] of Object.entries(badges)) assert.equal(await operation(id).locator(".badge").innerText(), badge);
  assert.equal(await operation("getPet").locator(".try-out__btn").count(), 1);
  for (const id of ["listOrders", "streamEvents"]) {
    assert.equal(await operation(id).locator(".try-out__btn").count(), 0);
    assert.match(await operation(id).locator(".nothing-to-try").innerText(), /^There is no “Try it out” here because [^.]+\.$/);
  }
  const struck = operation("getPet").locator(".opblock-summary-path__deprecated");
  assert.match(await struck.evaluate((path) => getComputedStyle(path).textDecorationLine), /line-through/);
  assert.match(await operation("getPet").innerText(), /use GET \/pets with the status filter instead/);
  assert.deepEqual(problems, []);
});

test("create, list and sell an animal, and get a validation error", async () => {
  await page.locator(".authorize").click();
  await submitKey(secret);
  await page.locator("dialog").waitFor({ state: "detached" });
  for (const id of ["createPet", "listPets", "placeOrder", "completeOrder"]) await tryOut(id);
  // 2^53 + 1, which a JavaScript number cannot represent, round-trips exactly.
  const created = await execute("createPet", '{"name": "Rex", "categoryId": 9007199254740993, "status": "available"}');
  assert.equal(created.status, "201");
  assert.match(created.text, /"categoryId": 9007199254740993\b/);
  const pet = created.text.match(/"id": (\d+)/)[1];
  await operation("listPets").getByLabel("status", { exact: true }).fill("available,pending");
  const listed = await execute("listPets");
  assert.match(listed.text, /"name": "Rex",\n\s+"categoryId": 9007199254740993\b/);

  const placed = await execute("placeOrder", `{"petId": ${pet}}`);
  assert.equal(placed.status, "201");
  await operation("completeOrder").getByLabel("orderId", { exact: true }).fill(placed.text.match(/"id": (\d+)/)[1]);
  assert.match((await execute("completeOrder")).text, /"status": "completed"/);

  const refused = await execute("createPet", '{"name": "", "categoryId": 1.5}');
  assert.equal(refused.status, "400");
  assert.match(refused.text, /"code": "invalid_body"/);
  assert.match(refused.text, /name: must be 1 to 255 characters/);
  assert.deepEqual(problems, []);
});

test("64-bit bounds in the contract are not shown rounded", async () => {
  await page.locator(".models-control").click();
  const models = await page.locator("section.models").innerText();
  assert.match(models, /CategoryId[^]*integer[^]*int64/);
  assert.match(models, /PetId[^]*9007199254740991/);
  assert.doesNotMatch(models, /9223372036854776000/);
});

test("CORS: only allowed origins can use the service; --no-console leaves the API reference", async () => {
  const page = createServer((_, response) => response.setHeader("content-type", "text/html").end("<title>Shop</title>"));
  await new Promise((listening) => page.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${page.address().port}`;
  const [open, closed] = await Promise.all([startService({ args: ["--cors-origin", origin] }), startService({ args: ["--no-console"] })]);
  try {
    const tab = await browser.newPage();
    await tab.goto(origin);
    const create = ([address, key]) =>
      fetch(`${address}/v1/pets`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", "Idempotency-Key": "1" },
        body: '{"name":"Rex","categoryId":1}',
      }).then((response) => [response.status, response.headers.get("location"), response.headers.has("x-request-id")], String);
    assert.deepEqual(await tab.evaluate(create, [open.address, open.createKey()]), [201, "/v1/pets/1", true]);
    assert.match(await tab.evaluate(create, [closed.address, closed.createKey()]), /TypeError/);
    const response = await tab.goto(`${closed.address}/console`);
    assert.deepEqual([response.status(), (await response.json()).code], [404, "not_found"]);
    await tab.goto(closed.address);
    assert.equal(tab.url(), `${closed.address}/docs`);
    assert.equal(await tab.getByRole("link", { name: "Console" }).count(), 0);
    await tab.close();
  } finally {
    page.close();
    await open.stop();
    await closed.stop();
  }
});

test("assets are compressed, immutable, and covered by a strict CSP", async () => {
  const response = await fetch(`${service.address}/docs`);
  const policy = response.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
  const html = await response.text();
  const files = [...html.matchAll(/docs\/assets\/[^"]+/g)].map((match) => match[0]);
  assert.equal(files.length, 9);
  let size = html.length;
  for (const file of files) {
    const compressed = await fetch(`${service.address}/${file}`, { headers: { "accept-encoding": "gzip" } });
    assert.equal(compressed.headers.get("content-encoding"), "gzip");
    assert.match(compressed.headers.get("cache-control"), /immutable/);
    size += Number(compressed.headers.get("content-length"));
    const plain = await fetch(`${service.address}/${file}`, { headers: { "accept-encoding": "gzip;q=0" } });
    assert.equal(plain.headers.get("content-encoding"), null);
    assert.equal(await plain.text(), await compressed.text());
  }
  assert.ok(size < 550_000, `${size} bytes`);
  const missing = await fetch(`${service.address}/docs/assets/nothing.js`);
  assert.equal((await missing.json()).code, "not_found");
});
