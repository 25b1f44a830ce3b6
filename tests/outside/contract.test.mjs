// Third-party tools on the contract: a linter, a property-based fuzzer, and
// client generators.

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

// Generated code lives below node_modules, so that its imports resolve.
const generated = join(here, "node_modules", ".generated");
rmSync(generated, { recursive: true, force: true });
mkdirSync(generated);

// Runs a tool; a failure includes its output.
function run(tool, ...args) {
  const env = { ...process.env, PATH: `${process.env.PYTHON_TOOLS}:${process.env.PATH}` };
  try {
    return execFileSync(tool, args, { cwd: here, env, encoding: "utf8", stdio: "pipe" });
  } catch (failure) {
    throw new Error(`${tool} exited with ${failure.status}\n${failure.stdout}\n${failure.stderr}`);
  }
}

test("the contract passes the linter", () => {
  const contract = join(here, "..", "..", "openapi.yaml");
  const report = JSON.parse(run(node("redocly"), "lint", "--format=json", "--config=redocly.yaml", contract));
  assert.deepEqual(report.problems, []);
});

test("the fuzzer finds no deviation from the contract", () =>
  withService({}, ({ address, createKey }) => {
    run(
      python("schemathesis"), "--config-file", "schemathesis.toml",
      "run", `${address}/v1/openapi.json`, "--header", `Authorization: Bearer ${createKey()}`,
      "--checks", "all", "--phases", "examples,coverage,fuzzing,stateful",
    );
  }));

test("a generated Python client works", async () => {
  const dir = join(generated, "python");
  mkdirSync(dir);
  const client = (...args) => run(python("python"), join(here, "clients", "client.py"), dir, ...args);

  await withService({}, ({ address, createKey }) => {
    const target = join(dir, "petstore_client");
    const contract = `${address}/v1/openapi.json`;
    run(python("openapi-python-client"), "generate", "--url", contract, "--meta=none", "--fail-on-warning", "--output-path", target);
    run(python("python"), "-m", "compileall", "-q", target);
    client(`${address}/v1`, createKey(), createKey("--scope", "orders:read"));
  });

  const afterSunset = { wrapper: ["faketime", "2030-12-05 00:00:00"] };
  await withService(afterSunset, ({ address, createKey }) => {
    client(`${address}/v1`, createKey(), "-", "removed");
  });

  await withService({}, ({ address, createKey, file }) => {
    const key = createKey();
    const renameTable = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('ALTER TABLE pets RENAME TO away')";
    run(python("python"), "-c", renameTable, file);
    client(`${address}/v1`, key, "-", "failing");
  });
});

test("a generated TypeScript client type-checks and works", async () => {
  const dir = join(generated, "typescript");
  mkdirSync(dir);
  const client = (...args) => run("node", join(dir, "client.mjs"), ...args);

  await withService({}, ({ address, createKey }) => {
    run(node("openapi-typescript"), `${address}/v1/openapi.json`, "--output", join(dir, "contract.d.ts"));
    copyFileSync(join(here, "clients", "client.ts"), join(dir, "client.mts"));
    run(node("tsc"), "--strict", "--target", "es2022", "--lib", "es2022", "--module", "nodenext", "--types", "node", join(dir, "client.mts"));
    client(`${address}/v1`, createKey(), createKey("--scope", "orders:read"));
  });

  await withService({}, async ({ address, createKey, corrupt }) => {
    const key = createKey();
    await fetch(`${address}/v1/nothing`, { headers: { Authorization: `Bearer ${key}` } });
    corrupt();
    client(`${address}/v1`, key, "-", "broken");
  });
});
