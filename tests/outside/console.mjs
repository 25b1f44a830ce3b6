// Drives the console in a real browser.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { chromium } from "playwright-core";

export const artefacts = process.env.ARTEFACTS ?? "artefacts";
mkdirSync(artefacts, { recursive: true });

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });

// Calls the API. The body may have integers that JavaScript cannot represent, as text.
export const caller = (address, key) => async (method, path, body) => {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const response = await fetch(`${address}/v1/${path}`, { method, headers, body: typeof body === "object" ? JSON.stringify(body) : body });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${text}`);
  return text ? JSON.parse(text) : null;
};

// Opens the console with a key, and records errors, exceptions, violations of the policy
// and requests to other origins as problems.
export async function openConsole(browser, address, key, { width = 1440, height = 900, dark = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => problems.push(`a dialog: ${dialog.message()}`));
  page.on("request", (request) => request.url().startsWith(address) || problems.push(`a request to ${request.url()}`));
  await page.goto(`${address}/console${key ? `#key=${key}` : ""}`);
  const tools = {
    leave: () => context.close(),
    // Without those that a test expects. The browser logs each error response.
    problems: (expected) => problems.filter((text) => !expected?.test(text)),
    row: (name) => page.locator("tbody tr", { has: page.getByRole("link", { name, exact: true }) }),
    status: (name) => tools.row(name).locator(".pill"),
    panel: page.locator(".panel"),
    button: (name) => page.getByRole("button", { name, exact: true }),
    open: (name) => page.getByRole("link", { name, exact: true }).click(),
    live: () => page.locator("#live", { hasText: /^live$/ }).waitFor(),
    async fits() {
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    },
    // Through the debugger: the policy of the page forbids evaluating text.
    async isAccessible() {
      const session = await context.newCDPSession(page);
      await session.send("Runtime.evaluate", { expression: axe });
      await session.detach();
      const { violations } = await page.evaluate(() => axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]), []);
    },
  };
  return Object.assign(page, tools);
}

// A proxy to a service that can lose connections and responses.
export async function startProxy(address) {
  const { hostname, port } = new URL(address);
  const sockets = new Set();
  let dropResponses = false;
  const server = createServer((client) => {
    const service = connect(port, hostname);
    for (const socket of [client, service]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => (sockets.delete(socket), client.destroy(), service.destroy()));
    }
    client.pipe(service);
    service.on("data", (data) => (dropResponses ? client.destroy() : client.write(data)));
  });
  const listen = (at) => new Promise((listening) => server.listen(at, "127.0.0.1", listening));
  await listen(0);
  const own = server.address().port;
  const cut = () => sockets.forEach((socket) => socket.destroy());
  return {
    address: `http://127.0.0.1:${own}`,
    cut,
    // From now on, requests arrive, but their responses are lost.
    dropResponses: (drop) => (dropResponses = drop),
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      cut();
      await closed;
    },
    reopen: () => listen(own),
  };
}
