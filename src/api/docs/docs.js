// The API reference: Swagger UI plus the extensions of the contract.
"use strict";

(async () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();

  const root = document.getElementById("reference");
  const response = await fetch("v1/openapi.json").catch(() => null);
  if (!response?.ok) {
    root.textContent = "The contract could not be loaded. Is the service still running?";
    return;
  }
  // JavaScript rounds int64 bounds. Drop them rather than show wrong ones: the
  // format implies them.
  const rounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);
  // "Try it out" and the examples use the service that serves this page.
  const here = new URL("v1", location.href).href;
  const text = (await response.text()).replaceAll("http://127.0.0.1:8080/v1", here);
  const contract = JSON.parse(text, (_, value) => rounded(value) ? undefined : value);
  contract.servers = [{ url: here, description: "This service" }];
  // The header of the page already shows these.
  delete contract.info.title;
  delete contract.info.summary;

  root.replaceChildren();
  SwaggerUIBundle({
    spec: contract,
    domNode: root,
    deepLinking: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    plugins: [extensions],
    onComplete: () => document.documentElement.classList.add("ready"),
  });
})();

// Plugin: the GitBook extensions of the contract, and response bodies with exact numbers.
function extensions({ React }) {
  const element = React.createElement;

  const operationOf = (system, path, method) => {
    const contract = system.specSelectors.specJson();
    return contract.getIn(["paths", path, method]) ?? contract.getIn(["webhooks", path, method]);
  };

  const tryItOut = (original, system) => (state, path, method) =>
    operationOf(system, path, method).get("x-hideTryItPanel") !== true && original(state, path, method);

  const badges = (Original, system) => (props) => {
    const operation = operationOf(system, props.operationProps.get("path"), props.operationProps.get("method"));
    const stability = operation.get("x-stability");
    const sunset = operation.get("x-deprecated-sunset");
    return element(React.Fragment, null,
      element(Original, props),
      stability && element("span", { className: `badge badge-${stability}` }, stability),
      sunset && element("span", { className: "badge badge-sunset" }, `to be removed on ${readable(sunset)}`));
  };

  const responseBody = (Original) => (props) => {
    if (!/json/i.test(props.contentType) || typeof props.content !== "string") {
      return element(Original, props);
    }
    const Code = props.getComponent("HighlightCode", true);
    const code = { language: "json", downloadable: true, fileName: "response.json", canCopy: true };
    return element("div", null,
      element("h5", null, "Response body"),
      element(Code, code, indented(props.content)));
  };

  return {
    statePlugins: { spec: { wrapSelectors: { allowTryItOutFor: tryItOut } } },
    wrapComponents: { OperationSummaryPath: badges, responseBody },
  };
}

// Indents JSON without parsing its numbers, which keeps every digit.
function indented(json) {
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  return tokens.map((token, at) => {
    const empty = /^[[{]$/.test(tokens[at - 1] ?? "");
    if (/^[[{]$/.test(token)) {
      depth += 1;
      return /^[\]}]$/.test(tokens[at + 1] ?? "") ? token : token + line();
    }
    if (/^[\]}]$/.test(token)) {
      depth -= 1;
      return empty ? token : line() + token;
    }
    return token === "," ? token + line() : token === ":" ? ": " : token;
  }).join("");
}

function readable(date) {
  const format = { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" };
  return new Intl.DateTimeFormat("en-GB", format).format(new Date(date));
}
