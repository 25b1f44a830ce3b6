// Files that are dropped on an element. Beside it, the browser would open them instead of the page.

/** @param {HTMLElement} element @param {(files: File[]) => void} add @param {AbortSignal} end */
export function dropFiles(element, add, end) {
  const options = { signal: end };
  /** @param {DragEvent} event */
  const transferOf = ({ dataTransfer }) => (dataTransfer?.types.includes("Files") ? dataTransfer : null);
  const mark = (isOver = false) => element.classList.toggle("dropping", isOver);
  addEventListener("dragover", (event) => {
    const transfer = transferOf(event);
    if (!transfer) return;
    event.preventDefault();
    const isOver = element.contains(/** @type {Node} */ (event.target)) && !document.querySelector("dialog[open]");
    transfer.dropEffect = isOver ? "copy" : "none";
    mark(isOver);
  }, options);
  addEventListener("dragleave", (event) => event.relatedTarget || mark(), options);
  addEventListener("drop", (event) => {
    const transfer = transferOf(event);
    if (!transfer) return;
    event.preventDefault();
    if (element.classList.contains("dropping")) add([...transfer.files]);
    mark();
  }, options);
}
