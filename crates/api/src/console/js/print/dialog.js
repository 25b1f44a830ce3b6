// The dialog before something is printed: the paper, and a preview. As long as it is open, the page prints the papers.

import { dialog } from "../dialogs.js";
import { button, el, fill } from "../dom.js";
import { field } from "../forms.js";
import { plural } from "../format.js";
import { loadStyles } from "../styles.js";

/** @import { PageSize, PrintFormat, PrintGroup } from "../../types" */

/** Pixels of CSS in a millimetre. */
const MM = 96 / 25.4;
/** The height of the preview in pixels. */
const PREVIEW_HEIGHT = 380;
/** The regions where people use Letter. */
const LETTER_REGIONS = ["US", "CA", "MX", "CL", "CO", "CR", "GT", "PA", "PH", "PR", "SV", "VE"];
/** The smallest sizes of text, relative to the usual ones. */
const SMALLEST = 0.3;
const SMALLEST_NAME = 0.5;

await loadStyles("paper.css");

const sizes = new CSSStyleSheet();
document.adoptedStyleSheets.push(sizes);

/** The paper of the browser's region. */
function usualPaper() {
  const { region = "" } = new Intl.Locale(Intl.NumberFormat().resolvedOptions().locale).maximize();
  return LETTER_REGIONS.includes(region) ? "letter" : "a4";
}

/** @param {HTMLElement} element @param {Record<string, number>} lengths in millimetres */
export function setLengths(element, lengths) {
  for (const [name, length] of Object.entries(lengths)) element.style.setProperty(`--${name}`, `${length}mm`);
  return element;
}

/** @param {HTMLElement} box */
const overflows = ({ scrollHeight, clientHeight, scrollWidth, clientWidth }) => scrollHeight > clientHeight || scrollWidth > clientWidth;

/** @param {HTMLElement} box */
function hasLongName(box) {
  const name = /** @type {HTMLElement} */ (box.querySelector("h3"));
  return name.offsetHeight > 1.5 * parseFloat(getComputedStyle(name).lineHeight);
}

/** Makes names of several lines smaller in what overflows, and then all of its text, until it fits. @param {HTMLElement} papers */
function fit(papers) {
  let large = /** @type {HTMLElement[]} */ ([...papers.querySelectorAll(".fit")]).filter(overflows);
  /** @param {string} property @param {number} smallest @param {(box: HTMLElement) => boolean} isFor */
  const shrink = (property, smallest, isFor) => {
    let boxes = large.filter(isFor);
    for (let size = 0.95; boxes.length && size >= smallest; size -= 0.05) {
      for (const box of boxes) box.style.setProperty(property, String(size));
      boxes = boxes.filter((box) => overflows(box) && isFor(box));
    }
    large = large.filter(overflows);
  };
  shrink("--name-size", SMALLEST_NAME, hasLongName);
  shrink("--size", SMALLEST, () => true);
}

/**
 * Lets a person choose the paper, and prints. The choice is remembered on this device.
 * @param {string} title
 * @param {string} kind of what is printed
 * @param {PrintGroup[]} groups of formats
 * @param {string} [hint]
 */
export function printDialog(title, kind, groups, hint) {
  const formats = groups.flatMap(({ formats }) => formats);
  const kept = localStorage.getItem(`petstore-print-${kind}`);
  const papers = el("div.papers", { "aria-hidden": "true", inert: true });
  const preview = el("div.preview");
  const pages = el("p.hint", { role: "status" });
  const note = el("p.hint");
  const choice = el("select", { name: "paper", onchange: () => {
    localStorage.setItem(`petstore-print-${kind}`, choice.value);
    paint();
  } }, groups.map(({ label, formats }) => {
    const options = formats.map(({ id, label }) => el("option", { value: id }, label));
    return groups.length > 1 ? el("optgroup", { label }, options) : options;
  }).flat());
  // A sheet of labels may have been used in part.
  const start = el("input", { name: "start", type: "number", min: 1, step: 1, value: 1, inputmode: "numeric", oninput: () => start.checkValidity() && paint() });
  const startField = field("Start at label", start);
  const usual = formats.find(({ id }) => id === kept) ?? formats.find(({ id }) => id.includes(usualPaper()));
  choice.value = usual?.id ?? formats[0].id;

  const paint = () => {
    const format = formats.find(({ id }) => id === choice.value) ?? formats[0];
    const { places = 1 } = format;
    startField.hidden = places === 1;
    start.max = String(places);
    if (!start.checkValidity()) start.value = "1";
    const all = format.render(places > 1 ? Number(start.value) || 1 : 1);
    const size = { ...format.size };
    for (const page of all) setLengths(page, { width: size.width });
    fill(papers, ...all);
    if (!size.height) size.height = Math.ceil(papers.scrollHeight / MM) + 1;
    for (const page of all) setLengths(page, size);
    fit(papers);
    sizes.replaceSync(`@page { size: ${size.width}mm ${size.height}mm; margin: 0 }`);
    // A paper that flows over several pages is one element.
    const count = all.length > 1 ? all.length : Math.ceil((papers.scrollHeight - 2) / (size.height * MM));
    pages.textContent = format.describe?.(count) ?? plural(count, "page");
    note.textContent = format.note ?? "";
    showPreview(all[0], size);
  };

  /** Shows the first page, as large as the dialog has room. @param {HTMLElement} page @param {PageSize} size */
  const showPreview = (page, size) => {
    const scale = Math.min((0.94 * preview.clientWidth) / size.width, PREVIEW_HEIGHT / size.height, 1.2 * MM) / MM;
    const sheet = el("div.preview-page", { role: "img", "aria-label": "Preview of the first page" }, page.cloneNode(true));
    sheet.style.setProperty("--scale", String(scale));
    fill(preview, setLengths(sheet, size));
  };

  const box = dialog(title, el("div", field("Paper", choice), startField, preview, pages, note, el("p.hint", hint),
    el("div.actions", button("Print", "primary", () => print(), { autofocus: true }), button("Close", "", () => box.close()))));
  box.classList.add("large");
  document.body.append(papers);
  paint();
  box.addEventListener("close", () => {
    papers.remove();
    sizes.replaceSync("");
  });
  return box;
}
