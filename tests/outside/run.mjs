// Runs all tests, those that take longest first: `node --test` sorts them by name.

import { readdirSync } from "node:fs";
import { run } from "node:test";
import { spec } from "node:test/reporters";

const LONGEST = ["contract", "browser", "console", "console-people", "console-screens", "console-faults", "console-import", "console-many"].map((name) => `${name}.test.mjs`);
const others = readdirSync(".").filter((name) => name.endsWith(".test.mjs") && !LONGEST.includes(name));

run({ files: [...LONGEST, ...others], concurrency: 3 })
  .on("test:fail", () => (process.exitCode = 1))
  .compose(spec)
  .pipe(process.stdout);
