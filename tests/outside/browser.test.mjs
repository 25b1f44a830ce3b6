// The docs page as a person uses it, in a real browser.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { startService } from "./harness.mjs";

const artefacts = process.env.ARTEFACTS ?? "artefacts";
mkdirSync(artefacts, { recursive: true });

let service, browser, context, page, complaints;

before(async () => {
  service = await startService();
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

// Opens the page and writes down everything that should not happen.
async function open(options = {}) {
  await context?.close();
  context = await browser.newContext(options);
  page = await context.newPage();
  page.setDefaultTimeout(20_000);
  complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(service.address) && !url.startsWith("data:") && !url.startsWith("blob:")) complaints.push(`a request to ${url}`);
  });
  await page.goto(service.address);
  await page.locator("html.ready").waitFor();
  await page.locator(".opblock").first().waitFor();
}

const operation = (id) => page.locator(`[id$="-${id}"].opblock`);

async function unfold(id) {
  await operation(id).locator(".opblock-summary-control").click();
  await operation(id).locator(".opblock-body").waitFor();
}

async function authorize(key) {
  await page.locator(".btn.authorize").click();
  await page.locator(".auth-container input").fill(key);
  await page.locator(".auth-btn-wrapper .authorize").click();
  await page.locator(".auth-btn-wrapper .btn-done").click();
}

// Fills in an operation that is being tried, sends it, and returns the answer.
async function execute(id, body) {
  const place = operation(id);
  if (body !== undefined) await place.locator("textarea.body-param__text").fill(body);
  const answered = page.waitForResponse((response) => response.url().includes("/v1/"));
  await place.locator(".btn.execute").click();
  const status = String((await answered).status());
  await place.locator(".live-responses-table .response-col_status", { hasText: status }).waitFor();
  const live = place.locator(".live-responses-table .response");
  await live.waitFor();
  return {
    status: (await live.locator(".response-col_status").innerText()).trim(),
    text: await live.locator(".response-col_description .highlight-code").first().innerText(),
  };
}

test("the page leads a visitor in, and complains about nothing", async () => {
  await open();
  assert.equal(await page.title(), "Petstore API");
  assert.match(await page.locator("header").innerText(), /petstore keys create/);
  assert.equal(await page.locator(".opblock").count(), 10);
  await page.screenshot({ path: `${artefacts}/docs.png` });
  for (const id of ["listPets", "createPet", "getPet", "updatePet", "getInventory", "listOrders", "placeOrder", "getOrder", "completeOrder", "cancelOrder"]) await unfold(id);
  assert.deepEqual(complaints, []);
});

test("a person enters a key once, adds an animal, lists it, and sees a mistake explained", async () => {
  await open();
  await authorize(service.makeKey());
  for (const id of ["createPet", "listPets", "getPet"]) {
    await unfold(id);
    await operation(id).locator(".try-out__btn").click();
  }
  // 2^53 + 1: a number that JavaScript cannot hold goes there and back.
  const created = await execute("createPet", '{"name": "Biscuit", "categoryId": 9007199254740993}');
  assert.equal(created.status, "201");
  assert.match(created.text, /"categoryId": 9007199254740993\b/);

  const listed = await execute("listPets");
  assert.equal(listed.status, "200");

  const parameter = operation("listPets").locator("tr", { hasText: "status" }).locator("select").first();
  await parameter.selectOption("");
  const all = await execute("listPets");
  assert.match(all.text, /"name": "Biscuit",\n\s+"categoryId": 9007199254740993\b/);

  const fetched = await execute("getPet");
  assert.match(fetched.text, /9007199254740993/);

  const refused = await execute("createPet", '{"name": "", "categoryId": 1.5}');
  assert.equal(refused.status, "400");
  assert.match(refused.text, /"code": "invalid_body"/);
  assert.match(refused.text, /name: must be 1 to 255 characters/);
  await operation("createPet").screenshot({ path: `${artefacts}/create.png` });
  // The browser itself reports the 400 that was asked for.
  assert.deepEqual(complaints.filter((text) => !/status of 400/.test(text)), []);
});

test("a person sells an animal", async () => {
  await open();
  await authorize(service.makeKey());
  for (const id of ["createPet", "placeOrder", "completeOrder", "getInventory"]) {
    await unfold(id);
    await operation(id).locator(".try-out__btn").click();
  }
  const created = await execute("createPet", '{"name": "Rex", "categoryId": 1, "status": "available"}');
  const pet = created.text.match(/"id": (\d+)/)[1];
  const placed = await execute("placeOrder", `{"petId": ${pet}}`);
  assert.equal(placed.status, "201");
  const order = placed.text.match(/"id": (\d+)/)[1];
  await operation("completeOrder").locator("tr", { hasText: "orderId" }).locator("input").fill(order);
  const completed = await execute("completeOrder");
  assert.match(completed.text, /"status": "completed"/);
  const inventory = await execute("getInventory");
  assert.match(inventory.text, /"sold": 1/);
  await operation("placeOrder").screenshot({ path: `${artefacts}/order.png` });
  assert.deepEqual(complaints, []);
});

test("without a key the answer says that one is needed", async () => {
  await open();
  await unfold("listPets");
  await operation("listPets").locator(".try-out__btn").click();
  const refused = await execute("listPets");
  assert.equal(refused.status, "401");
  assert.match(refused.text, /missing_api_key/);
});

test("operations show what the contract says of them", async () => {
  await open();
  assert.equal(await operation("listOrders").locator(".badge").innerText(), "experimental");
  assert.equal(await operation("placeOrder").locator(".badge").innerText(), "experimental");
  assert.equal(await operation("updatePet").locator(".badge").innerText(), "beta");
  assert.equal(await operation("getPet").locator(".badge").innerText(), "to be removed on 5 December 2030");
  for (const id of ["listPets", "getPet", "listOrders", "placeOrder"]) await unfold(id);
  assert.equal(await operation("placeOrder").locator(".try-out__btn").count(), 1);
  assert.equal(await operation("listPets").locator(".try-out__btn").count(), 1);
  assert.equal(await operation("listOrders").locator(".try-out__btn").count(), 0, "no try-it panel");
  const struck = operation("getPet").locator(".opblock-summary-path__deprecated");
  assert.match(await struck.evaluate((path) => getComputedStyle(path).textDecorationLine), /line-through/);
  assert.match(await operation("getPet").innerText(), /Use GET \/pets with the status filter instead/);
});

test("a page of another origin uses the service if it may", async () => {
  const page = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<title>Shop</title>"));
  await new Promise((listening) => page.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${page.address().port}`;
  const [open, closed] = await Promise.all([startService({ args: ["--cors-origin", origin] }), startService()]);
  try {
    const tab = await browser.newPage();
    await tab.goto(origin);
    const create = ([address, key]) =>
      fetch(`${address}/v1/pets`, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", "Idempotency-Key": "1" },
        body: '{"name":"Rex","categoryId":1}',
      }).then((answer) => [answer.status, answer.headers.get("location"), answer.headers.has("x-request-id")], String);
    assert.deepEqual(await tab.evaluate(create, [open.address, open.makeKey()]), [201, "/v1/pets/1", true]);
    assert.match(await tab.evaluate(create, [closed.address, closed.makeKey()]), /TypeError/);
    await tab.close();
  } finally {
    page.close();
    await open.stop();
    await closed.stop();
  }
});

test("no number of the contract is shown rounded", async () => {
  await open();
  await page.locator("section.models button").first().click();
  const models = await page.locator("section.models").innerText();
  assert.match(models, /CategoryId.*integer.*int64/);
  assert.match(models, /PetId.*9007199254740991/);
  assert.doesNotMatch(models, /9223372036854776000/);
});

test("it is readable on a phone, in light and in dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await open({ viewport: { width: 390, height: 844 }, colorScheme });
    await unfold("listPets");
    await page.screenshot({ path: `${artefacts}/phone-${colorScheme}.png`, fullPage: true });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    const shade = await page.evaluate(() => {
      const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return (r + g + b) / 3 < 128 ? "dark" : "light";
    });
    assert.equal(shade, colorScheme);
    assert.deepEqual(complaints, []);
  }
});

test("files are compressed, kept by the browser, and guarded by a strict policy", async () => {
  const answer = await fetch(`${service.address}/docs`);
  const policy = answer.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
  const html = await answer.text();
  const files = [...html.matchAll(/docs\/assets\/[^"]+/g)].map((match) => match[0]);
  assert.equal(files.length, 7);
  let size = html.length;
  for (const file of files) {
    const packed = await fetch(`${service.address}/${file}`, { headers: { "accept-encoding": "gzip" } });
    assert.equal(packed.headers.get("content-encoding"), "gzip");
    assert.match(packed.headers.get("cache-control"), /immutable/);
    size += Number(packed.headers.get("content-length"));
    const plain = await fetch(`${service.address}/${file}`, { headers: { "accept-encoding": "gzip;q=0" } });
    assert.equal(plain.headers.get("content-encoding"), null);
    assert.equal(await plain.text(), await packed.text());
  }
  assert.ok(size < 600_000, `${size} bytes`);
  const missing = await fetch(`${service.address}/docs/assets/nothing.js`);
  assert.equal((await missing.json()).code, "not_found");
});
