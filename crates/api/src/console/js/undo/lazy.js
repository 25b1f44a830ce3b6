// Entry for screens that load undo only when it is needed, with the styles of an import.

import { loadStyles } from "../styles.js";

export { findBatch } from "./batch.js";
export { confirmUndo, showUndo } from "./undo-step.js";

await loadStyles("import.css");
