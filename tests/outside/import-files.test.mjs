// The console's reader of files, with the same files and expectations as that of `petstore import`.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";

const files = new URL("../import-files/", import.meta.url);
const reader = new URL("../../crates/api/src/console/js/import/", import.meta.url);
const load = (name) => import(new URL(name, reader));
const { openFile } = await load("file.js");
const { ambiguousDates, dateColumnsOf } = await load("dates.js");
const { firstTable, guessHeader, rowsOf } = await load("header.js");
const { animal, nest } = await load("../members.js");
const { decimalMarkOf } = await load("prices.js");
const { columnLabel, readRecord } = await load("records.js");
const { indexWords, simplify } = await load("words.js");
const { FileError, Zip } = await load("zip.js");
const words = indexWords(JSON.parse(readFileSync(new URL("../../crates/domain/src/import/words.json", import.meta.url))));

// Reads a file with the choices of a person. Returns it in the form of the expectations.
async function read(name, { sheet: chosen, columns: changes = {}, values = {}, defaultStatus = "", currency = "", shopCurrency = "", dateOrder } = {}) {
  const { sheets, encoding } = await openFile(readFileSync(new URL(name, files)));
  const named = sheets.filter(({ name }) => name === chosen).map((sheet) => ({ ...sheet, isHidden: false }));
  if (chosen !== undefined && !named.length) throw new FileError(`There is no sheet ${chosen}, only ${sheets.map(({ name }) => name)}.`);
  const { sheet, table } = (await firstTable(named.length ? named : sheets, words)) ?? {};
  if (!table) throw new FileError("The file is empty.");
  const header = guessHeader(table, words);
  const { headings, columns } = header;
  // The console asks the person, and the command line refuses the file.
  if (!header.end) throw new FileError(sheet.name ? "No sheet has a table." : `The first line must name the columns, found ${table.rows[0].cells}.`);
  const changed = new Map(Object.entries(changes).map(([heading, column]) => [simplify(heading), column]));
  const unknown = Object.keys(changes).find((heading) => !headings.some((other) => simplify(other) === simplify(heading)));
  if (unknown) throw new FileError(`No column is headed ${unknown}.`);
  for (const [at, heading] of headings.entries()) {
    const column = changed.get(simplify(heading));
    if (column === undefined) continue;
    if (column && columns.includes(column)) columns[columns.indexOf(column)] = "";
    columns[at] = column;
  }
  for (const { member, headings: names } of header.conflicts) {
    const left = names.filter((name) => !changed.has(simplify(name)));
    if (left.length > 1 && !Object.values(changes).includes(member)) throw new FileError(`${names.join(" and ")} are both ${member}.`);
    if (left.length === 1 && !columns.includes(member)) columns[headings.indexOf(left[0])] = member;
  }
  if (!columns.includes("name") || !(columns.includes("category") || columns.includes("categoryId"))) {
    throw new FileError(`No row names the columns: a name and a category are needed, found ${headings}.`);
  }
  const chosenValues = new Map(Object.entries(values).map(([text, value]) => [simplify(text), value]));
  const mapping = { columns, width: sheet.name ? Infinity : headings.length, words, values: { status: chosenValues, sex: chosenValues }, defaultStatus,
    currency: currency || (columns.includes("currency") ? "" : shopCurrency), isSheet: sheet.name !== "", dateOrder };
  mapping.decimalMark = decimalMarkOf(rowsOf(table, header), mapping);
  mapping.dates = dateColumnsOf(rowsOf(table, header), mapping);
  const result = { rows: [], invalid: [], encoding, sheet: sheet.name, otherSheets: sheets.filter((other) => other.name !== sheet.name).map(({ name }) => name) };
  for (const row of rowsOf(table, header)) {
    const { line, id, members, category, problems } = readRecord(row, mapping);
    const messages = Object.entries(problems).map(([column, text]) => `${column} ${columnLabel(column)}: ${text}`);
    if (defaultStatus && members.status === undefined) members.status = defaultStatus;
    const filled = Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
    if (messages.length) result.invalid.push({ line, message: messages.join(" ") });
    else {
      result.rows.push({ line, ...(id && { id }), ...nest(filled), ...(category?.id !== undefined && { categoryId: Number(category.id) }),
        ...(category?.name !== undefined && { category: category.name }) });
    }
  }
  result.columns = Object.fromEntries(headings.flatMap((heading, at) => (columns[at] ? [[heading, columns[at].split("=")[0]]] : [])));
  result.ignored = headings.filter((heading, at) => heading && !columns[at]);
  return result;
}

const includes = (message, words) => [words].flat().every((word) => message.toLowerCase().includes(word.toLowerCase()));

for (const expectation of readdirSync(new URL("expected/", files)).filter((name) => name.endsWith(".json"))) {
  const name = expectation.slice(0, -".json".length);
  test(`${name} is read as expected`, async () => {
    const { error, options, rows, invalid = [], file = name, ...others } = JSON.parse(readFileSync(new URL(`expected/${expectation}`, files)));
    if (error) {
      await assert.rejects(read(file, options), (thrown) => thrown instanceof FileError && (includes(thrown.message, error) || assert.fail(thrown.message)));
      return;
    }
    const found = await read(file, options);
    assert.deepEqual(JSON.parse(JSON.stringify(found.rows)), rows);
    assert.deepEqual(found.invalid.map(({ line }) => line), invalid.map(({ line }) => line));
    for (const [at, { mentions = [] }] of invalid.entries()) assert.ok(includes(found.invalid[at].message, mentions), found.invalid[at].message);
    for (const [member, value] of Object.entries(others)) assert.deepEqual(found[member], value, member);
  });
}

// An archive with these files.
function archive(contents) {
  const [files, directory] = [[], []];
  let offset = 0;
  for (const [name, content] of Object.entries(contents)) {
    const data = deflateRawSync(content);
    const head = Buffer.alloc(30);
    head.writeUInt32LE(0x04034b50, 0);
    head.writeUInt16LE(name.length, 26);
    const entry = Buffer.alloc(46);
    entry.writeUInt32LE(0x02014b50, 0);
    entry.writeUInt16LE(8, 10);
    entry.writeUInt32LE(data.length, 20);
    entry.writeUInt32LE(content.length, 24);
    entry.writeUInt16LE(name.length, 28);
    entry.writeUInt32LE(offset, 42);
    files.push(head, Buffer.from(name), data);
    directory.push(entry, Buffer.from(name));
    offset += head.length + name.length + data.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(Object.keys(contents).length, 10);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...files, ...directory, end]);
}

const workbook = (sheet, relation = "worksheet") => archive({
  "xl/workbook.xml": '<workbook xmlns:r="r"><sheets><sheet name="A" sheetId="1" r:id="a"/></sheets></workbook>',
  "xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="a" Type="t/${relation}" Target="sheet.xml"/></Relationships>`,
  "xl/sheet.xml": sheet,
});

const rowsOfWorkbook = async (sheet) => {
  const { sheets } = await openFile(workbook(sheet));
  return (await sheets[0].rows()).rows;
};

test("a member is found by its own name, without a word for it in the list", () => {
  const { members } = indexWords({ headings: {}, flags: {}, values: { status: {}, sex: {}, flag: {} }, errors: [], signs: {} });
  assert.deepEqual([...members.values()], animal.names.filter((name) => name !== "metadata"));
  for (const [word, name] of members) assert.equal(word, simplify(name));
});

test("dates are read as people write them, and in the order of their column", () => {
  const columns = ["name", "categoryId", "birthDate", "acquiredOn"];
  const readAll = (dates, dateOrder, column = "birthDate") => {
    const rows = dates.map((date, at) => ({ line: at + 2, cells: ["Rex", "1", ...(column === "birthDate" ? [date, ""] : ["", date])] }));
    const mapping = { columns, width: columns.length, words, values: {}, defaultStatus: "", currency: "", dateOrder };
    mapping.dates = dateColumnsOf(rows, mapping);
    const records = rows.map((row) => readRecord(row, mapping));
    return { found: records.map(({ members, problems }) => problems[column] ?? members[column]), asked: ambiguousDates(rows, mapping).map(([name, { ambiguous }]) => [name, ambiguous]) };
  };
  const ambiguous = "Dates such as “05/06/2020” may have the day or the month first, and no other date of the column tells. Choose which, in the step before.";
  const cases = [
    [["31.12.2020", " 5.6.2020 ", "2020-01-31", "2020/1/31", "2020.01.31"], ["2020-12-31", "2020-06-05", "2020-01-31", "2020-01-31", "2020-01-31"]],
    [["05/06/2020", "31/12/2020", "1-2-2020"], ["2020-06-05", "2020-12-31", "2020-02-01"]],
    [["05/06/2020", "12-31-2020"], ["2020-05-06", "2020-12-31"]],
    // Points, equal parts, and dates without a doubt say nothing about others.
    [["31.12.2020", "05/05/2020", "05/06/2020", "2020-12-31", "07/08/2020"], ["2020-12-31", "2020-05-05", ambiguous, "2020-12-31", ambiguous]],
    [["31/12/2020", "12/31/2020", "05/06/2020"], ["2020-12-31", "2020-12-31", ambiguous]],
  ];
  for (const [dates, expected] of cases) {
    const isAsked = expected.includes(ambiguous);
    assert.deepEqual(readAll(dates), { found: expected, asked: isAsked ? [["birthDate", "05/06/2020"]] : [] });
    assert.deepEqual(readAll(dates, "dmy", "acquiredOn").found, dates.map((date, at) => (expected[at] === ambiguous ? date.split("/").toReversed().join("-") : expected[at])));
  }
  assert.deepEqual(readAll(["05/06/2020"], "mdy"), { found: ["2020-05-06"], asked: [["birthDate", "05/06/2020"]] });
  for (const date of ["12.31.2020", "31.12.20", "12/13/20", "31/02/2020", "13/13/2020", "0/1/2020", "31.12/2020", "2020-13-01", "2020-1", "1 May 2020", "٠١/٠٢/٢٠٢٠", "31/12/2020 10:00", "01/01/1899"]) {
    assert.match(readAll([date]).found[0], /must be a date from/, date);
  }
});

test("a typed price is read as a person writes it", async () => {
  const { parseAmount, parsePrice } = await load("../typed-price.js");
  for (const typed of ["1450", "1450.00", "1450,00", "1450.", "$1,450.00", "1.450,00 $", "1 450", "1450 usd"]) {
    assert.equal(parseAmount(typed, "USD"), 145_000, typed);
  }
  for (const typed of ["", "x", "-5", "1,450", "1,45,0", "12.345", "450 EUR", "$5 $"]) assert.equal(parseAmount(typed, "USD"), null, typed);
  assert.equal(parseAmount("1.450", "KWD"), 1450);
  assert.throws(() => parsePrice("9999999999999999 USD"), /Must be at most 10000000000\.00\./);
});

test("what is unpacked from a workbook is bounded", async () => {
  const zip = new Zip(archive({ zeros: Buffer.alloc(64 << 20) }));
  let size = 0;
  await assert.rejects(async () => {
    for (;;) for await (const part of zip.read("zeros")) size += part.length;
  }, (error) => error instanceof FileError && error.message.includes("more than 1 GiB"));
  assert.ok(size <= 1 << 30, size);
  const cells = (count, cell) => `<worksheet><sheetData>${Array.from({ length: count }, (_, at) => `<row r="${at + 1}">${cell(at + 1)}</row>`).join("")}</sheetData></worksheet>`;
  await assert.rejects(rowsOfWorkbook(cells(500, (line) => `<c r="XFD${line}"><v>1</v></c>`)), /too many cells/);
  await assert.rejects(rowsOfWorkbook('<worksheet><sheetData><row r="1048577"><c><v>1</v></c></row></sheetData></worksheet>'), /more than 1,048,576 rows/);
  await assert.rejects(rowsOfWorkbook(`<worksheet><a b="${"x".repeat(2 << 20)}`), FileError);
  await assert.rejects(rowsOfWorkbook('<!DOCTYPE a [<!ENTITY b "c">]><worksheet>&b;</worksheet>'), FileError);
  await assert.rejects(openFile(Buffer.alloc((64 << 20) + 1, "a")), /more than 64 MiB/);
});

test("UTF-16 is recognised without a byte order mark", async () => {
  const text = "name,category\nÄrmel,Dogs\n";
  const little = Buffer.from(text, "utf16le");
  const big = Buffer.from(little).swap16();
  for (const [bytes, encoding] of [[little, "utf-16le"], [big, "utf-16be"]]) {
    const file = await openFile(bytes);
    assert.equal(file.encoding, encoding);
    assert.deepEqual((await file.sheets[0].rows()).rows, [{ line: 1, cells: ["name", "category"] }, { line: 2, cells: ["Ärmel", "Dogs"] }]);
  }
  for (const text of ["a\0b,c", "a\0b\0\0c"]) await assert.rejects(openFile(Buffer.from(text)), /it has NUL characters/);
});

test("a file has the hash that the command line gives it", async () => {
  const { hashOf, sha256 } = await load("hash.js");
  for (const size of [0, 1, 55, 56, 63, 64, 65, 119, 120, 100_000]) {
    const bytes = Buffer.alloc(size, `${size} Ärmel\n`);
    const expected = createHash("sha256").update(bytes).digest("hex");
    assert.deepEqual([await sha256(bytes), await hashOf(bytes)], [expected, expected], size);
  }
  assert.equal(await hashOf(Buffer.from("a"), "Tiere"), createHash("sha256").update("aTiere").digest("hex"));
});

test("tags may be split anywhere, and have any prefix and quotes", async () => {
  const cell = "<x:c r='A1' t=\"inlineStr\"><x:is><x:t>a &gt; b &#x26; _x0041_</x:t></x:is></x:c>";
  const sheet = `<?xml version="1.0"?><!-- > --><x:worksheet><x:sheetData><x:row r="7">${cell}<x:c r="C1"><x:v><![CDATA[12]]></x:v></x:c></x:row></x:sheetData></x:worksheet>`;
  assert.deepEqual(await rowsOfWorkbook(sheet), [{ line: 7, cells: ["a > b & A", "", "12"] }]);
  const { readXml } = await load("xml.js");
  const seen = async (pieces) => {
    const all = [];
    await readXml(pieces, { open: (name) => all.push(`<${name}`), close: (name) => all.push(`>${name}`), text: (text) => all.push(text) });
    return all.join("");
  };
  const whole = await seen([sheet]);
  for (let at = 1; at < sheet.length; at++) assert.equal(await seen([sheet.slice(0, at), sheet.slice(at)]), whole, sheet.slice(0, at));
});
