// The files in a ZIP archive (APPNOTE.TXT), read with limits: an archive of a few kilobytes can claim to be terabytes.

/** @import { ZipEntry } from "../../types" */

/** The maximum size of all files that are read from one archive, before compression. */
const MAX_INFLATED = 1 << 30;
const MAX_ENTRIES = 10_000;
const END = 0x06054b50;
const ENTRY = 0x02014b50;
const FILE = 0x04034b50;
const STORED = 0;
const DEFLATED = 8;
const BROKEN = "The file is damaged: it is not complete, or it was changed on its way.";

/** The reason why a file cannot be imported, for a person. */
export class FileError extends Error {}

export class Zip {
  /** @type {Map<string, ZipEntry>} by path */
  entries = new Map();
  #inflated = 0;
  #bytes;

  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
    try {
      this.#readDirectory();
    } catch (error) {
      throw error instanceof RangeError ? new FileError(BROKEN) : error;
    }
  }

  #readDirectory() {
    const bytes = this.#bytes;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    // A comment of at most 64 KiB is behind it.
    let end = bytes.length - 22;
    while (end >= 0 && view.getUint32(end, true) !== END) end = end > bytes.length - 65_558 ? end - 1 : -1;
    if (end < 0) throw new FileError(BROKEN);
    const count = view.getUint16(end + 10, true);
    if (count > MAX_ENTRIES) throw new FileError("The file has too many parts for a spreadsheet.");
    for (let at = view.getUint32(end + 16, true), left = count; left > 0; left--) {
      if (view.getUint32(at, true) !== ENTRY) throw new FileError(BROKEN);
      const lengths = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
      const nameEnd = at + 46 + lengths[0];
      const name = new TextDecoder().decode(bytes.subarray(at + 46, nameEnd));
      const entry = {
        isEncrypted: (view.getUint16(at + 8, true) & 1) > 0,
        method: view.getUint16(at + 10, true),
        size: view.getUint32(at + 20, true),
        offset: view.getUint32(at + 42, true),
      };
      readZip64(view, at, nameEnd, lengths[1], entry);
      this.entries.set(name.replace(/^\//, "").toLowerCase(), entry);
      at = nameEnd + lengths[1] + lengths[2];
    }
  }

  /** @param {string} path */
  has(path) {
    return this.entries.has(path.toLowerCase());
  }

  /** Inflates a file piece by piece. @param {string} path @returns {AsyncGenerator<Uint8Array>} */
  async *read(path) {
    const entry = this.entries.get(path.toLowerCase());
    if (!entry) throw new FileError(`${BROKEN} It has no part ${path}.`);
    if (entry.isEncrypted) throw new FileError("The file is protected by a password. Save it without one.");
    const { method, offset, size } = entry;
    const bytes = this.#bytes;
    if (offset + 30 > bytes.length) throw new FileError(BROKEN);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const start = offset + 30 + view.getUint16(offset + 26, true) + view.getUint16(offset + 28, true);
    const isKnown = method === STORED || method === DEFLATED;
    if (view.getUint32(offset, true) !== FILE || start + size > bytes.length || !isKnown) throw new FileError(BROKEN);
    const stored = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes.subarray(start, start + size))]).stream();
    const reader = (method === STORED ? stored : stored.pipeThrough(new DecompressionStream("deflate-raw"))).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch(() => {
          throw new FileError(BROKEN);
        });
        if (done) return;
        this.#inflated += value.length;
        if (this.#inflated > MAX_INFLATED) throw new FileError("The file is too large: it has more than 1 GiB after it is unpacked.");
        yield value;
      }
    } finally {
      await reader.cancel().catch(() => {});
    }
  }

  /** The text of a file, in pieces. @param {string} path @returns {AsyncGenerator<string>} */
  async *readText(path) {
    let decoder = null;
    for await (const bytes of this.read(path)) {
      const mark = bytes.subarray(0, 2).join(" ");
      decoder ??= new TextDecoder({ "255 254": "utf-16le", "254 255": "utf-16be" }[mark] ?? "utf-8");
      yield decoder.decode(bytes, { stream: true });
    }
  }
}

/**
 * Some programs write 64-bit sizes for files of any size.
 * @param {DataView} view
 * @param {number} at the entry
 * @param {number} start of its extra fields
 * @param {number} length of them
 * @param {ZipEntry} entry
 */
function readZip64(view, at, start, length, entry) {
  for (let field = start; field + 4 <= start + length; field += 4 + view.getUint16(field + 2, true)) {
    if (view.getUint16(field, true) !== 1) continue;
    let value = field + 4;
    const next = () => Number(view.getBigUint64((value += 8) - 8, true));
    if (view.getUint32(at + 24, true) === 0xffffffff) next();
    if (entry.size === 0xffffffff) entry.size = next();
    if (entry.offset === 0xffffffff) entry.offset = next();
  }
}
