// The API reference: Swagger UI, with a plugin for what this page shows differently.
"use strict";

// "Try it out" and the examples use the service that serves this page.
const here = new URL("v1", location.href).href;

// Described once, in the guide to response headers, and not with every response.
const SHARED_HEADERS = [
  "Cache-Control", "Petstore-Unknown-Parameters", "Preference-Applied", "RateLimit", "RateLimit-Policy", "Retry-After", "WWW-Authenticate", "X-Request-Id",
];

(async () => {
  const root = document.getElementById("reference");
  const response = await fetch("v1/openapi.json").catch(() => null);
  if (!response?.ok) {
    root.textContent = "The contract could not be loaded. Is the service still running?";
    return;
  }
  // JavaScript rounds int64 bounds. Drop them rather than show wrong ones: the
  // format implies them.
  const rounded = (value) => Number.isInteger(value) && !Number.isSafeInteger(value);
  const text = await response.text();
  // Behind a proxy, the service does not know this address.
  const named = JSON.parse(text).servers[0].url;
  const contract = JSON.parse(text.replaceAll(named, here), (_, value) => rounded(value) ? undefined : value);
  contract.servers = [{ url: here }];
  groupByResource(contract);

  root.replaceChildren();
  const ui = SwaggerUIBundle({
    spec: contract,
    domNode: root,
    deepLinking: true,
    defaultModelsExpandDepth: 0,
    syntaxHighlight: false,
    plugins: [reference],
    onComplete: () => {
      showNavigation(contract, (tag, id) => showOperation(ui.getSystem(), tag, id))(location.hash);
      document.documentElement.classList.add("ready");
    },
  });
})();

// Opens an operation and scrolls to it.
function showOperation({ layoutSelectors, getStore }, tag, id) {
  const thing = ["operations", tag, id];
  // The action of Swagger UI would also add to the history.
  for (const shown of [["operations-tag", tag], thing]) {
    if (!layoutSelectors.isShown(shown, shown !== thing)) {
      getStore().dispatch({ type: "layout_show", payload: { thing: shown, shown: true } });
    }
  }
  const scroll = (attempts) => {
    const block = document.getElementById(thing.join("-"));
    if (block) block.scrollIntoView();
    else if (attempts) requestAnimationFrame(() => scroll(attempts - 1));
  };
  scroll(60);
}

// The plugin.
function reference({ React }) {
  const element = React.createElement;
  const { useEffect, useRef, useState } = React;

  // The guides are the sections of the contract's description. They never change, and
  // rendering them takes long.
  const Guides = React.memo(({ specSelectors, getComponent }) => {
    const Markdown = getComponent("Markdown", true);
    const { introduction, sections: guides } = guidesOf(specSelectors.info().get("description"));
    // The browser looked for the target of the link before it was there.
    useEffect(() => document.getElementById(location.hash.slice(1))?.scrollIntoView(), []);
    return element("section", { id: "guides", "aria-labelledby": "guides-title" },
      element("h2", { id: "guides-title" }, "Guides"),
      element(Markdown, { source: introduction }),
      element("nav", { "aria-label": "All guides" },
        guides.map(({ id, title }) => element("a", { key: id, href: `#${id}` }, title))),
      guides.map(({ id, title, text }) => element("section", { key: id, id, "aria-labelledby": `${id}-title` },
        element("h3", { id: `${id}-title` }, title),
        element(Markdown, { source: text }))));
  }, () => true);

  const authorizeBtn = (_, system) => ({ isAuthorized, showPopup, onClick, getComponent }) => {
    const Dialog = getComponent("authorizationPopup", true);
    const key = system.authSelectors.authorized().get("bearerAuth");
    return element("div", { className: "authorization" },
      element("span", { role: "status" }, key && `Key accepted${key.get("keyName") ? `: ${key.get("keyName")}` : ""}`),
      element("button", { className: "authorize primary", onClick }, isAuthorized ? "Change key" : "Authorize"),
      showPopup && element(Dialog));
  };

  const KeyDialog = ({ authActions }) => {
    const dialog = useRef();
    const [problem, setProblem] = useState();
    useEffect(() => dialog.current.showModal(), []);
    const close = () => dialog.current.close();
    const submit = async (event) => {
      event.preventDefault();
      setProblem();
      const secret = secretIn(new FormData(event.target).get("key"));
      try {
        const keyName = (await currentKey(secret)).name;
        authActions.authorize({ bearerAuth: { schema: { type: "http" }, value: secret, keyName } });
        close();
      } catch (error) {
        setProblem(error.message);
      }
    };
    return element("dialog", { ref: dialog, onClose: () => authActions.showDefinitions(false), "aria-labelledby": "key-title" },
      element("form", { onSubmit: submit },
        element("h2", { id: "key-title" }, "Authorize"),
        element("label", null, "API key",
          element("input", { name: "key", type: "password", placeholder: "psk_…", autoComplete: "off", required: true, "aria-describedby": "key-note key-problem" })),
        element("p", { id: "key-note" }, "It is kept until you leave the page."),
        element("p", { id: "key-problem", role: "alert" }, problem),
        element("menu", null,
          element("button", { type: "button", onClick: close }, "Cancel"),
          element("button", { className: "primary" }, "Authorize"))));
  };

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
      stability && element("span", { className: "badge" }, stability),
      sunset && element("span", { className: "badge badge-sunset" }, `to be removed on ${readable(sunset)}`));
  };

  // Optional request headers are the same everywhere: they are folded.
  const Folded = React.createContext();
  const isOptionalHeader = (parameter) => parameter.get("in") === "header" && !parameter.get("required");

  const parameters = (Original) => (props) => {
    const [isOpen, setOpen] = useState(false);
    const names = props.parameters.filter(isOptionalHeader).map((parameter) => parameter.get("name"));
    const reason = props.operation.get("x-hideTryItReason");
    return element(Folded.Provider, { value: { names, isOpen, toggle: () => setOpen(!isOpen) } },
      reason && element("p", { className: "nothing-to-try" }, reason),
      element(Original, props));
  };

  const parameterRow = (Original) => (props) => {
    const { names, isOpen, toggle } = React.useContext(Folded);
    if (!isOptionalHeader(props.rawParam)) return element(Original, props);
    const isFirst = names.first() === props.rawParam.get("name");
    return element(React.Fragment, null,
      isFirst && element("tr", null, element("td", { colSpan: 2 },
        element("button", { className: "fold", "aria-expanded": isOpen, onClick: toggle }, `Optional headers: ${names.join(", ")}`))),
      isOpen && element(Original, props));
  };

  // A success in full, without the shared headers; an error as its codes, to unfold.
  const response = (Original) => (props) => {
    const headers = props.response.get("headers")?.filterNot((_, name) => SHARED_HEADERS.includes(name));
    if (props.code < 300) {
      return element(Original, { ...props, response: props.response.set("headers", headers?.size ? headers : undefined) });
    }
    const description = element(props.getComponent("Markdown", true), { source: props.response.get("description") });
    const examples = props.response.getIn(["content", "application/json", "examples"])?.valueSeq().map((example) => example.get("value"));
    const codes = examples?.map((example) => example.get("code")).toSet().join(", ");
    return element("tr", { className: "response", "data-code": props.code },
      element("td", { className: "response-col_status" }, props.code),
      element("td", { className: "response-col_description" },
        codes
          ? element("details", null, element("summary", null, codes), description,
            element("ul", null, examples.map((example, at) => element("li", { key: at }, example.get("message")))))
          : description));
  };

  const responses = (Original) => (props) => {
    const parent = useRef();
    // A table is a table, and not a landmark of the page.
    useEffect(() => parent.current.querySelectorAll("table[role]").forEach((table) => table.removeAttribute("role")));
    return element("div", { className: "responses", ref: parent },
      element(Original, props),
      element("p", null, "For all operations: ", element("a", { href: "#response-headers" }, "response headers"), ", ",
        element("a", { href: "#errors" }, "errors"), "."));
  };

  const LiveResponse = ({ response, specSelectors, path, method, getComponent }) => {
    const section = useRef();
    // `response` is another object with every change of the page.
    const stored = specSelectors.responseFor(path, method);
    useEffect(() => {
      const { top } = section.current.getBoundingClientRect();
      if (top < 0 || top > innerHeight / 2) section.current.scrollIntoView();
    }, [stored]);
    const Code = getComponent("HighlightCode", true);
    const headers = Object.entries(response.get("headers")?.toJS() ?? {});
    const body = response.get("text");
    const isJson = /json/.test(response.getIn(["headers", "content-type"]));
    const status = response.get("status");
    return element("section", { className: "live-response", ref: section, "aria-label": "Response" },
      element("div", { role: "status" }, element("h4", null, "Response ",
        element("b", { className: status < 400 ? "good" : "bad" }, status ?? "none"),
        ` in ${response.get("duration")} ms`)),
      response.get("error") && !status && element("p", null, "The service did not respond. Is it still running?"),
      element(Code, { className: "body" }, body ? (isJson ? indented(body) : body) : "No body."),
      element("details", null,
        element("summary", null, "Response headers"),
        element(Code, null, headers.map(([name, value]) => `${name}: ${value}`).join("\n"))),
      element("details", null,
        element("summary", null, "As a curl command"),
        element(Code, { className: "curl" }, curl(specSelectors.requestFor(path, method)))));
  };

  // Swagger UI leaves controls without a name for screen readers.
  const labelled = (label) => (Original) => (props) => {
    const parent = useRef();
    useEffect(() => parent.current.querySelector("input, select, textarea")?.setAttribute("aria-label", label ?? props.description));
    return element("div", { ref: parent }, element(Original, props));
  };

  // Its heading is two levels below the one before.
  const models = (Original) => (props) => {
    const parent = useRef();
    useEffect(() => parent.current.querySelector("h4")?.setAttribute("aria-level", "2"));
    return element("div", { ref: parent }, element(Original, props));
  };

  const Code = ({ className, children }) => element("div", { className: "highlight-code" },
    // Only secure origins have a clipboard.
    navigator.clipboard && element("button", { className: "copy", type: "button", onClick: () => navigator.clipboard.writeText(children) }, "Copy"),
    element("pre", { className, tabIndex: 0 }, element("code", null, children)));

  return {
    statePlugins: {
      spec: { wrapSelectors: { allowTryItOutFor: tryItOut } },
      // The navigation follows links.
      layout: { wrapActions: { parseDeepLinkHash: () => () => ({ type: "none" }) } },
    },
    components: {
      InfoContainer: Guides,
      ServersContainer: () => element("p", { className: "base-url" }, "Base URL ", element("code", null, here)),
      authorizationPopup: KeyDialog,
      authorizeOperationBtn: () => null,
      liveResponse: LiveResponse,
      HighlightCode: Code,
      // A link inside the button that opens the operation: the button sets the fragment, too.
      DeepLink: ({ text }) => element("span", null, text),
    },
    wrapComponents: {
      OperationSummaryPath: badges,
      authorizeBtn,
      parameters,
      parameterRow,
      responses,
      response,
      Models: models,
      JsonSchemaForm: labelled(),
      ExamplesSelect: labelled("Example"),
      RequestBodyEditor: labelled("Request body"),
    },
  };
}

// Takes the secret out of what was pasted, such as `export PETSTORE_KEY=psk_…`.
function secretIn(text) {
  return text.match(/psk_\w+/)?.[0] ?? text.trim();
}

// The key, as the service sees it.
async function currentKey(secret) {
  // A text that a header cannot carry is no key either.
  const headers = { Authorization: `Bearer ${encodeURI(secret)}` };
  const response = await fetch(`${here}/keys/current`, { headers }).catch(() => {
    throw new Error("The service did not respond. Is it still running?");
  });
  if (response.status === 401) {
    throw new Error("The service does not accept this key. Copy it completely, or create another on the server.");
  }
  const body = await response.json();
  if (!response.ok) throw new Error(`The key could not be checked: ${body.message}`);
  return body;
}

// The request as a command, without the secret.
function curl(request) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const body = request.get("body");
  const method = request.get("method");
  const isImplied = method === (body ? "POST" : "GET");
  const lines = [`curl -i ${isImplied ? "" : `-X ${method} `}${quoted(request.get("url"))}`];
  request.get("headers").forEach((value, name) => {
    if (/^authorization$/i.test(name)) lines.push('-H "Authorization: Bearer $PETSTORE_KEY"');
    else if (!/^accept$/i.test(name)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  });
  if (body) lines.push(`-d ${quoted(body)}`);
  return lines.join(" \\\n  ");
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
