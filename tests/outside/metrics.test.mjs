// The metrics endpoint, parsed by the official Prometheus client library.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { withService } from "./harness.mjs";

const READ = `
import json, sys
from prometheus_client.parser import text_string_to_metric_families as read
families = {f.name: (f.type, f.documentation, [(s.name, s.labels, s.value) for s in f.samples])
            for f in read(sys.stdin.read())}
json.dump(families, sys.stdout)`;

test("Prometheus parses all metrics", () =>
  withService({ args: ["--metrics-listen", "127.0.0.1:0"] }, async ({ address, metrics, createKey }) => {
    const headers = { Authorization: `Bearer ${createKey()}`, "Content-Type": "application/json" };
    const body = JSON.stringify({ name: "Rex", categoryId: 1 });
    await fetch(`${address}/v1/pets`, { method: "POST", headers, body });
    await fetch(`${address}/v1/pets/1`, { headers });
    const input = await (await fetch(metrics)).text();
    const python = join(process.env.PYTHON_TOOLS, "python");
    const families = JSON.parse(execFileSync(python, ["-c", READ], { input, encoding: "utf8" }));

    assert.ok(Object.values(families).every(([type, help]) => type !== "unknown" && help));
    const [type, , samples] = families.http_server_request_duration_seconds;
    assert.equal(type, "histogram");
    const created = samples.filter(([, labels]) => labels.operation === "createPet");
    // Buckets are cumulative, and the last one counts all requests.
    const buckets = created.filter(([name]) => name.endsWith("_bucket")).map(([, , value]) => value);
    assert.deepEqual(buckets, buckets.toSorted((a, b) => a - b));
    const value = (part) => created.find(([name]) => name.endsWith(part))[2];
    assert.equal(buckets.at(-1), value("_count"));
    assert.ok(value("_sum") > 0);
    const [[, labels, calls]] = families.petstore_deprecated_requests[2];
    assert.deepEqual([labels, calls], [{ operation: "getPet", api_key_id: "1" }, 1]);
  }));
