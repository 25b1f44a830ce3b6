// End-to-end tests of the docs page in a real browser.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { startService } from "./harness.mjs";

const artefacts = process.env.ARTEFACTS ?? "artefacts";
mkdirSync(artefacts, { recursive: true });

let service, browser, context, page, problems;

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

// Opens the page and records console errors, exceptions and requests to other origins.
async function open(options = {}) {
  await context?.close();
  context = await browser.newContext(options);
  page = await context.newPage();
  page.setDefaultTimeout(20_000);
  problems = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(service.address) && !url.startsWith("data:") && !url.startsWith("blob:")) problems.push(`a request to ${url}`);
  });
  await page.goto(`${service.address}/docs`);
  await page.locator("html.ready").waitFor();
  await page.locator(".opblock").first().waitFor();
}

const operation = (id) => page.locator(`[id$="-${id}"].opblock`);

async function expand(id) {
  await operation(id).locator(".opblock-summary-control").click();
  await operation(id).locator(".opblock-body").waitFor();
}

async function authorize(key) {
  await page.locator(".btn.authorize").click();
  await page.locator(".auth-container input").fill(key);
  await page.locator(".auth-btn-wrapper .authorize").click();
  await page.locator(".auth-btn-wrapper .btn-done").click();
}

// Executes an operation in its "Try it out" panel and returns the response shown.
async function execute(id, body) {
  const block = operation(id);
  if (body !== undefined) await block.locator("textarea.body-param__text").fill(body);
  const responded = page.waitForResponse((response) => response.url().includes("/v1/"));
  await block.locator(".btn.execute").click();
  const status = String((await responded).status());
  await block.locator(".live-responses-table .response-col_status", { hasText: status }).waitFor();
  const live = block.locator(".live-responses-table .response");
  await live.waitFor();
  return {
    status: (await live.locator(".response-col_status").innerText()).trim(),
    text: await live.locator(".response-col_description .highlight-code").first().innerText(),
  };
}

test("the page loads without errors and explains how to start", async () => {
  await open();
  assert.equal(await page.title(), "Petstore API");
  assert.match(await page.locator("header").innerText(), /petstore keys create/);
  assert.equal(await page.locator(".opblock").count(), 30);
  await page.screenshot({ path: `${artefacts}/docs.png` });
  const pets = ["listPets", "createPet", "getPet", "updatePet", "deletePet", "getInventory"];
  const categories = ["listCategories", "putCategory", "deleteCategory"];
  const orders = ["listOrders", "placeOrder", "getOrder", "completeOrder", "cancelOrder", "returnOrder"];
  const webhooks = ["createWebhook", "receiveEvent"];
  for (const id of [...pets, ...categories, ...orders, ...webhooks]) {
    await expand(id);
    // Every expanded operation slows the page down.
    await operation(id).locator(".opblock-summary-control").click();
  }
  assert.deepEqual(problems, []);
});

test("authorize once, create a pet, list it, and get a validation error", async () => {
  await open();
  await authorize(service.createKey());
  for (const id of ["createPet", "listPets", "getPet"]) {
    await expand(id);
    await operation(id).locator(".try-out__btn").click();
  }
  // 2^53 + 1, which a JavaScript number cannot represent, round-trips exactly.
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
  // The browser logs the expected 400 as an error.
  assert.deepEqual(problems.filter((text) => !/status of 400/.test(text)), []);
});

test("place and complete an order", async () => {
  await open();
  await authorize(service.createKey());
  for (const id of ["createPet", "placeOrder", "completeOrder", "getInventory"]) {
    await expand(id);
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
  assert.deepEqual(problems, []);
});

test("a request without a key gets 401", async () => {
  await open();
  await expand("listPets");
  await operation("listPets").locator(".try-out__btn").click();
  const refused = await execute("listPets");
  assert.equal(refused.status, "401");
  assert.match(refused.text, /missing_api_key/);
});

test("operations show stability, sunset date and deprecation", async () => {
  await open();
  assert.equal(await operation("listOrders").locator(".badge").innerText(), "experimental");
  assert.equal(await operation("placeOrder").locator(".badge").innerText(), "experimental");
  assert.equal(await operation("returnOrder").locator(".badge").innerText(), "experimental");
  assert.equal(await operation("putCategory").locator(".badge").innerText(), "experimental");
  assert.equal(await operation("updatePet").locator(".badge").innerText(), "beta");
  assert.equal(await operation("deletePet").locator(".badge").innerText(), "beta");
  assert.equal(await operation("getPet").locator(".badge").innerText(), "to be removed on 5 December 2030");
  for (const id of ["listPets", "getPet", "listOrders", "placeOrder"]) await expand(id);
  assert.equal(await operation("placeOrder").locator(".try-out__btn").count(), 1);
  assert.equal(await operation("listPets").locator(".try-out__btn").count(), 1);
  assert.equal(await operation("listOrders").locator(".try-out__btn").count(), 0, "no try-it panel");
  const struck = operation("getPet").locator(".opblock-summary-path__deprecated");
  assert.match(await struck.evaluate((path) => getComputedStyle(path).textDecorationLine), /line-through/);
  assert.match(await operation("getPet").innerText(), /use GET \/pets with the status filter instead/);
});

test("CORS: only allowed origins can use the service", async () => {
  const page = createServer((_, response) => response.setHeader("content-type", "text/html").end("<title>Shop</title>"));
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
      }).then((response) => [response.status, response.headers.get("location"), response.headers.has("x-request-id")], String);
    assert.deepEqual(await tab.evaluate(create, [open.address, open.createKey()]), [201, "/v1/pets/1", true]);
    assert.match(await tab.evaluate(create, [closed.address, closed.createKey()]), /TypeError/);
    await tab.close();
  } finally {
    page.close();
    await open.stop();
    await closed.stop();
  }
});

test("64-bit bounds in the contract are not shown rounded", async () => {
  await open();
  await page.locator("section.models button").first().click();
  const models = await page.locator("section.models").innerText();
  assert.match(models, /CategoryId.*integer.*int64/);
  assert.match(models, /PetId.*9007199254740991/);
  assert.doesNotMatch(models, /9223372036854776000/);
});

test("the layout fits a phone, in light and dark mode", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await open({ viewport: { width: 390, height: 844 }, colorScheme });
    await expand("listPets");
    await page.screenshot({ path: `${artefacts}/phone-${colorScheme}.png`, fullPage: true });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    const shade = await page.evaluate(() => {
      const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return (r + g + b) / 3 < 128 ? "dark" : "light";
    });
    assert.equal(shade, colorScheme);
    assert.deepEqual(problems, []);
  }
});

test("assets are compressed, immutable, and covered by a strict CSP", async () => {
  const response = await fetch(`${service.address}/docs`);
  const policy = response.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
  const html = await response.text();
  const files = [...html.matchAll(/docs\/assets\/[^"]+/g)].map((match) => match[0]);
  assert.equal(files.length, 8);
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
  assert.ok(size < 600_000, `${size} bytes`);
  const missing = await fetch(`${service.address}/docs/assets/nothing.js`);
  assert.equal((await missing.json()).code, "not_found");
});
