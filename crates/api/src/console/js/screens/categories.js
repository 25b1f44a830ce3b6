// Categories: the names of the numbers that animals have.

import { ApiError, send } from "../api.js";
import { actButton, showFailure, toast } from "../app.js";
import { createCategory, findCategory } from "../categories.js";
import { confirm } from "../dialogs.js";
import { el, empty, fill } from "../dom.js";
import { plural } from "../format.js";
import { field, formDialog } from "../forms.js";
import { liveList, newButton, table } from "../list.js";
import { names } from "../names.js";
import { can } from "../session.js";

/** @import { Mount } from "../../types" */

/** @type {Mount} */
export function mount(root, _, end) {
  const canWrite = can("pets:write");

  const list = liveList(end, {
    key: (/** @type {[string, string]} */ [id]) => id,
    row: ([id, name]) => el("tr", el("td", el("b", name)), el("td.number", id), el("td.steps", canWrite && [
      actButton("Rename", "small", () => edit(id), undefined, { "aria-label": `Rename ${name}` }),
      actButton("Delete", "small danger quiet", () => remove(id, name), undefined, { "aria-label": `Delete ${name}` }),
    ])),
    foot: (size) => (size ? plural(size, "category", "categories")
      : empty("No categories yet", el("p", "Without names, animals show the number of their category."))),
  });
  root.append(
    el("div.bar", el("p.hint", "Animals have the number of a category. Give it a name that people know."),
      newButton(canWrite, "Name a category", () => edit())),
    table(["Name", "Number", ""], list.body), list.more);
  const paint = () => list.set(names.sorted());

  const edit = async (id = "") => {
    let before = names.categories.get(id);
    const name = el("input", { required: true, maxlength: 100, value: before ?? "" });
    const number = el("input", { inputmode: "numeric", pattern: "\\s*-?[0-9]{1,19}\\s*", title: "A whole number",
      placeholder: "The next free number" });
    formDialog(id ? [`Rename “${before}”`, "Rename"] : ["Name a category", "Name it"],
      [field("Name", name), !id && field("Number", number)], async () => {
        const now = names.categories.get(id);
        if (now !== before) {
          before = now;
          throw new ApiError(412, "", now
            ? `Another person has renamed it to “${now}”. Rename it all the same?`
            : "Another person has deleted it. Name it again?");
        }
        const target = id || number.value.trim();
        if (target) await put(target, name.value, !id);
        else if (findCategory(name.value)) throw taken(findCategory(name.value), "Choose another name.");
        else await createCategory(name.value);
        paint();
      });
  };

  const put = async (number = "", name = "", isNew = false) => {
    const id = String(BigInt.asIntN(64, BigInt(number)));
    if (BigInt(id) !== BigInt(number)) {
      throw new ApiError(400, "", "The number must be from -9223372036854775808 to 9223372036854775807.");
    }
    try {
      await send("PUT", `categories/${id}`, { name }, isNew ? { "If-None-Match": "*" } : {});
    } catch (error) {
      const { status } = /** @type {ApiError} */ (error);
      if (status !== 409 && status !== 412) throw error;
      await names.loadCategories();
      paint();
      if (status === 409) throw taken(findCategory(name), "Choose another name.");
      // Unless the response to an earlier attempt was lost.
      if (names.category(id) !== name) throw taken([id, names.category(id)], "Rename it, or choose another number.");
    }
    names.categories.set(id, name);
  };

  const taken = ([id, name] = ["", ""], advice = "") =>
    new ApiError(409, "", `${id ? `Category ${id} is named “${name}”` : "A category has this name"} already. ${advice}`);

  const remove = async (id = "", name = "") => {
    if (!(await confirm(`Delete “${name}”?`, `Its animals stay, and show “no. ${id}” instead.`, "Delete"))) return;
    await send("DELETE", `categories/${id}`);
    names.categories.delete(id);
    toast(`“${name}” was deleted.`);
    paint();
  };

  const load = () => {
    fill(list.more, "Loading…");
    names.loadCategories().then(paint, (error) => showFailure(list.more, error, load));
  };
  load();
  return { onEvent: ({ type }) => void (type.startsWith("category.") && paint()) };
}
