// A second opinion on HTTP/1.1: the service and h11 read the same mutated requests.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const script = join(dirname(fileURLToPath(import.meta.url)), "http1_parsers.py");
const python = join(process.env.PYTHON_TOOLS, "python");
const execute = promisify(execFile);

// `make fuzz` sends more.
const CASES = "1500";

// Set SEED to repeat a run.
test("the service accepts no request that h11 reads otherwise", async (context) => {
  const seed = process.env.SEED ? [process.env.SEED] : [];
  const { stdout } = await execute(python, [script, process.env.PETSTORE_BINARY, CASES, ...seed], { maxBuffer: Infinity }).catch((failure) => assert.fail(`${failure.stdout}\n${failure.stderr}`));
  context.diagnostic(stdout.trim());
});
