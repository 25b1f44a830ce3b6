"""Adapts the contract for the fuzzer, before it generates requests from it."""

import sys

import schemathesis

STRICT = "Prefer: handling=strict" in sys.argv


@schemathesis.hook
def before_load_schema(context, raw_schema):
    # A cursor belongs to a query, and a position in the log to an event, so none is valid
    # with random parameters; a long poll waits; and the schema cannot say how many words a
    # search has. The API tests cover them.
    dropped = {
        "#/components/parameters/Cursor",
        "#/components/parameters/Search",
        "after",
        "wait",
    }
    # It does not end.
    del raw_schema["paths"]["/events/stream"]
    # It needs an invitation as the key.
    del raw_schema["paths"]["/keys/claim"]
    components = raw_schema["components"]
    # The fuzzer must not revoke its own key, which is the third.
    components["parameters"]["KeyId"]["schema"] = {"type": "integer", "enum": [1, 2, 999]}
    # An expiry must be in the future, and a key that is replaced must exist.
    expiry = {"enum": ["2096-10-02T07:06:40Z", None]}
    components["schemas"]["NewKeyExpiry"] = expiry
    components["schemas"]["NewInvitation"]["properties"]["replaces"] = {"enum": [None]}
    # The schema does not say which hosts are allowed, and nothing is to be sent to those that
    # exist.
    url = components["schemas"]["WebhookUrl"]
    url["pattern"] = "^https://[a-z]{1,20}[.]example/[A-Za-z0-9._~:/?@!$&'()*+,;=-]{0,50}$"
    # As for `after` above.
    components["schemas"]["Replay"]["properties"]["after"] = {"enum": ["now"]}
    replay = raw_schema["paths"]["/webhooks/{webhookId}/replay"]["post"]["requestBody"]
    del replay["content"]["application/json"]["examples"]["event"]
    # A date may not be in the future, which the schema cannot say.
    components["schemas"]["PastDate"] = {
        "type": "string",
        "pattern": "^(19[0-9]{2}|20[01][0-9])-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$",
    }
    # A part of an object is enough only if the resource has the rest.
    for name in ["Price", "Source", "Buyer"]:
        required = components["schemas"][name]["required"]
        components["schemas"][f"{name}Change"]["required"] = required
    # Random pairs would add up to more than are allowed.
    components["schemas"]["MetadataChange"] = {"enum": [{"feed": "hay"}, {"feed": None}, {}]}
    if STRICT:
        # Every request asks for it, so every response confirms it, and bodies are closed.
        dropped.add("#/components/parameters/Prefer")
        components["headers"]["PreferenceApplied"]["required"] = True
        for name in ["Price", "Source", "Buyer"]:
            components["schemas"][name]["additionalProperties"] = False
            components["schemas"][f"{name}Change"]["additionalProperties"] = False
        for name in ["BatchCreate", "BatchUpdate", "BatchDelete"]:
            components["schemas"][name]["additionalProperties"] = False
    for item in raw_schema["paths"].values():
        for operation in item.values():
            parameters = operation["parameters"]
            is_kept = lambda p: p.get("$ref", p.get("name")) not in dropped
            operation["parameters"] = list(filter(is_kept, parameters))
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if STRICT:
                    name = content["schema"]["$ref"].rsplit("/", 1)[1]
                    components["schemas"][name]["additionalProperties"] = False
