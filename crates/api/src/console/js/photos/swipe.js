// Swipes to the left and to the right. Other gestures are those of the browser.

/** The way of a swipe, in pixels. */
const WAY = 50;

/** @param {HTMLElement} stage its first child follows the finger @param {(direction: number) => void} swiped */
export function onSwipe(stage, swiped) {
  /** @type {number | null} */
  let finger = null;
  let start = 0;
  let way = 0;
  const follow = (now = 0) => {
    way = now;
    const frame = /** @type {HTMLElement | null} */ (stage.firstElementChild);
    if (frame) frame.style.translate = way ? `${way}px` : "";
  };
  stage.addEventListener("pointerdown", ({ pointerType, pointerId, clientX, isPrimary }) => {
    // A second finger zooms.
    finger = pointerType === "mouse" || !isPrimary ? null : pointerId;
    start = clientX;
    follow();
  });
  stage.addEventListener("pointermove", ({ pointerId, clientX }) => pointerId === finger && follow(clientX - start));
  stage.addEventListener("pointercancel", () => ((finger = null), follow()));
  stage.addEventListener("pointerup", ({ pointerId }) => {
    if (pointerId !== finger) return;
    const done = way;
    finger = null;
    follow();
    if (Math.abs(done) > WAY) swiped(done < 0 ? 1 : -1);
  });
}
