// Imports that have started and not ended, in this browser's database: they can be resumed after the tab was closed.

/** @import { KeptChunk, KeptImport } from "../../types" */

/** Signing out deletes it: the files may be confidential. */
const DATABASE = "petstore-imports";
const IMPORTS = "imports";
const CHUNKS = "chunks";
/** The errors of a browser that stores nothing, or nothing more. */
const REFUSALS = ["QuotaExceededError", "SecurityError", "InvalidStateError", "UnknownError", "VersionError", "AbortError"];

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const settled = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

/** @type {Promise<IDBDatabase> | undefined} */
let opened;

function open() {
  opened ??= (async () => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(IMPORTS, { keyPath: "id" });
      request.result.createObjectStore(CHUNKS, { keyPath: ["import", "at"] });
    };
    const database = await settled(request);
    // Another tab signs out.
    database.onversionchange = () => {
      database.close();
      opened = undefined;
    };
    return database;
  })();
  opened.catch(() => (opened = undefined));
  return opened;
}

/** The end of a transaction: a request that has succeeded is not stored before. @param {IDBTransaction} transaction @returns {Promise<void>} */
const completed = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onabort = () => reject(transaction.error ?? new DOMException("the transaction was aborted", "AbortError"));
});

/**
 * Runs in one transaction: all of it is stored, or nothing. Returns null if the browser refuses to store anything.
 * @template T
 * @param {(imports: IDBObjectStore, chunks: IDBObjectStore) => Promise<T>} use
 */
async function run(use, mode = /** @type {IDBTransactionMode} */ ("readwrite")) {
  try {
    const transaction = (await open()).transaction([IMPORTS, CHUNKS], mode);
    const [result] = await Promise.all([use(transaction.objectStore(IMPORTS), transaction.objectStore(CHUNKS)), completed(transaction)]);
    return { result };
  } catch (error) {
    if (!(error instanceof DOMException) || !REFUSALS.includes(error.name)) throw error;
    return null;
  }
}

const chunksOf = (id = "") => IDBKeyRange.bound([id], [id, []]);

/** @returns {Promise<KeptImport[]>} */
export const keptImports = async () => (await run((imports) => settled(imports.getAll()), "readonly"))?.result ?? [];

/** @returns {Promise<KeptChunk[]>} */
export const keptChunks = async (id = "") => (await run((_, chunks) => settled(chunks.getAll(chunksOf(id))), "readonly"))?.result ?? [];

/** Keeps a chunk as it is now. Returns false if the browser refuses. @param {KeptChunk} chunk */
export const keepChunk = async (chunk) => null !== (await run((_, chunks) => settled(chunks.put(chunk))));

/** Keeps an import and all its chunks, or none of it. Returns false if the browser refuses. @param {KeptImport} kept @param {KeptChunk[]} [all] */
export const keepImport = async (kept, all = []) => null !== (await run(async (imports, chunks) => {
  // One after the other: the page stays responsive.
  for (const chunk of all) await settled(chunks.put(chunk));
  await settled(imports.put(kept));
}));

export const forgetImport = (id = "") => run((imports, chunks) => Promise.all([settled(chunks.delete(chunksOf(id))), settled(imports.delete(id))]));
