"""Adapts the contract for the fuzzer, before it generates requests from it."""

import sys

import schemathesis

STRICT = "Prefer: handling=strict" in sys.argv


@schemathesis.hook
def before_load_schema(context, raw_schema):
    # A cursor belongs to a query, so none is valid with random parameters. The API tests
    # cover cursors.
    dropped = {"#/components/parameters/Cursor"}
    components = raw_schema["components"]
    if STRICT:
        # Every request asks for it, so every response confirms it, and bodies are closed.
        dropped.add("#/components/parameters/Prefer")
        components["headers"]["PreferenceApplied"]["required"] = True
    for item in raw_schema["paths"].values():
        for operation in item.values():
            parameters = operation["parameters"]
            operation["parameters"] = [p for p in parameters if p.get("$ref") not in dropped]
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if STRICT:
                    name = content["schema"]["$ref"].rsplit("/", 1)[1]
                    components["schemas"][name]["additionalProperties"] = False
