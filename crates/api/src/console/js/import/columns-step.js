// The second step of an import: which column is what. The first rows are shown below the choices.

import { button, el, fill } from "../dom.js";
import { plural } from "../format.js";
import { field } from "../forms.js";
import { animal } from "../members.js";
import { currencyOfShop } from "../typed-price.js";
import { DIGITS } from "../price.js";
import { ambiguousDates, readDate } from "./dates.js";
import { guessHeader, rowsOf } from "./header.js";
import { columnLabel } from "./records.js";
import { simplify } from "./words.js";

/** @import { DateOrder, ImportSource, Row, Words } from "../../types" */

const SHOWN_ROWS = 6;
/** Values of a choice that are asked for. */
const MAX_ASKED = 12;
const NOT_UTF8 = "The file is not in UTF-8, so it was read as Windows-1252. Check names with accents.";
const NO_CURRENCY = "Prices without a sign of their currency are left out until you choose one, below.";
const INTRODUCTION = "Check what each column is, and choose for those that were not recognised.";
/** The columns of which a table has one at most, in the order of the form. */
const CHOICES = { status: ["available", "pending", "sold"], sex: ["female", "male", "unknown"] };
/** @type {[DateOrder, string][]} */
const ORDERS = [["dmy", "day"], ["mdy", "month"]];
const FIRST = ["name", "category", "categoryId", "status", "status=sold", "status=pending"];
const OTHERS = animal.names.filter((name) => name !== "metadata" && !FIRST.includes(name));
const COLUMNS = [...FIRST, ...OTHERS.flatMap((name) => (name === "price" ? [name, "currency"] : [name])), "id"];

/** The key of other details that a heading becomes. */
const keyOf = (heading = "") =>
  heading.normalize("NFKD").replace(/\p{M}/gu, "").replace(/[^\w-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40);

/**
 * The mapping of a table as its header says, to be corrected by a person.
 * @param {Omit<ImportSource, "header" | "mapping">} source
 * @param {Words} words
 * @param {boolean} [isHeader]
 * @returns {ImportSource}
 */
export function mapped(source, words, isHeader) {
  const header = guessHeader(source.table, words, isHeader);
  // In a sheet, cells may be beside the table; in a text, they mean that a delimiter is wrong.
  const isSheet = source.sheet.name !== "";
  const widest = source.table.rows.reduce((widest, { cells }) => Math.max(widest, cells.length), 0);
  const width = isSheet ? widest : header.headings.length || widest;
  const columns = Array.from({ length: width }, (_, at) => header.columns[at] ?? "");
  return { ...source, header, mapping: { columns, width, words, values: {}, defaultStatus: "", currency: "", isSheet } };
}

/** The values of a column that no word list has, with the number of rows. @param {ImportSource} source @param {"status" | "sex"} name */
function unknownValues({ header, table, mapping }, name) {
  const { columns, words } = mapping;
  const at = columns.findIndex((column) => column.split("=")[0] === name);
  /** @type {Map<string, { text: string, rows: number }>} */
  const found = new Map();
  if (at < 0) return found;
  for (const { cells } of rowsOf(table, header)) {
    const text = (cells[at] ?? "").trim();
    const word = simplify(text);
    if (!text || text.startsWith("#") || words[name].has(word) || (columns[at] !== name && words.flag.has(word))) continue;
    const value = found.get(word);
    if (value) value.rows++;
    else found.set(word, { text, rows: 1 });
  }
  return found;
}

/**
 * @param {HTMLElement} root
 * @param {ImportSource} source
 * @param {{ check(): void, another(): void, change(source: ImportSource): void, choose(sheet: string): void }} go
 */
export function showColumns(root, source, go) {
  const { name, header, table, mapping, sheets, sheet } = source;
  const { columns, words } = mapping;
  const rows = rowsOf(table, header);
  const notes = el("div");
  const options = el("div.import-options");
  const actions = el("div.bar");
  const headingOf = (at = 0) => header.headings[at] || `Column ${at + 1}`;

  const selects = columns.map((column, at) => {
    const key = keyOf(headingOf(at));
    const own = column.startsWith("metadata.") ? column : key && `metadata.${key}`;
    const option = (value = "") => el("option", { value, selected: value === columns[at] }, columnLabel(value));
    const select = el("select", { "aria-label": `Column “${headingOf(at)}”`, onchange: () => {
      const other = select.value ? columns.indexOf(select.value) : -1;
      const [member] = select.value.split("=");
      const same = columns.findIndex((column, index) => index !== at && member && column.split("=")[0] === member);
      for (const index of [other, same]) if (index >= 0 && index !== at) setColumn(index, "");
      setColumn(at, select.value);
      paint();
    } }, el("option", { value: "", selected: !column }, "not imported"), COLUMNS.map(option),
      own && el("option", { value: own, selected: own === column }, columnLabel(own)));
    return select;
  });
  const heads = columns.map((_, at) => el("th", selects[at], header.headings.length > 0 && el("span", header.headings[at] || "–")));
  const setColumn = (at = 0, column = "") => {
    columns[at] = column;
    selects[at].value = column;
  };
  /** @param {Row} row */
  const rowOf = ({ line, cells }) => el("tr", el("td.number", String(line)),
    columns.map((_, at) => el("td", (cells[at] ?? "").slice(0, 200))));
  const preview = el("div.sheet.import-preview", { tabindex: 0, role: "region", "aria-label": "The first rows" },
    el("table", el("thead", el("tr", el("td"), heads)), el("tbody", rows.slice(0, SHOWN_ROWS).map(rowOf))));

  const missing = () => {
    if (columns.includes("id")) return [];
    const hasCategory = columns.includes("category") || columns.includes("categoryId");
    return [!columns.includes("name") && "the name of the animal", !hasCategory && "its category"].filter(Boolean);
  };

  const paintNotes = () => {
    const lacks = missing();
    const [dates] = mapping.dateOrder ? [] : ambiguousDates(rows, mapping);
    fill(notes,
      source.encoding === "windows-1252" && el("p.notice.warn", NOT_UTF8),
      header.conflicts.map(({ member, headings }) => el("p.notice.warn",
        `${headings.map((heading) => `“${heading}”`).join(" and ")} could both be “${columnLabel(member)}”. Choose which one it is.`)),
      lacks.length > 0 && el("p.notice.warn", `Choose the column that has ${lacks.join(", and the one that has ")}.`),
      columns.includes("price") && !columns.includes("currency") && !mapping.currency && el("p.notice.warn", NO_CURRENCY),
      dates && el("p.notice.warn", `Dates such as “${dates[1].ambiguous}” may have the day or the month first, and no other date of the column tells. Choose which, below.`));
  };

  const paint = () => {
    for (const [at, column] of columns.entries()) heads[at].classList.toggle("unused", !column);
    fill(options, optionFields());
    paintNotes();
    fill(actions, button(`Check ${plural(rows.length, "row")}`, "primary", go.check, { disabled: missing().length > 0 || !rows.length }),
      button("Another file", "", go.another));
  };

  const optionFields = () => {
    const statusOptions = ["", "available", "pending", "sold"].map((value) =>
      el("option", { value, selected: value === mapping.defaultStatus }, value || "no status"));
    const currencyLabel = columns.includes("currency") ? "Currency, where there is none" : "Currency of the prices";
    const status = el("select", { onchange: () => (mapping.defaultStatus = status.value) }, statusOptions);
    // Of a table that names currencies, an empty cell is a mistake.
    mapping.currency = mapping.chosenCurrency ?? (columns.includes("currency") ? "" : currencyOfShop());
    const currency = el("select", { onchange: () => {
      mapping.currency = mapping.chosenCurrency = currency.value;
      paintNotes();
    } },
      ["", ...[...DIGITS.keys()].sort()].map((value) => el("option", { value, selected: value === mapping.currency }, value || "–")));
    return [
      field("Status, where there is none", status),
      columns.includes("price") && field(currencyLabel, currency),
      ...dateFields(),
      (/** @type {const} */ (["status", "sex"])).flatMap(valueFields),
    ].flat();
  };

  /** Asks for the order of dates, once for all columns. */
  const dateFields = () => {
    const found = ambiguousDates(rows, mapping);
    if (!found.length) return [];
    const example = found[0][1].ambiguous ?? "";
    const select = el("select", { onchange: () => {
      mapping.dateOrder = /** @type {DateOrder} */ (select.value) || undefined;
      paintNotes();
    } }, el("option", { value: "" }, "– choose –"),
      ORDERS.map(([order, label]) => el("option", { value: order, selected: order === mapping.dateOrder }, `${label} first: ${readDate(example, { order })}`)));
    return [field(`Dates such as “${example}” (${found.map(([column]) => columnLabel(column)).join(", ")})`, select)];
  };

  const valueFields = (/** @type {"status" | "sex"} */ column) => {
    const chosen = (mapping.values[column] ??= new Map());
    const choices = CHOICES[column];
    return [...unknownValues(source, column)].slice(0, MAX_ASKED).map(([word, { text, rows }]) => {
      const select = el("select", { onchange: () => (select.value === "?" ? chosen.delete(word) : chosen.set(word, select.value)) },
        el("option", { value: "?" }, "– choose –"),
        [...choices, ""].map((value) => el("option", { value, selected: chosen.get(word) === value }, value || `no ${column}`)));
      return field(`${columnLabel(column)} “${text.slice(0, 40)}” (${plural(rows, "row")})`, select);
    });
  };

  const isHeader = el("input", { type: "checkbox", checked: header.end > 0,
    onchange: () => go.change(mapped(source, words, isHeader.checked)) });
  const sheetSelect = el("select", { onchange: () => go.choose(sheetSelect.value) },
    sheets.map((other) => el("option", { value: other.name, selected: other === sheet }, other.name, other.isHidden && " (hidden)")));
  const head = el("div", el("h2", { tabindex: -1 }, name), el("p.muted", `${plural(rows.length, "row")}. ${INTRODUCTION}`));
  fill(root, el("div.import-head", head, sheets.length > 1 && field("Sheet", sheetSelect)), notes, preview, el("label.check", isHeader, "The first row names the columns"), options, actions);
  paint();
}
