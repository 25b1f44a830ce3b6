// Third-party tools on the contract: a linter, a property-based fuzzer, and
// client generators.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { withService } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const python = (tool) => join(process.env.PYTHON_TOOLS, tool);
const node = (tool) => join(here, "node_modules", ".bin", tool);

// Generated code lives below node_modules, so that its imports resolve.
const generated = join(here, "node_modules", ".generated");
rmSync(generated, { recursive: true, force: true });
mkdirSync(generated);

const execute = promisify(execFile);

// Runs a tool; a failure includes its output.
async function run(tool, ...args) {
  const env = { ...process.env, PATH: `${process.env.PYTHON_TOOLS}:${process.env.PATH}` };
  try {
    return (await execute(tool, args, { cwd: here, env, maxBuffer: Infinity })).stdout;
  } catch (failure) {
    throw new Error(`${tool} exited with ${failure.code}\n${failure.stdout}\n${failure.stderr}`);
  }
}

// Runs `use` with a service that answers every request with an error of a later version:
// a code and a member that the contract does not list.
async function withUnknownErrors(use) {
  const error = { code: "pet_on_holiday", message: "the pet is on holiday", status: 400, until: "2027-01-07" };
  const service = createServer((request, response) => {
    request.resume();
    response.writeHead(error.status, { "Content-Type": "application/json" }).end(JSON.stringify(error));
  });
  await new Promise((listening) => service.listen(0, "127.0.0.1", listening));
  try {
    await use(`http://127.0.0.1:${service.address().port}`);
  } finally {
    service.closeAllConnections();
    service.close();
  }
}

// Each has a service of its own, and waits for others as often as it computes.
describe("the contract", { concurrency: 2 }, () => {
  test("the contract passes the linter", async () => {
    const contract = join(here, "..", "..", "openapi.yaml");
    const report = JSON.parse(await run(node("redocly"), "lint", "--format=json", "--config=redocly.yaml", contract));
    assert.deepEqual(report.problems, []);
  });

  // It sends requests without a key to every operation.
  const fuzzed = { args: ["--failed-auth-limit", "10000/60s"] };
  const fuzz = ({ address, createKey }, ...args) => {
    const [, , key] = [createKey(), createKey(), createKey("--role", "owner")];
    return run(
      python("schemathesis"), "--config-file", "schemathesis.toml",
      "run", `${address}/v1/openapi.json`, "--header", `Authorization: Bearer ${key}`,
      // A key that was revoked is still shown, with the time.
      "--checks", "all", "--exclude-checks", "use_after_free", ...args,
    );
  };

  test("the fuzzer finds no deviation from the contract", () =>
    withService(fuzzed, (service) => fuzz(service, "--phases", "examples,coverage,fuzzing,stateful")));

  test("the fuzzer finds no deviation from the contract with strict handling", () =>
    withService(fuzzed, (service) =>
      fuzz(
        service, "--phases", "examples,fuzzing", "--max-examples", "15",
        "--header", "Prefer: handling=strict",
      )));

  test("a generated Python client works", async () => {
    const dir = join(generated, "python");
    mkdirSync(dir);
    const client = (...args) => run(python("python"), join(here, "clients", "client.py"), dir, ...args);

    await withService({}, async ({ address, createKey }) => {
      const target = join(dir, "petstore_client");
      const contract = `${address}/v1/openapi.json`;
      await run(python("openapi-python-client"), "generate", "--url", contract, "--meta=none", "--config", join(here, "openapi-python-client.yaml"), "--fail-on-warning", "--output-path", target);
      await run(python("python"), "-m", "compileall", "-q", target);
      await client(`${address}/v1`, createKey(), createKey("--scope", "orders:read"));
    });

    const afterSunset = { wrapper: ["faketime", "2030-12-05 00:00:00"] };
    await withService(afterSunset, ({ address, createKey }) => client(`${address}/v1`, createKey(), "-", "removed"));

    await withService({}, async ({ address, createKey, file }) => {
      const key = createKey();
      const renameTable = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('ALTER TABLE pets RENAME TO away')";
      await run(python("python"), "-c", renameTable, file);
      await client(`${address}/v1`, key, "-", "failing");
    });

    await withUnknownErrors((address) => client(`${address}/v1`, "key", "-", "unknown"));
  });

  test("a generated TypeScript client type-checks and works", async () => {
    const dir = join(generated, "typescript");
    mkdirSync(dir);
    const client = (...args) => run("node", join(dir, "client.mjs"), ...args);

    await withService({}, async ({ address, createKey }) => {
      await run(node("openapi-typescript"), `${address}/v1/openapi.json`, "--output", join(dir, "contract.d.ts"));
      copyFileSync(join(here, "clients", "client.ts"), join(dir, "client.mts"));
      await run(node("tsc"), "--strict", "--target", "es2023", "--lib", "es2023", "--module", "nodenext", "--types", "node", join(dir, "client.mts"));
      await client(`${address}/v1`, createKey(), createKey("--scope", "orders:read"));
    });

    await withService({}, async ({ address, createKey, corrupt }) => {
      const key = createKey();
      await fetch(`${address}/v1/nothing`, { headers: { Authorization: `Bearer ${key}` } });
      corrupt();
      await client(`${address}/v1`, key, "-", "broken");
    });

    await withUnknownErrors((address) => client(`${address}/v1`, "key", "-", "unknown"));
  });
});
