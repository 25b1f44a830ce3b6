// Starts the real service over a fresh file, for tools that we did not write.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const binary = process.env.PETSTORE_BINARY;
if (!binary) throw new Error("PETSTORE_BINARY names the program under test; `make test` sets it");

export async function startService() {
  const folder = mkdtempSync(join(tmpdir(), "petstore-"));
  const database = ["--database", `sqlite:${join(folder, "petstore.db")}`];
  const process = spawn(binary, ["serve", "--listen", "127.0.0.1:0", ...database], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines = createInterface({ input: process.stderr });
  const { value: first } = await lines[Symbol.asyncIterator]().next();
  const address = first.match(/http:\/\/\S+/)[0];
  const keys = (...args) => execFileSync(binary, ["keys", ...args, ...database], { stdio: "pipe" });
  return {
    address,
    makeKey: (...args) => keys("create", "test", ...args).toString().trim(),
    async stop() {
      const ended = new Promise((resolve) => process.once("exit", resolve));
      process.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}
