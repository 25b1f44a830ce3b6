// Runs the examples of docs/events.md: clients that mirror the animals of a service.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { withService } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const examples = join(here, "..", "..", "docs", "examples");
const python = join(process.env.PYTHON_TOOLS, "python");
const execute = promisify(execFile);

// Below node_modules, so that the types of Node.js are found.
const compiled = mkdtempSync(join(here, "node_modules", ".mirror-"));
process.on("exit", () => rmSync(compiled, { recursive: true }));

before(async () => {
  copyFileSync(join(examples, "mirror.ts"), join(compiled, "mirror.mts"));
  const tsc = join(here, "node_modules", ".bin", "tsc");
  await execute(tsc, ["--strict", "--target", "es2023", "--lib", "es2023", "--module", "nodenext", "--types", "node", join(compiled, "mirror.mts")]);
});

const dump = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
pets = [json.loads(pet) for pet, in db.execute("SELECT pet FROM pets ORDER BY id")]
print(json.dumps({"position": db.execute("SELECT id FROM position").fetchone()[0], "pets": pets}))
`;

const languages = {
  Python: {
    command: [python, join(examples, "mirror.py")],
    read: async (file) => JSON.parse((await execute(python, ["-c", dump, file])).stdout),
  },
  TypeScript: {
    command: ["node", join(compiled, "mirror.mjs")],
    read: async (file) => {
      const { position, pets } = JSON.parse(readFileSync(file, "utf8"));
      return { position, pets: Object.values(pets) };
    },
  },
};

async function eventually(what, condition) {
  let failure;
  // Longer than the mirror waits for a response.
  for (let tries = 0; tries < 2000; tries++) {
    try {
      if (await condition()) return;
    } catch (error) {
      failure = error;
    }
    await setTimeout(50);
  }
  assert.fail(`timed out waiting for ${what}: ${failure}`);
}

for (const [language, { command, read }] of Object.entries(languages)) {
  test(`the mirror in ${language} agrees with the service`, () =>
    withService({ args: ["--max-events", "100"] }, async (service) => {
      const key = service.createKey();
      const file = `${service.file}.mirror`;
      const [program, ...rest] = [...command, service.address, file];
      const env = { ...process.env, PETSTORE_KEY: key };
      const once = () => execute(program, [...rest, "--once"], { env });

      const request = async (method, path, body, type = "application/json") => {
        const headers = { Authorization: `Bearer ${key}`, ...(body && { "Content-Type": type }) };
        return fetch(`${service.address}/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
      };
      // Creates animals, and changes or deletes every third.
      const change = async (count) => {
        for (let n = 0; n < count; n++) {
          const created = await request("POST", "pets", { name: `Rex ${n}`, categoryId: n, status: "available" });
          const { id } = await created.json();
          if (n % 3 === 1) await request("PATCH", `pets/${id}`, { name: "Rex II" }, "application/merge-patch+json");
          if (n % 3 === 2) await request("DELETE", `pets/${id}`);
        }
      };
      const list = async () => {
        const all = [];
        for (let path = "pets?limit=100"; path; ) {
          const response = await request("GET", path);
          all.push(...(await response.json()));
          path = /\/v1\/([^>]*)>; rel="next"/.exec(response.headers.get("Link"))?.[1];
        }
        return all;
      };
      const agrees = async () => assert.deepEqual((await read(file)).pets, await list());

      // The first list has several pages; the second run only applies events.
      await change(160);
      await once();
      await agrees();
      const { position } = await read(file);
      await change(20);
      await once();
      await agrees();
      assert.notEqual((await read(file)).position, position);

      // Changes while it follows, and crashes of the service.
      const follower = spawn(program, rest, { env, stdio: "inherit" });
      const ended = new Promise((resolve) => follower.once("exit", resolve));
      try {
        for (let round = 0; round < 2; round++) {
          await change(20);
          await service.restart();
          await change(20);
          await eventually("the mirror to agree", () => agrees().then(() => true));
        }
        assert.equal(follower.exitCode, null);
      } finally {
        follower.kill();
        await ended;
      }

      // The position expires: it starts over.
      const { position: last } = await read(file);
      await change(80);
      await eventually("the position to expire", async () => {
        const { status } = await request("GET", `events?after=${last}`);
        return status === 410;
      });
      await once();
      await agrees();
    }));
}
