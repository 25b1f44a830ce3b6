// The cells of an export, as `petstore export` writes them and `petstore import` reads them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const { escapeText, unescapeAndTrim, unescapeText } = await import(new URL("../../crates/api/src/console/js/csv.js", import.meta.url));
const errors = new Set(JSON.parse(readFileSync(new URL("../../crates/domain/src/import/words.json", import.meta.url))).errors);

test("texts that a spreadsheet would change get an apostrophe", () => {
  for (const [text, cell] of [
    ["=1+1", "'=1+1"], ["+1", "'+1"], ["-1", "'-1"], ["@SUM(A1)", "'@SUM(A1)"], ["\t=1", "'\t=1"], ["＝1+1", "'＝1+1"], ["  =1", "'  =1"],
    ["'=1", "''=1"], ["Rex;=1+1;b", "Rex;'=1+1;b"], ['Rex;"=1+1;b', "Rex;'\"=1+1;b"], ["#N/A", "'#N/A"], ["a; #REF!", "a;' #REF!"],
    ["'#N/A", "''#N/A"], [" Rex", "' Rex"], ["Rex ", "'Rex "], ["'Rex ", "''Rex "], ["a;b ", "'a;b "], ["Rex' ", "'Rex' "], [" =x ", "' =x "],
    // Nothing to keep.
    ["Rex", "Rex"], ["'n Sync", "'n Sync"], ["O'=Malley", "O'=Malley"], ["#1", "#1"], ["a ;b", "a ;b"],
  ]) {
    assert.equal(escapeText(text, errors), cell);
    assert.equal(unescapeText(cell, errors), text);
    assert.equal(unescapeAndTrim(cell, errors), text);
  }
  // Cells that people have typed.
  for (const [cell, text] of [["  Rex ", "Rex"], [" =1 ", "=1"], [" ' =x ", "' =x"], [" 'Rex", "'Rex"]]) assert.equal(unescapeAndTrim(cell, errors), text);
});

test("whatever is exported is read as it was", () => {
  const parts = ["'", " ", "=", ";", '"', "#N/A", "#", "Rex", "\t", "-", "\u3000", "＋"];
  for (let size = 1; size <= 4; size++) {
    for (let number = 0; number < parts.length ** size; number++) {
      const text = Array.from({ length: size }, (_, at) => parts[Math.floor(number / parts.length ** at) % parts.length]).join("");
      const cell = escapeText(text, errors);
      assert.equal(unescapeText(cell, errors), text, cell);
      assert.equal(unescapeAndTrim(cell, errors), text, cell);
      assert.ok(!errors.has(cell.trim()), cell);
    }
  }
});
