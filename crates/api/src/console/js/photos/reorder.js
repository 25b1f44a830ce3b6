// Moves the items of a list by dragging: with a mouse at once, with a finger after a long press, so that it can scroll.

/** The way that a mouse moves before it drags, in pixels. */
const SLACK = 5;
/** The time that a finger rests before it drags, in milliseconds. */
const PRESS = 300;

/**
 * Items that have a `data-photo` can be moved among each other.
 * @param {HTMLElement} list
 * @param {(id: number, at: number) => void} moved
 */
export function reorder(list, moved) {
  /** The item under the pointer, and where it was taken. @type {{ item: HTMLElement, x: number, y: number, grabX: number, grabY: number } | null} */
  let held = null;
  let isDragging = false;
  let press = 0;

  const items = () => /** @type {HTMLElement[]} */ ([...list.children]).filter(({ dataset }) => dataset.photo);

  const start = () => {
    if (!held || items().length < 2) return;
    isDragging = true;
    held.item.classList.add("dragged");
    list.classList.add("sorting");
    follow();
  };

  /** The siblings make room: moving the item itself would end its touch. */
  const makeRoom = (/** @type {HTMLElement} */ item, x = 0, y = 0) => {
    const over = document.elementsFromPoint(x, y).map((element) => element.closest("[data-photo]"))
      .find((element) => element && element !== item && element.parentElement === list);
    if (!over) return;
    const all = items();
    const from = all.indexOf(item);
    const to = all.indexOf(/** @type {HTMLElement} */ (over));
    if (to > from) for (const sibling of all.slice(from + 1, to + 1)) item.before(sibling);
    else item.after(...all.slice(to, from));
  };

  const follow = () => {
    if (!held) return;
    const { item, x, y, grabX, grabY } = held;
    makeRoom(item, x, y);
    const { left, top } = list.getBoundingClientRect();
    item.style.translate = `${x - left - grabX - item.offsetLeft + list.offsetLeft}px ${y - top - grabY - item.offsetTop + list.offsetTop}px`;
  };

  const finish = (isDropped = false) => {
    clearTimeout(press);
    const item = held?.item;
    held = null;
    if (!isDragging || !item) return;
    isDragging = false;
    list.classList.remove("sorting");
    item.classList.remove("dragged");
    item.style.translate = "";
    // The click that ends the drag does not open the photo.
    list.addEventListener("click", (event) => event.stopPropagation(), { capture: true, once: true, signal: AbortSignal.timeout(50) });
    if (isDropped) moved(Number(item.dataset.photo), items().indexOf(item));
  };

  list.addEventListener("pointerdown", (event) => {
    const item = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-photo]"));
    if (!item || event.button || !event.isPrimary) return;
    const { left, top } = item.getBoundingClientRect();
    held = { item, x: event.clientX, y: event.clientY, grabX: event.clientX - left, grabY: event.clientY - top };
    if (event.pointerType !== "mouse") press = setTimeout(start, PRESS);
    const way = { x: event.clientX, y: event.clientY };
    const end = new AbortController();
    const options = { signal: end.signal };
    document.addEventListener("pointermove", (move) => {
      if (!held || move.pointerId !== event.pointerId) return;
      Object.assign(held, { x: move.clientX, y: move.clientY });
      const isFar = Math.hypot(move.clientX - way.x, move.clientY - way.y) > SLACK;
      if (isDragging) follow();
      else if (isFar && event.pointerType === "mouse") start();
      else if (isFar) clearTimeout(press);
    }, options);
    for (const type of ["pointerup", "pointercancel"]) document.addEventListener(type, () => (end.abort(), finish(type === "pointerup")), options);
  });
  list.addEventListener("touchmove", (event) => isDragging && event.preventDefault(), { passive: false });
  list.addEventListener("contextmenu", (event) => isDragging && event.preventDefault());
}
