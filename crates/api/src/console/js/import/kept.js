// Imports that have started and not ended, in this browser's database: they can be resumed after the tab was closed.

/** @import { KeptChunk, KeptImport } from "../../types" */

/** Signing out deletes it: the files may be confidential. */
const DATABASE = "petstore-imports";
const [IMPORTS, CHUNKS] = ["imports", "chunks"];

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
  return opened;
}

/**
 * Runs in one transaction. A browser may refuse to store anything: then an import cannot be resumed later.
 * @template T
 * @param {(imports: IDBObjectStore, chunks: IDBObjectStore) => IDBRequest<T>} use
 */
async function run(use, mode = /** @type {IDBTransactionMode} */ ("readwrite")) {
  try {
    const transaction = (await open()).transaction([IMPORTS, CHUNKS], mode);
    return await settled(use(transaction.objectStore(IMPORTS), transaction.objectStore(CHUNKS)));
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}

const chunksOf = (id = "") => IDBKeyRange.bound([id], [id, []]);

/** @returns {Promise<KeptImport[]>} */
export const keptImports = async () => (await run((imports) => imports.getAll(), "readonly")) ?? [];

/** @returns {Promise<KeptChunk[]>} */
export const keptChunks = async (id = "") => (await run((_, chunks) => chunks.getAll(chunksOf(id)), "readonly")) ?? [];

/** @param {KeptChunk} chunk */
export const keepChunk = (chunk) => run((_, chunks) => chunks.put(chunk));

/** Keeps an import, after all its chunks. @param {KeptImport} kept @param {KeptChunk[]} all */
export async function keepImport(kept, all) {
  for (const chunk of all) await keepChunk(chunk);
  await run((imports) => imports.put(kept));
}

export const forgetImport = (id = "") => run((imports, chunks) => {
  chunks.delete(chunksOf(id));
  return imports.delete(id);
});
