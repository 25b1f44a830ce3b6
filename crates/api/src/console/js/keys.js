// The keys of the console, in a dialog.

import { dialog } from "./dialogs.js";
import { button, el } from "./dom.js";

const KEYS = {
  "/": "Search",
  "↑ ↓": "Move in a list",
  Enter: "Open what is marked",
  "← →": "Show the figures of a chart, bar by bar",
  "Space x": "Select what is marked; with Shift, a range",
  n: "Add, invite or name something new",
  e: "Edit the animal in the panel",
  "⇧ ← →": "Move a photo of the animal; the first one is the cover",
  Del: "Delete a photo",
  Esc: "Close the panel or a dialog, or clear the selection",
  "?": "Show these keys",
};

export function keysDialog() {
  const box = dialog("Keys",
    el("dl.facts", Object.entries(KEYS).map(([keys, text]) =>
      el("div", el("dt", keys.split(" ").flatMap((key) => [el("kbd", key), " "])), el("dd", text)))),
    el("p.hint", "A chip scanner works anywhere: it opens the animal, or fills in the chip of a form."),
    el("div.actions", button("Close", "", () => box.close(), { autofocus: true })));
  box.classList.add("keys");
}
