// The side navigation of the API reference: operations by resource, guides, and a search.
"use strict";

// The names of groups that differ from the first part of their paths.
const GROUPS = { pets: "Animals", inventory: "Animals" };

// The resource that a path is about, which is its group: the contract has one tag for most of them.
function groupOf(path) {
  const [first, second] = path.split("/").filter(Boolean);
  const resource = first === "store" ? second : first;
  return GROUPS[resource] ?? resource[0].toUpperCase() + resource.slice(1);
}

// Tags every operation with its group, in the order of the paths. Swagger UI has a group of its own
// for requests to the reader.
function groupByResource(contract) {
  const tags = new Set();
  const tag = (items, group) => {
    for (const [path, item] of Object.entries(items ?? {})) {
      for (const operation of Object.values(item).filter((operation) => operation.operationId)) {
        operation.tags = [group(path)];
        tags.add(operation.tags[0]);
      }
    }
  };
  tag(contract.paths, groupOf);
  tag(contract.webhooks, () => "Webhooks");
  contract.tags = [...tags].map((name) => ({ name }));
}

// Fills the navigation. `open` shows an operation, given its tag and id. Returns a function that
// follows a link.
function showNavigation(contract, open) {
  const panel = document.getElementById("contents");
  const search = panel.querySelector("input");
  const found = panel.querySelector("[role=status]");
  const toggle = document.querySelector(".contents-toggle");
  const entries = [...operationEntries(contract), ...guideEntries(contract)];
  const groups = Map.groupBy(entries, ({ group }) => group);
  const links = new Map();
  panel.querySelector("nav").replaceChildren(...[...groups].map(([group, entries]) => {
    const details = Object.assign(document.createElement("details"), { open: true });
    const summary = Object.assign(document.createElement("summary"), { textContent: group });
    const list = document.createElement("ul");
    for (const entry of entries) {
      const link = Object.assign(document.createElement("a"), { href: entry.href, textContent: entry.title });
      if (entry.method) {
        const method = Object.assign(document.createElement("span"), { className: `method ${entry.method}`, textContent: entry.method });
        link.append(" ", method);
      }
      const item = document.createElement("li");
      item.append(link);
      list.append(item);
      links.set(link, entry);
    }
    details.append(summary, list);
    return details;
  }));
  const visible = () => [...links.keys()].filter((link) => !link.parentElement.hidden);

  const filter = () => {
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [link, { text }] of links) link.parentElement.hidden = !terms.every((term) => text.includes(term));
    for (const details of panel.querySelectorAll("details")) {
      details.hidden = !details.querySelector("li:not([hidden])");
      if (terms.length) details.open = true;
    }
    const count = visible().length;
    found.textContent = terms.length ? (count ? `${count} found` : "Nothing found") : "";
  };
  const close = () => toggle.setAttribute("aria-expanded", "false");
  const clear = () => {
    search.value = "";
    filter();
  };

  search.addEventListener("input", filter);
  panel.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      if (!search.value) toggle.focus();
      clear();
      close();
    } else if (event.key === "Enter" && event.target === search) {
      visible()[0]?.click();
    } else if (move) {
      const stops = [search, ...visible().filter((link) => link.closest("details").open)];
      stops[stops.indexOf(event.target) + move]?.focus();
      event.preventDefault();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    toggle.setAttribute("aria-expanded", "true");
    search.focus();
  });
  toggle.addEventListener("click", () => {
    const isOpen = toggle.getAttribute("aria-expanded") === "true";
    toggle.setAttribute("aria-expanded", String(!isOpen));
    if (!isOpen) search.focus();
  });

  // Links to operations open them; those to guides lead there by themselves.
  const follow = (hash) => {
    const id = hash.match(/^#\/[^/]+\/([^/]+)$/)?.[1];
    const entry = entries.find((entry) => entry.id === id);
    if (id && entry) open(entry.tag, id);
  };
  panel.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    close();
    clear();
    if (link.hash === location.hash) follow(link.hash);
  });
  addEventListener("hashchange", () => follow(location.hash));
  markCurrent(links);
  return follow;
}

function operationEntries(contract) {
  const all = { ...contract.paths, ...contract.webhooks };
  const entries = Object.entries(all).flatMap(([path, item]) =>
    Object.entries(item).filter(([, operation]) => operation.operationId).map(([method, operation]) => {
      const { operationId: id, summary, tags: [group] } = operation;
      const text = [method, path, id, summary, group].join(" ").toLowerCase();
      const tag = path.startsWith("/") ? group : "webhooks";
      return { id, tag, group, title: summary, method, text, href: `#/${tag}/${id}`, target: `operations-${tag}-${id}` };
    }));
  // Those of a group are together, as on the page.
  return [...Map.groupBy(entries, ({ group }) => group).values()].flat();
}

function guideEntries(contract) {
  return guidesOf(contract.info.description).sections.map(({ id, title, text }) =>
    ({ group: "Guides", title, text: `${title} ${text}`.toLowerCase(), href: `#${id}`, target: id }));
}

// Takes the guides, which are its sections, out of the contract's description.
function guidesOf(description) {
  const [introduction, ...sections] = description.split(/^## /m);
  return {
    introduction,
    sections: sections.map((section) => {
      const [title, ...text] = section.split("\n");
      return { id: title.toLowerCase().replaceAll(" ", "-"), title, text: text.join("\n") };
    }),
  };
}

// Marks the link to what is at the top of the screen.
function markCurrent(links) {
  const label = document.querySelector(".contents-toggle .current");
  let current;
  const topOf = ({ target }) => document.getElementById(target)?.getBoundingClientRect().top ?? Infinity;
  const find = () => {
    const tops = [...links].map(([link, entry]) => ({ link, top: topOf(entry) })).sort((a, b) => a.top - b.top);
    const isAtEnd = scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    const linked = tops.find(({ link, top }) => link.hash === location.hash && top >= 0 && top < innerHeight);
    // The end of the page cannot be scrolled to the top.
    if (isAtEnd) return (linked ?? tops.findLast(({ top }) => top < innerHeight))?.link;
    return tops.findLast(({ top }) => top <= 120)?.link;
  };
  const update = () => {
    scheduled = false;
    const next = find();
    if (next === current) return;
    current?.removeAttribute("aria-current");
    next?.setAttribute("aria-current", "location");
    current = next;
    label.textContent = next ? links.get(next).title : "";
    const list = next?.closest("nav");
    // Not `scrollIntoView`, which would scroll the page as well.
    if (!list || list.contains(document.activeElement)) return;
    const { top, bottom } = next.getBoundingClientRect();
    const frame = list.getBoundingClientRect();
    if (top < frame.top + 40) list.scrollTop += top - frame.top - 40;
    if (bottom > frame.bottom - 40) list.scrollTop += bottom - frame.bottom + 40;
  };
  let scheduled = false;
  const schedule = () => {
    if (!scheduled) requestAnimationFrame(update);
    scheduled = true;
  };
  for (const event of ["scroll", "resize", "hashchange"]) addEventListener(event, schedule, { passive: true });
  new ResizeObserver(schedule).observe(document.getElementById("reference"));
}
