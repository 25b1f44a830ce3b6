// Long work in short turns, so that the page stays responsive. A worker is no choice: the policy of the page allows no
// script URLs from text (trusted types).

/** The length of a turn, in milliseconds. */
const TURN = 16;

/** The next task of the browser. Timers would be throttled in a tab in the background. @returns {Promise<void>} */
const nextTask = () => new Promise((resolve) => {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    resolve();
  };
  port2.postMessage(0);
});

/** A function to call often: its promise, if there is one, is to be awaited. */
export function pacer() {
  let end = performance.now() + TURN;
  return () => performance.now() < end ? undefined : nextTask().then(() => {
    end = performance.now() + TURN;
  });
}

/** Maps a long array in turns. @template T, U @param {T[]} items @param {(item: T, at: number) => U} map */
export async function mapInTurns(items, map) {
  const turn = pacer();
  /** @type {U[]} */
  const all = [];
  for (const [at, item] of items.entries()) {
    all.push(map(item, at));
    if (at % 64 === 0) await turn();
  }
  return all;
}
