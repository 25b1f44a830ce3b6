// The contract in the hands of tools that we did not write: a linter, a fuzzer,
// and generators of clients.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { withService } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const python = (tool) => join(process.env.PYTHON_TOOLS, tool);
const node = (tool) => join(here, "node_modules", ".bin", tool);

// Generated code lives below the modules that it imports.
const generated = join(here, "node_modules", ".generated");
rmSync(generated, { recursive: true, force: true });
mkdirSync(generated);

// Runs a tool; if it fails, all that it said is in the failure.
function run(tool, ...args) {
  const env = { ...process.env, PATH: `${process.env.PYTHON_TOOLS}:${process.env.PATH}` };
  try {
    return execFileSync(tool, args, { cwd: here, env, encoding: "utf8", stdio: "pipe" });
  } catch (failure) {
    throw new Error(`${tool} ended with ${failure.status}\n${failure.stdout}\n${failure.stderr}`);
  }
}

test("the linter has nothing to say", () => {
  const contract = join(here, "..", "..", "openapi.yaml");
  const report = JSON.parse(run(node("redocly"), "lint", "--format=json", "--config=redocly.yaml", contract));
  assert.deepEqual(report.problems, []);
});

test("the fuzzer finds no difference between contract and behaviour", () =>
  withService({}, ({ address, makeKey }) => {
    run(
      python("schemathesis"), "--config-file", "schemathesis.toml",
      "run", `${address}/v1/openapi.json`, "--header", `Authorization: Bearer ${makeKey()}`,
      "--checks", "all", "--phases", "examples,coverage,fuzzing,stateful",
    );
  }));

test("a generated Python client works at the first call", async () => {
  const folder = join(generated, "python");
  mkdirSync(folder);
  const client = (...args) => run(python("python"), join(here, "clients", "client.py"), folder, ...args);

  await withService({}, ({ address, makeKey }) => {
    const target = join(folder, "petstore_client");
    const contract = `${address}/v1/openapi.json`;
    run(python("openapi-python-client"), "generate", "--url", contract, "--meta=none", "--fail-on-warning", "--output-path", target);
    run(python("python"), "-m", "compileall", "-q", target);
    client(`${address}/v1`, makeKey(), makeKey("--scope", "orders:read"));
  });

  const afterItsDay = { wrapper: ["faketime", "2030-12-05 00:00:00"] };
  await withService(afterItsDay, ({ address, makeKey }) => {
    client(`${address}/v1`, makeKey(), "-", "removed");
  });

  await withService({}, ({ address, makeKey, file }) => {
    const key = makeKey();
    const takeTableAway = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('ALTER TABLE pets RENAME TO away')";
    run(python("python"), "-c", takeTableAway, file);
    client(`${address}/v1`, key, "-", "failing");
  });
});

test("a generated TypeScript client is well typed, and works at the first call", async () => {
  const folder = join(generated, "typescript");
  mkdirSync(folder);
  const client = (...args) => run("node", join(folder, "client.mjs"), ...args);

  await withService({}, ({ address, makeKey }) => {
    run(node("openapi-typescript"), `${address}/v1/openapi.json`, "--output", join(folder, "contract.d.ts"));
    copyFileSync(join(here, "clients", "client.ts"), join(folder, "client.mts"));
    run(node("tsc"), "--strict", "--target", "es2022", "--lib", "es2022", "--module", "nodenext", "--types", "node", join(folder, "client.mts"));
    client(`${address}/v1`, makeKey(), makeKey("--scope", "orders:read"));
  });

  await withService({}, async ({ address, makeKey, spoil }) => {
    const key = makeKey();
    await fetch(`${address}/v1/nothing`, { headers: { Authorization: `Bearer ${key}` } });
    spoil();
    client(`${address}/v1`, key, "-", "broken");
  });
});
