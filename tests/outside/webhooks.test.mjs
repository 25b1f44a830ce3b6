// Runs the examples of docs/webhooks.md: receivers that verify signatures with the official
// libraries of Standard Webhooks.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { before, mock, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Webhook } from "standardwebhooks";
import { withService } from "./harness.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const docs = join(here, "..", "..", "docs");
const python = join(process.env.PYTHON_TOOLS, "python");
const execute = promisify(execFile);

// Below node_modules, so that the package and the types of Node.js are found.
const compiled = mkdtempSync(join(here, "node_modules", ".webhook-"));
process.on("exit", () => rmSync(compiled, { recursive: true }));

before(async () => {
  const source = join(compiled, "webhook.mts");
  copyFileSync(join(docs, "examples", "webhook.ts"), source);
  const tsc = join(here, "node_modules", ".bin", "tsc");
  await execute(tsc, ["--strict", "--target", "es2023", "--lib", "es2023", "--module", "nodenext", "--types", "node", source]);
});

// The test vector of Standard Webhooks.
const published = {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  time: 1614265330,
  body: '{"test": 2432232314}',
  headers: {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  },
};
const forged = { ...published, body: '{"test": 2432232315}' };

test("the library for TypeScript verifies the published message", () => {
  mock.timers.enable({ apis: ["Date"], now: published.time * 1000 });
  try {
    const webhook = new Webhook(published.secret);
    assert.deepEqual(webhook.verify(published.body, published.headers), { test: 2432232314 });
    assert.throws(() => webhook.verify(forged.body, forged.headers), /No matching signature/);
  } finally {
    mock.timers.reset();
  }
});

// Runs Python code that sets `verified`, at the time of a message.
async function verifiedByPython(code, message) {
  const program = `
import json, sys
message = json.loads(sys.argv[1])
secret, headers, body = message["secret"], message["headers"], message["body"].encode()
${code}
print(json.dumps(verified))`;
  const { stdout } = await execute(python, ["-c", program, JSON.stringify(message)]);
  return JSON.parse(stdout);
}

test("the library for Python verifies the published message", async () => {
  const code = `
import datetime
from standardwebhooks import webhooks
class Then(datetime.datetime):
    now = lambda tz: datetime.datetime.fromtimestamp(message["time"], tz)
webhooks.datetime = Then
try:
    verified = webhooks.Webhook(secret).verify(body, headers)
except webhooks.WebhookVerificationError as error:
    verified = str(error)`;
  assert.deepEqual(await verifiedByPython(code, published), { test: 2432232314 });
  assert.equal(await verifiedByPython(code, forged), "No matching signature found");
});

test("the function in docs/webhooks.md verifies the published message", async () => {
  const page = readFileSync(join(docs, "webhooks.md"), "utf8");
  const code = `${/```python\n(.*?)```/s.exec(page)[1]}
time.time = lambda: message["time"] + message.get("age", 0)
verified = is_authentic(secret, headers, body)`;
  const verify = (message) => verifiedByPython(code, message);
  const signedBy = (signature) => ({ ...published, headers: { ...published.headers, "webhook-signature": signature } });
  const signature = published.headers["webhook-signature"];
  assert.equal(await verify(published), true);
  assert.equal(await verify({ ...published, age: 300 }), true);
  assert.equal(await verify(signedBy(`v1,AAAA ${signature}`)), true);
  for (const message of [
    forged,
    { ...published, age: 301 },
    { ...published, age: -301 },
    { ...published, secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" },
    signedBy(""),
    signedBy("v1,é"),
    signedBy(signature.replace("v1,", "v2,")),
  ]) {
    assert.equal(await verify(message), false);
  }
});

const dump = `
import json, sqlite3, sys
print(json.dumps(sqlite3.connect(sys.argv[1]).execute("SELECT id, event FROM events").fetchall()))
`;

const languages = {
  Python: {
    command: [python, join(docs, "examples", "webhook.py")],
    read: async (file) => JSON.parse((await execute(python, ["-c", dump, file])).stdout),
  },
  TypeScript: {
    command: ["node", join(compiled, "webhook.mjs")],
    read: async (folder) => {
      const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
      return names.map((name) => [name.slice(0, -5), readFileSync(join(folder, name), "utf8")]);
    },
  },
};

async function eventually(what, condition) {
  let last;
  for (let tries = 0; tries < 600; tries++) {
    last = await condition().then(() => null, (error) => error);
    if (!last) return;
    await setTimeout(50);
  }
  throw new Error(`timed out waiting for ${what}`, { cause: last });
}

// Stands between the service and a receiver, which can be replaced, and records what is
// delivered.
async function startRelay() {
  const relay = { receiver: null, deliveries: [] };
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    const { headers } = request;
    const sent = { method: "POST", body: Buffer.concat(chunks), headers };
    const status = await fetch(relay.receiver, sent).then((response) => response.status, () => 502);
    relay.deliveries.push({ headers, status });
    response.writeHead(status).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  relay.url = `http://127.0.0.1:${server.address().port}/petstore?shop=1`;
  relay.close = () => {
    server.close();
    server.closeAllConnections();
  };
  return relay;
}

const types = ["pet.created", "pet.updated", "pet.deleted"];
const args = ["--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"];

for (const [language, { command, read }] of Object.entries(languages)) {
  test(`the receiver in ${language} saves every event once`, () =>
    withService({ args }, async (service) => {
      const key = service.createKey();
      const file = `${service.file}.received`;
      const relay = await startRelay();

      const request = async (method, path, body, type = "application/json") => {
        const headers = { Authorization: `Bearer ${key}`, ...(body && { "Content-Type": type }) };
        const response = await fetch(`${service.address}/v1/${path}`, { method, headers, body: body && JSON.stringify(body) });
        assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
        return response.status === 204 ? null : response.json();
      };
      // Creates animals and changes, orders or deletes each.
      const change = async (count) => {
        for (let n = 0; n < count; n++) {
          const { id } = await request("POST", "pets", { name: `Rex é ${n}`, categoryId: n, status: "available" });
          if (n % 3 === 0) await request("PATCH", `pets/${id}`, { name: "Rex II" }, "application/merge-patch+json");
          if (n % 3 === 1) await request("POST", "store/orders", { petId: id });
          if (n % 3 === 2) await request("DELETE", `pets/${id}`);
        }
      };
      let receiver, ended;
      const stop = async () => {
        receiver?.kill();
        await ended;
      };
      const start = async (secret) => {
        await stop();
        const [program, ...rest] = [...command, "0", file];
        const env = { ...process.env, WEBHOOK_SECRET: secret };
        receiver = spawn(program, rest, { env, stdio: ["ignore", "pipe", "inherit"] });
        ended = once(receiver, "exit");
        const [line] = await once(createInterface({ input: receiver.stdout }), "line");
        relay.receiver = `http://127.0.0.1:${/\d+/.exec(line)[0]}/`;
      };
      // What was saved is what the feed has.
      const agrees = async () => {
        const expected = await request("GET", `events?limit=1000&types=${types}`);
        const received = (await read(file)).map(([id, event]) => [id, JSON.parse(event)]);
        const events = received.filter(([, event]) => event.type !== "webhook.test");
        events.sort(([, a], [, b]) => (a.sequence < b.sequence ? -1 : 1));
        assert.deepEqual(events, expected.map((event) => [event.id, event]));
      };
      const caughtUp = () => eventually("the receiver to agree", agrees);

      try {
        const { id, secret } = await request("POST", "webhooks", { url: relay.url, types });
        await start(secret);
        const tested = await request("POST", `webhooks/${id}/test`);
        assert.deepEqual([tested.delivered, tested.status], [true, 204]);
        await change(30);
        await caughtUp();
        const [{ headers }] = relay.deliveries;
        assert.equal(headers["content-type"], "application/cloudevents+json");
        assert.match(headers["user-agent"], /^petstore\//);

        // It rejects what it cannot verify, and accepts it later.
        await start("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        await change(1);
        const deliveries = `webhooks/${id}/deliveries`;
        await eventually("the deliveries to fail", async () => {
          const failed = await request("GET", deliveries);
          assert.deepEqual(failed.map(({ state, status }) => [state, status]), Array(2).fill(["retrying", 401]));
        });
        await start(secret);
        for (const { eventId } of await request("GET", deliveries)) {
          await request("POST", `${deliveries}/${eventId}/retry`);
        }
        await caughtUp();
        await eventually("the deliveries to be forgotten", async () => assert.deepEqual(await request("GET", deliveries), []));

        // After a rotation both secrets verify.
        const rotated = await request("POST", `webhooks/${id}/rotate-secret`);
        assert.notEqual(rotated.secret, secret);
        relay.deliveries = [];
        await change(10);
        await caughtUp();
        await start(rotated.secret);
        await change(10);
        await caughtUp();
        for (const { headers, status } of relay.deliveries) {
          assert.deepEqual([status, headers["webhook-signature"].split(" ").length], [204, 2]);
        }

        // A replay sends everything again, with the same ids.
        const [first, ...rest] = await request("GET", `events?limit=1000&types=${types}`);
        relay.deliveries = [];
        await request("POST", `webhooks/${id}/replay`, { after: first.id });
        await eventually("the replay", async () => {
          const accepted = relay.deliveries.filter(({ status }) => status === 204);
          const ids = accepted.map(({ headers }) => headers["webhook-id"]);
          assert.deepEqual(new Set(ids), new Set(rest.map((event) => event.id)));
        });
        await agrees();
      } finally {
        await stop();
        relay.close();
      }
    }));
}
