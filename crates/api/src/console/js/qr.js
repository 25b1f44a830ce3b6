// QR codes (ISO/IEC 18004) of up to 213 bytes: byte mode, error correction level M, mask 0. A reader accepts any mask;
// choosing one for looks is left out, because most of a link with a secret is random.

import { draw } from "./svg.js";

/** Of versions 1 to 10: all codewords, the error correction codewords of a block, and the number of blocks. */
const VERSIONS = [
  [26, 10, 1], [44, 16, 1], [70, 26, 1], [100, 18, 2], [134, 24, 2], [172, 16, 4], [196, 18, 4], [242, 22, 4], [292, 22, 5], [346, 26, 5],
];
/** Level M and mask 0, and the versions from 7 on, with their check bits. */
const FORMAT = 0x5412;
const VERSION_BITS = [0x07c94, 0x085bc, 0x09a99, 0x0a4d3];
/** The empty border that readers need, in modules. */
const QUIET = 4;
/** In pixels. */
const WIDTH = 260;

/** In the field with 256 elements, modulo x⁸ + x⁴ + x³ + x² + 1. */
function multiply(a = 0, b = 0) {
  let product = 0;
  for (; b; b >>= 1, a = (a << 1) ^ (a & 0x80 && 0x11d)) if (b & 1) product ^= a;
  return product;
}

/** The Reed-Solomon codewords of a block: the remainder of its division by the generator polynomial. @param {number[]} block */
function correction(block, degree = 0) {
  let generator = [1];
  for (let power = 0, root = 1; power < degree; power++, root = multiply(root, 2)) {
    generator = [...generator, 0].map((factor, at) => factor ^ multiply(generator[at - 1], root));
  }
  const rest = [...block, ...Array(degree).fill(0)];
  for (const at of block.keys()) {
    const first = rest[at];
    generator.forEach((factor, offset) => (rest[at + offset] ^= multiply(factor, first)));
  }
  return rest.slice(block.length);
}

/** @param {number[][]} blocks the last ones may be longer by one */
const interleave = (blocks) => blocks[blocks.length - 1].flatMap((_, at) => blocks.flatMap((block) => block[at] ?? []));

/** The version, and the codewords in the order in which they are drawn. */
function encode(text = "") {
  const bytes = [...new TextEncoder().encode(text)];
  const lengthDigits = (version = 0) => (version < 10 ? 2 : 4);
  const capacity = ([all, check, blocks] = VERSIONS[0]) => all - check * blocks;
  const at = VERSIONS.findIndex((row, at) => bytes.length + 1 + lengthDigits(at + 1) / 2 <= capacity(row));
  if (at < 0) throw new RangeError("too long for a QR code");
  const version = at + 1;
  const [, check, count] = VERSIONS[at];
  const size = capacity(VERSIONS[at]);
  const hex = (value = 0, digits = 2) => value.toString(16).padStart(digits, "0");
  // The mode takes four bits, and so does the end.
  const digits = `4${hex(bytes.length, lengthDigits(version))}${bytes.map((byte) => hex(byte)).join("")}0`;
  const data = (digits.match(/../g) ?? []).map((pair) => parseInt(pair, 16));
  for (let filler = 0xec; data.length < size; filler ^= 0xec ^ 0x11) data.push(filler);
  const blocks = Array.from({ length: count }, (_, block) =>
    data.splice(0, Math.floor(size / count) + (block >= count - (size % count) ? 1 : 0)));
  return { version, codewords: [...interleave(blocks), ...interleave(blocks.map((block) => correction(block, check)))] };
}

/** The modules by row: true is dark. */
export function modulesOf(text = "") {
  const { version, codewords } = encode(text);
  const size = 17 + 4 * version;
  /** @type {boolean[][]} */
  const rows = Array.from({ length: size }, () => []);
  const set = (x = 0, y = 0, dark = false) => rows[y]?.[x] ?? (x >= 0 && x < size && y >= 0 && y < size && (rows[y][x] = dark));
  /** Concentric squares, some of them light. */
  const squares = (centreX = 0, centreY = 0, radius = 0, /** @type {number[]} */ ...light) => {
    for (let y = -radius; y <= radius; y++) for (let x = -radius; x <= radius; x++) {
      set(centreX + x, centreY + y, !light.includes(Math.max(Math.abs(x), Math.abs(y))));
    }
  };
  // A module that is set stays: the finder patterns come first.
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) squares(x, y, 4, 2, 4);
  const centres = version < 2 ? [] : version < 7 ? [6, size - 7] : [6, (size - 1) / 2, size - 7];
  const isFinder = (x = 0, y = 0) => (x === 6 && y === 6) || (x === 6 && y === size - 7) || (x === size - 7 && y === 6);
  for (const x of centres) for (const y of centres) if (!isFinder(x, y)) squares(x, y, 2, 1);
  for (let at = 8; at < size - 8; at++) for (const [x, y] of [[at, 6], [6, at]]) set(x, y, at % 2 === 0);
  for (let bit = 0; bit < 15; bit++) {
    const dark = ((FORMAT >> bit) & 1) === 1;
    set(8, bit < 6 ? bit : bit < 8 ? bit + 1 : size - 15 + bit, dark);
    set(bit < 8 ? size - 1 - bit : bit < 9 ? 7 : 14 - bit, 8, dark);
  }
  set(8, size - 8, true);
  for (let bit = 0; version >= 7 && bit < 18; bit++) {
    const long = Math.floor(bit / 3);
    const short = size - 11 + (bit % 3);
    const dark = ((VERSION_BITS[version - 7] >> bit) & 1) === 1;
    set(long, short, dark);
    set(short, long, dark);
  }
  // The data goes up and down in columns of two, from the right; the timing pattern has a column of its own.
  let bit = 0;
  for (let right = size - 1, isUp = true; right > 0; right -= right === 8 ? 3 : 2, isUp = !isUp) {
    for (let step = 0; step < size; step++) for (const x of [right, right - 1]) {
      const y = isUp ? size - 1 - step : step;
      if (rows[y][x] !== undefined) continue;
      const isSet = ((codewords[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1;
      set(x, y, (isSet === 1) !== ((x + y) % 2 === 0));
      bit++;
    }
  }
  return rows;
}

/** The QR code as a drawing. It is dark on white in a dark page, too: not every reader knows the opposite. */
export function qrCode(text = "", label = "") {
  const rows = modulesOf(text);
  const size = rows.length + 2 * QUIET;
  const squares = rows.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : "")));
  return draw("svg", { width: WIDTH, viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label, "shape-rendering": "crispEdges" },
    draw("rect", { width: size, height: size, rx: 1, fill: "#fff" }), draw("path", { d: squares.join(""), fill: "#000" }));
}
