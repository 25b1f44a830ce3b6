// The reference page: Swagger UI with what the contract says beyond it.
"use strict";

(async () => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();

  const place = document.getElementById("reference");
  const answer = await fetch("v1/openapi.json").catch(() => null);
  if (!answer?.ok) {
    place.textContent = "The contract could not be loaded. Is the service still running?";
    return;
  }
  // JavaScript rounds the bounds of an int64. Better none than wrong ones: the
  // format says them too.
  const rounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);
  // What is tried is tried on the service that shows the page, by the examples too.
  const here = new URL("v1", location.href).href;
  const text = (await answer.text()).replaceAll("http://127.0.0.1:8080/v1", here);
  const contract = JSON.parse(text, (_, value) => rounded(value) ? undefined : value);
  contract.servers = [{ url: here, description: "This service" }];
  // The page has these words in its head already.
  delete contract.info.title;
  delete contract.info.summary;

  place.replaceChildren();
  SwaggerUIBundle({
    spec: contract,
    domNode: place,
    deepLinking: true,
    displayRequestDuration: true,
    defaultModelsExpandDepth: 0,
    plugins: [extensions],
    onComplete: () => document.documentElement.classList.add("ready"),
  });
})();

// GitBook's extensions, and digits as they were sent.
function extensions({ React }) {
  const element = React.createElement;

  const said = (system, path, method) => system.specSelectors.specJson().getIn(["paths", path, method]);

  const tryItOut = (original, system) => (state, path, method) =>
    said(system, path, method).get("x-hideTryItPanel") !== true && original(state, path, method);

  const badges = (Original, system) => (props) => {
    const operation = said(system, props.operationProps.get("path"), props.operationProps.get("method"));
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

// Lays JSON out without reading its numbers, so that every digit stays.
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
