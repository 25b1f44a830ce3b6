// Categories: the names of the numbers that animals have.

import { confirm, dialog, message, toast } from "../app.js";
import { button, el, field, fill } from "../dom.js";
import { plural } from "../format.js";
import { arrows, newButton, table } from "../list.js";
import { fold } from "../pet-rows.js";

const LIMIT = 2n ** 63n;

/** @type {import("../app.js").Mount} */
export function categories(root, app) {
  const { api, names } = app;
  const canWrite = app.can("pets:write");
  const body = el("tbody");
  const sheet = table(["Name", "Number", ""], body);
  const more = el("div", { class: "more", role: "status" });
  root.append(el("div", { class: "bar" }, el("p", { class: "hint" }, "Animals have the number of a category. Give it a name that people know."), newButton(canWrite, "Name a category", () => edit(""))), sheet, more);

  const paint = () => {
    const all = [...names.categories].sort(([, a], [, b]) => a.localeCompare(b));
    sheet.hidden = !all.length;
    fill(body, ...all.map(([id, name]) => el("tr", null,
      el("td", null, el("b", null, name)), el("td", { class: "number" }, id),
      el("td", { class: "steps" }, ...(canWrite ? [
        button("Rename", { class: "btn small", "data-write": true, "aria-label": `Rename ${name}`, onclick: () => edit(id) }),
        button("Delete", { class: "btn small danger quiet", "data-write": true, "aria-label": `Delete ${name}`, onclick: () => remove(id, name) })] : [])))));
    fill(more, all.length ? plural(all.length, "category", "categories") : el("div", { class: "empty" }, el("h2", null, "No categories yet"),
      el("p", null, "Without names, animals show the number of their category.")));
  };

  /** Names a category, or renames the one with an id. @param {string} id */
  const edit = (id) => {
    const free = [...names.categories.keys()].reduce((max, id) => (BigInt(id) > max ? BigInt(id) : max), 0n) + 1n;
    const number = el("input", { inputmode: "numeric", required: true, pattern: "\\s*-?[0-9]{1,19}\\s*", value: String(free) });
    let before = names.categories.get(id) ?? "";
    const name = el("input", { required: true, maxlength: 100, autofocus: true, value: before });
    const problem = el("p", { class: "problem", role: "alert" });
    const submit = el("button", { class: "btn primary", "data-write": true }, id ? "Rename" : "Name it");
    const form = el("form", null, field("Name", name), id ? null : field("Number", number), problem,
      el("div", { class: "actions" }, submit, button("Cancel", { class: "btn", onclick: () => box.close() })));
    const check = () => {
      const now = names.categories.get(id) ?? "";
      const target = id || String(BigInt(number.value.trim()));
      const taken = [...names.categories].find(([other, text]) => other !== target && fold(text) === fold(name.value));
      if (taken) return `Category ${taken[0]} is named “${taken[1]}” already. Choose another name.`;
      if (!id && names.categories.has(target)) return `Category ${target} is named “${names.category(target)}” already. Rename it, or choose another number.`;
      if (BigInt(target) >= LIMIT || BigInt(target) < -LIMIT) return `The number must be from ${-LIMIT} to ${LIMIT - 1n}.`;
      if (now === before) return "";
      before = now;
      return now ? `Somebody has renamed it to “${now}” meanwhile. Rename it all the same?` : "Somebody has deleted it meanwhile. Name it again?";
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      problem.textContent = check();
      if (problem.textContent) return;
      app.act(submit, async () => {
        const target = id || String(BigInt(number.value.trim()));
        await api.send("PUT", `categories/${target}`, { name: name.value });
        names.categories.set(target, name.value);
        paint();
        box.close();
      }, (error) => void (problem.textContent = error.code === "category_name_taken" ? "Another category has this name already. Choose another one." : message(error)));
    });
    const box = dialog(id ? `Rename “${before}”` : "Name a category", form);
  };

  /** @param {string} id @param {string} name */
  const remove = async (id, name) => {
    if (!(await confirm(`Delete “${name}”?`, `Its animals stay, and show “no. ${id}” instead.`, "Delete"))) return;
    app.act(null, async () => {
      await api.send("DELETE", `categories/${id}`);
      names.categories.delete(id);
      toast(`“${name}” was deleted.`);
      paint();
    });
  };

  const load = async () => {
    sheet.hidden = true;
    fill(more, "Loading…");
    await names.loadCategories().then(paint, (error) => app.failed(more, error, load));
  };
  load();
  return { onEvent: ({ type }) => void (type.startsWith("category.") && paint()), onKey: arrows(body) };
}
