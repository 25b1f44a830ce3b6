// Recognises a file that was imported before, by the SHA-256 of its content, as the command line does.

import { pacer } from "../pace.js";

const BLOCK = 64;
/** Blocks between two looks at the time. */
const IN_A_ROW = 1024;

/** The first bits of the fractional parts of roots of primes, as FIPS 180-4 has them. */
const primes = Array.from({ length: 312 }, (_, n) => n).filter((n) => n > 1 && !Array.from({ length: n - 2 }, (_, at) => at + 2).some((factor) => n % factor === 0));
const bits = (root = 0) => ((root - Math.floor(root)) * 2 ** 32) | 0;
const ROUND_CONSTANTS = Int32Array.from(primes.slice(0, 64), (prime) => bits(Math.cbrt(prime)));
const START = Int32Array.from(primes.slice(0, 8), (prime) => bits(Math.sqrt(prime)));

const rotate = (word = 0, by = 0) => (word >>> by) | (word << (32 - by));

/** @param {Int32Array} state @param {DataView} view @param {Int32Array} words */
function addBlock(state, view, offset = 0, words) {
  for (let at = 0; at < 64; at++) {
    if (at < 16) words[at] = view.getInt32(offset + 4 * at);
    else {
      const early = words[at - 15];
      const late = words[at - 2];
      words[at] = words[at - 16] + words[at - 7] + (rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3)) +
        (rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10));
    }
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let at = 0; at < 64; at++) {
    const first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[at] + words[at];
    const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) state[at] += word;
}

/** (`crypto.subtle` exists only over HTTPS, and on this computer.) @param {Uint8Array} bytes */
export async function sha256(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const state = START.slice();
  const words = new Int32Array(64);
  const turn = pacer();
  for (let at = 0; at < padded.length; at += BLOCK) {
    addBlock(state, view, at, words);
    if (at % (IN_A_ROW * BLOCK) === 0) await turn();
  }
  return hexOf(new Uint8Array(Array.from(state).flatMap((word) => [word >>> 24, word >>> 16, word >>> 8, word])));
}

/** @param {Uint8Array} bytes */
const hexOf = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** A hash of the content of a file; of a workbook, of one sheet. @param {Uint8Array} bytes */
export async function hashOf(bytes, sheet = "") {
  const name = new TextEncoder().encode(sheet);
  const all = new Uint8Array(bytes.length + name.length);
  all.set(bytes);
  all.set(name, bytes.length);
  return crypto.subtle ? hexOf(new Uint8Array(await crypto.subtle.digest("SHA-256", all))) : sha256(all);
}
