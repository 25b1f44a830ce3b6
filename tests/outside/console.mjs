// Drives the console in a real browser.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { after, afterEach, before } from "node:test";
import { chromium } from "playwright-core";
import { startService } from "./harness.mjs";

export const artefacts = process.env.ARTEFACTS ?? "artefacts";
mkdirSync(artefacts, { recursive: true });

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const launch = (...more) =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", ...more],
  });

// Calls the API. The body may have integers that JavaScript cannot represent, as text.
export const caller = (address, key) => async (method, path, body) => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(`${address}/v1/${path}`, { method, headers, body: typeof body === "object" ? JSON.stringify(body) : body });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${text}`);
  return text ? JSON.parse(text) : null;
};

// Logged by the browser at an address that is neither loopback nor HTTPS.
const NOT_HTTPS = /^The Cross-Origin-Opener-Policy header has been ignored/;

// Opens the console with a key, and records errors, exceptions, violations of the policy
// and requests to other origins as problems.
export async function openConsole(browser, address, key, { width = 1440, height = 900, dark = false, touch = false, locale, timeZone } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce", hasTouch: touch, isMobile: touch, locale, timezoneId: timeZone });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !NOT_HTTPS.test(message.text()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  // The browser asks before typing is lost, even if it was not to be kept: the page is left, but not unnoticed.
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    if (page.listenerCount("dialog") === 1) return dialog.accept();
  });
  page.on("request", (request) => request.url().replace(/^blob:/, "").startsWith(address) || problems.push(`a request to ${request.url()}`));
  await page.goto(`${address}/console${key ? `#key=${key}` : ""}`);
  const tools = {
    leave: () => context.close(),
    // The browser says that it is offline before its requests fail, and keeps a stream that the page opens in between: it
    // says so again.
    async goOffline() {
      await context.setOffline(true);
      await page.waitForFunction(() => fetch(location.href, { cache: "no-store" }).then(() => false, () => true));
      await page.evaluate(() => dispatchEvent(new Event("offline")));
    },
    goOnline: () => context.setOffline(false),
    // Without those that a test expects. The browser logs each error response.
    problems: (expected) => problems.filter((text) => !expected?.test(text)),
    row: (name) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) }),
    status: (name, text) => tools.row(name).getByText(text, { exact: true }),
    panel: page.getByRole("complementary"),
    button: (name) => page.getByRole("button", { name, exact: true }),
    edit: () => tools.button("Edit").click(),
    open: (name) => page.getByRole("link", { name, exact: true }).click(),
    live: () => page.getByRole("status").getByText("live", { exact: true }).waitFor(),
    focused: (role, name) => page.getByRole(role, { name, exact: true }).and(page.locator(":focus")).waitFor(),
    // Holds requests back. Returns a function that lets them go on, and waits for their responses.
    async hold(...urls) {
      let release;
      const released = new Promise((resolve) => (release = resolve));
      for (const url of urls) await page.route(url, (route) => released.then(() => route.continue()));
      const responses = urls.map((url) => page.waitForResponse(url));
      return async () => {
        release();
        await Promise.all(responses);
        for (const url of urls) await page.unroute(url);
      };
    },
    // Stops the clock of the page. Requests take real time, and are recorded.
    async stopClock() {
      await page.clock.install();
      await page.clock.pauseAt(Date.now() + 1000);
      await page.evaluate(() => {
        const { fetch } = window;
        window.requests = [];
        window.fetch = async (url, options) => {
          const request = { path: new URL(url).pathname, time: Date.now(), pending: true };
          requests.push(request);
          return fetch(url, options).finally(() => (request.pending = false));
        };
      });
    },
    // When a path was requested, in seconds.
    times: (path) => page.evaluate((path) => requests.filter((request) => request.path === path).map(({ time }) => time / 1000), path),
    // Moves a stopped clock on until a condition holds.
    async runUntil(condition) {
      for (let seconds = 0; seconds < 60; seconds++) {
        await page.waitForFunction(() => requests.every(({ pending }) => !pending));
        if (await condition()) return;
        await page.clock.runFor(1000);
      }
      assert.fail(`not within a minute: ${condition}`);
    },
    // Types digits and Enter with real key events. The pause between two keys is that of the
    // events, however busy this machine is; that before the key at `late` is longer.
    async scan(digits, pause = 10, late = -1) {
      const session = await context.newCDPSession(page);
      let timestamp = Date.now() / 1000;
      for (const [at, key] of [...digits, "Enter"].entries()) {
        if (at === late) timestamp += 0.25;
        const code = key === "Enter" ? key : `Digit${key}`;
        const text = key === "Enter" ? "\r" : key;
        const event = { key, code, windowsVirtualKeyCode: text.charCodeAt(0), timestamp: (timestamp += pause / 1000) };
        await session.send("Input.dispatchKeyEvent", { ...event, type: "keyDown", text });
        await session.send("Input.dispatchKeyEvent", { ...event, type: "keyUp" });
      }
      await session.detach();
    },
    // Looks at it on a desktop and on a phone, light and dark.
    async inspect(name) {
      for (const [device, size] of [["desktop", { width: 1440, height: 900 }], ["phone", { width: 390, height: 844 }]]) {
        await page.setViewportSize(size);
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          await page.isAccessible();
          await page.fits();
          await page.screenshot({ path: `${artefacts}/console-${name}-${device}-${colorScheme}.png` });
        }
      }
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.emulateMedia({ colorScheme: "light" });
    },
    async fits() {
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
      const cut = await page.evaluate(() => [...document.querySelectorAll(".panel, dialog, .drop")]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map((box) => box.textContent.slice(0, 60)));
      assert.deepEqual(cut, [], "something is cut off");
    },
    // Through the debugger: the policy of the page forbids evaluating text.
    async isAccessible() {
      if (!(await page.evaluate(() => "axe" in window))) {
        const session = await context.newCDPSession(page);
        await session.send("Runtime.evaluate", { expression: axe });
        await session.detach();
      }
      const { violations } = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
    },
  };
  return Object.assign(page, tools);
}

// Opens a screen, live.
export async function openScreen(browser, address, key, screen) {
  const page = await openConsole(browser, address, key);
  await page.live();
  const name = screen[0].toUpperCase() + screen.slice(1);
  await page.open(name);
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  return page;
}

// Closes what a failed test left open, and says what was on its pages.
export const closePages = (browser) => async (test) => {
  for (const context of browser().contexts()) {
    for (const page of test.passed ? [] : context.pages()) {
      const text = await page.innerText("body", { timeout: 5000 }).catch(String);
      test.diagnostic(`${page.url()} had this text:\n${text}`);
      await page.screenshot({ path: `${artefacts}/failed-${Date.now()}.png`, timeout: 5000 }).catch(() => {});
    }
    await context.close();
  }
};

// A service and a browser for the tests of a file, which start and end with them. `prepare` gets them before the first test.
export function useConsole({ prepare, ...options } = {}) {
  const store = {
    add: (name, more) => store.call("POST", "pets", { name, categoryId: 1, status: "available", ...more }),
    order: async (name, more) => store.call("POST", "store/orders", { petId: (await store.add(name)).id, ...more }),
    open: (look, secret = store.key) => openConsole(store.browser, store.service.address, secret, look),
    openScreen: (screen, secret = store.key) => openScreen(store.browser, store.service.address, secret, screen),
  };
  before(async () => {
    store.service = await startService({ inMemory: true, ...options, args: ["--reserve-for", "20m", ...(options.args ?? [])] });
    store.browser = await launch();
    store.key = store.service.createKeyNamed("counter-2", "--role", "owner");
    store.call = caller(store.service.address, store.key);
    await prepare?.(store);
  });
  afterEach(closePages(() => store.browser));
  after(async () => {
    await store.browser?.close();
    await store.service?.stop();
  });
  return store;
}

// A receiver of webhooks. Its response can be set.
export async function startReceiver() {
  const server = createHttpServer((request, response) => {
    request.resume();
    response.writeHead(receiver.status).end();
  }).listen(0, "127.0.0.1").unref();
  await new Promise((listening) => server.once("listening", listening));
  const receiver = {
    status: 204,
    url: `http://127.0.0.1:${server.address().port}/hook`,
    args: ["--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"],
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
  return receiver;
}

export const csv = (name, text) => ({ name, mimeType: "text/csv", buffer: Buffer.from(text) });

// A proxy to a service that can lose connections and responses.
export async function startProxy(address) {
  const { hostname, port } = new URL(address);
  const sockets = new Set();
  let dropResponses = false;
  let dropFromNextWrite = false;
  const server = createServer((client) => {
    const service = connect(port, hostname);
    for (const socket of [client, service]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => (sockets.delete(socket), client.destroy(), service.destroy()));
    }
    client.on("data", (data) => (dropResponses ||= dropFromNextWrite && /^(POST|PUT|PATCH|DELETE) /.test(data)));
    client.pipe(service);
    service.on("data", (data) => (dropResponses ? client.destroy() : client.write(data)));
  });
  const listen = (at) => new Promise((listening) => server.listen(at, "127.0.0.1", listening));
  await listen(0);
  // A test that fails does not close it.
  server.unref();
  const own = server.address().port;
  const cut = () => sockets.forEach((socket) => socket.destroy());
  return {
    address: `http://127.0.0.1:${own}`,
    cut,
    // From the next write on, requests arrive, but their responses are lost. Not before: an
    // event would cut the stream, and the page would disable the button that writes.
    dropResponses(drop) {
      dropFromNextWrite = drop;
      dropResponses &&= drop;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
    reopen: () => listen(own),
  };
}
