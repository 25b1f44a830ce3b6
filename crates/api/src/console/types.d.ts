// Types of the console, for the type checker and its readers; not part of the page.

import type { ApiError } from "./js/api.js";
import type { selectionBar } from "./js/many/bar.js";
import type { animal, sale } from "./js/members.js";

/** Numbers beyond 2^53 are read as `bigint`. */
export type Int64 = number | bigint;

/** `amount` is in the smallest unit of the currency. */
export type Price = { amount: number; currency: string };
export type Pet = {
  id: number;
  name: string;
  categoryId: Int64;
  status?: "available" | "pending" | "sold";
  breed?: string;
  sex?: "male" | "female" | "unknown";
  birthDate?: string;
  color?: string;
  microchip?: string;
  price?: Price;
  description?: string;
  notes?: string;
  location?: string;
  acquiredOn?: string;
  source?: { name: string; address?: string; licence?: string };
  metadata?: Record<string, string>;
  /** The first is the cover. Absent without photos. */
  photos?: Photo[];
};
/** The size is that of the picture in full, in pixels. */
export type Photo = { id: number; width: number; height: number; digest: string };
export type Order = {
  id: number;
  petId: number;
  status: "placed" | "completed" | "cancelled" | "returned";
  createdAt: string;
  updatedAt: string;
  expiresAt?: string;
  completedAt?: string;
  returnedAt?: string;
  price?: Price;
  reference?: string;
  /** Never part of an event. */
  buyer?: { name: string; address?: string; contact?: string };
};
/** The settings of the shop. */
export type Settings = { name?: string; address?: string; receiptText?: string; currency?: string };
export type Backup = { destination: "folder" | "s3"; newestAt: string | null; isLate: boolean; consecutiveFailures: number };
export type StoreEvent = {
  id: string;
  type: string;
  subject: string;
  time: string;
  sequence: string;
  keyid?: string;
  batchid?: string;
  data: any;
  /** The animal or category before the event, if the page has looked it up. */
  before?: any;
};
/** The events of a batch, or similar ones in a row: their number by type, and at most some of them, newest first. */
export type Burst = {
  id: string;
  newest: StoreEvent;
  oldest: StoreEvent;
  count: number;
  types: Record<string, number>;
  events: StoreEvent[];
  isOpen: boolean;
};
/** The number of events of a burst, by type; `isLeast`: there may be more. */
export type BatchSize = { types: Record<string, number>; count: number; isLeast: boolean };
/** The list shows the times to keys that may read keys. `secret` is only in the response that creates a key. */
export type Key = {
  id: number;
  name: string;
  scopes: string[];
  createdAt?: string;
  expiresAt?: string;
  lastUsedAt?: string;
  revokedAt?: string;
  secret?: string;
  /** Of an invitation: the key that it turns into, and the id of the one that is revoked then. */
  invitation?: { scopes: string[]; expiresAt?: string; replaces?: number };
};
export type Webhook = {
  id: number;
  url: string;
  types: string[];
  description?: string;
  state: "enabled" | "disabled";
  disabledReason?: string;
  keyId: number;
  createdAt: string;
  position: string;
  failingSince?: string;
  nextAttemptAt?: string;
};
export type Delivery = {
  eventId: string;
  state: "retrying" | "failed";
  attempts: number;
  lastAttemptAt: string;
  status?: number;
  error: string;
  nextAttemptAt?: string;
};

/** The first and the last day of a period, such as "2026-11-18". */
export type Days = { from: string; to: string };
/** Sales in a currency, returns subtracted; without a currency and amounts, sales without a price. */
export type SalesTotal = { currency?: string; sold: number; returned: number; soldAmount?: Int64; returnedAmount?: Int64; amount?: Int64 };
/** The sales of a day, week or month, of a category or of a key; without any of them, it is not known which. */
export type SalesGroup = { start?: string; categoryId?: Int64; keyId?: Int64; totals: SalesTotal[] };
export type Sales = { groups: SalesGroup[]; totals: SalesTotal[] };
/** A bar of a chart: the name below it, and in full. */
export type Bar = { start: string; label: string; name: string; total: SalesTotal };
/** The filters of the reports. `by` and `currency` are "" if they are not chosen. */
export type ReportFilter = { view: string; period: string; days: Days; by: string; currency: string };
/** An animal that was acquired or sold. Only the id is left if it was deleted long ago. */
export type RegisterEntry = {
  petId: number;
  name?: string;
  categoryId?: Int64;
  breed?: string;
  sex?: string;
  birthDate?: string;
  color?: string;
  microchip?: string;
  acquiredOn?: string;
  source?: { name: string; address?: string; licence?: string };
  deletedAt?: string;
  sale?: { orderId: number; soldAt: string; price?: Price; buyer?: Order["buyer"]; reference?: string; returnedAt?: string };
};

/** `next` is the query of the next page; `replayed`: an earlier request had the same idempotency key; `isOld`: kept from before. */
export type Result = { data: any; etag?: string; next?: string; replayed?: boolean; isOld?: boolean };
export type Options = RequestInit & { headers?: Record<string, string> };
/** Sends a request and waits for the response, which may be an error; rejects if the connection is lost. */
export type Transport = (path: string, options: Options) => Promise<Response>;
/** Gets events; whether they arrive, and whether the service responds; that the position is no longer kept. */
export type Follower = {
  event(event: StoreEvent): void;
  state(live: boolean, reached: boolean): void;
  gone(): void;
};
/** The action of a button. */
export type Action = () => Promise<unknown>;
export type OnError = (error: ApiError) => unknown;

/** The filters of a list by name. */
export type Filters = Record<string, string>;
/** `#/animals/17?status=sold`: the rest is "17". */
export type Address = { screen: string; rest: string; filters: Filters };
/** A screen. `show` gets another address of it; `onEvent` every event of the log that the key may see; `loadRest` loads what is printed of a long list. */
export type Screen = { show?(rest: string, filters: Filters): void; onEvent?(event: StoreEvent): void; loadRest?(): Promise<void> };
/** Shows a screen in an empty element, until it is aborted. */
export type Mount = (root: HTMLElement, rest: string, end: AbortSignal, filters: Filters) => Screen;

export type Child = Node | string | null | undefined | false;
export type Attributes = { [name: string]: unknown };
export type Content = Attributes | Child | Child[];
/** The element of a tag with classes, such as "a.btn.primary". */
export type ElementOf<Tag extends string> = Tag extends `${infer Name}.${string}`
  ? ElementOf<Name>
  : Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag] : HTMLElement;

export type Id = number | string;
export type ListOptions<Item> = {
  /** The element that gets the rows; a `tbody` if absent. */
  tag?: string;
  key(item: Item): Id;
  row(item: Item): HTMLElement;
  /** Returns true if an item belongs to the list; it is shown already, or not. */
  matches?(item: Item, isShown: boolean): boolean;
  /** True if the first page is sorted by key, newest first. */
  isSorted?(): boolean;
  /** The effect of an event. */
  apply?(event: StoreEvent): unknown;
  /** After a page was added. */
  added?(page: Item[]): unknown;
  /** All items that are shown from now on, if pages are not just added. */
  arrange?(page: any[], isFirst: boolean): Item[];
  /** The query of the next page, if it is not the one of the link. */
  pageQuery?(next: string): string;
  /** True if the next page waits for a person. */
  isPaused?(): boolean;
  /** The content below the list. */
  foot(count: number, isLast: boolean): Child;
};

/** Escapes a text of the store for a cell of a CSV file. */
export type Escape = (text?: string) => string;

/** The declaration of a member. */
export type Member = {
  label: string;
  /** A line of text, if absent. */
  kind?: "id" | "choice" | "date" | "birth" | "chip" | "price" | "lines" | "pairs";
  /** The label in a panel, if it is another one. */
  short?: string;
  /** The heading in a panel; "head": the member is part of the panel's own heading. */
  section?: string;
  /** The maximum length, if it is not 100. */
  max?: number;
  required?: boolean;
  placeholder?: string;
  /** The values of a choice, with their texts. */
  choices?: Record<string, string>;
};
/** A control of a form, or several that have one value. */
export type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement | { element: HTMLElement; value: string };
/** The members of a resource that a form edits. */
export type EditedRecord<Name extends string> = {
  names: Name[];
  valuesOf(resource: object): Record<Name, string>;
  normalise(values: Record<Name, string>): Record<Name, string>;
  changes(after: Record<Name, string>, before: Record<Name, string>): Record<string, any>;
};
export type Values = typeof animal.noValues;
export type SaleValues = typeof sale.noValues;

/** The size of a page in millimetres; a roll has the height 0. */
export type PageSize = { width: number; height: number };
/** A sheet of cards: the distances of the first one from the edges, and the gap between columns. `kind` is a class. */
export type CardFormat = {
  id: string;
  label: string;
  size: PageSize;
  kind: string;
  columns: number;
  rows: number;
  card: PageSize;
  left: number;
  top: number;
  gap: number;
};
/** A paper that can be printed: its pages, their number in words, and what is missing from them. The first of its `places` to be used can be chosen. */
export type PrintFormat = { id: string; label: string; size: PageSize; places?: number; render(first: number): HTMLElement[]; describe?(pages: number): string; note?: string };
export type PrintGroup = { label: string; formats: PrintFormat[] };

/** A file in a ZIP archive: its compressed size, and where it is. */
export type ZipEntry = { isEncrypted: boolean; method: number; size: number; offset: number };
/** Gets what an XML file has. */
export type XmlHandler = {
  open?(name: string, attributes: string): void;
  text?(text: string): void;
  close?(name: string): void;
};
/** The words of `words.json`. */
export type WordList = {
  headings: Record<string, string[]>;
  flags: Record<string, string[]>;
  values: Record<"status" | "sex" | "flag", Record<string, string[]>>;
  errors: string[];
  signs: Record<string, string[]>;
};
/** The meanings of simplified words, what spreadsheets show instead of a result, and the currencies of each sign. */
export type Words = Record<"members" | "headings" | "flags" | "status" | "sex" | "flag", Map<string, string>> & {
  errors: Set<string>;
  signs: Map<string, string[]>;
};

/** A row of a table, and the line it begins at. */
export type Row = { line: number; cells: string[] };
/** The rows that are not empty; merged cells from one position to another, each a column and a line. */
export type Table = { rows: Row[]; merged: [from: number[], to: number[]][] };
export type Sheet = { name: string; isHidden: boolean; rows(): Promise<Table> };
/**
 * The headings of a table, and the column of each: a member such as `source.name`, or `id`, `category`, `currency`,
 * `metadata.KEY`, `status=sold`; "": none. Its rows begin at `end`.
 */
export type Header = { end: number; headings: string[]; columns: string[]; conflicts: { member: string; headings: string[] }[] };
/** The day or the month first. */
export type DateOrder = "dmy" | "mdy";
/** The order of the dates of a column, if it is known, and its first date that may have either order. */
export type DateColumn = { order?: DateOrder; ambiguous?: string };
/** The meaning of the cells of a table. `values` has what a person has chosen for simplified words. */
export type Mapping = {
  columns: string[];
  width: number;
  words: Words;
  values: Partial<Record<"status" | "sex", Map<string, string>>>;
  defaultStatus: string;
  /** The currency of prices that have none. */
  currency: string;
  chosenCurrency?: string;
  /** The decimal mark of the prices, if it is known. */
  decimalMark?: string;
  /** The order of the dates of columns without one of their own, as the person has chosen. */
  dateOrder?: DateOrder;
  /** The columns of dates, by member. */
  dates?: Map<string, DateColumn>;
  /** True for a workbook, whose numbers have a decimal point. */
  isSheet?: boolean;
};
/** A row by its members; problems are by column, "" is the row. */
export type ImportRecord = Row & {
  id?: number;
  category?: { id?: string; name?: string };
  members: Record<string, any>;
  problems: Record<string, string>;
};
/** The part of the store that a table is compared with, and what a person has chosen. */
export type StoreView = {
  byId: Map<number, Pet>;
  byChip: Map<string, Pet>;
  /** The number of microchips that were not looked up. */
  unknownChips: number;
  categoryIds: Map<string, string>;
  categoryNames: Map<string, string>;
  createsCategories: boolean;
  matchesChips: boolean;
  defaultStatus: string;
};
/** A row and what the import would do with it. `target` is the animal that it changes, `holder` that with its microchip. */
export type CheckedRow = Row & {
  kind: "new" | "changed" | "unchanged" | "invalid";
  problems: Record<string, string>;
  shown: { name: string; category: string; status: string };
  target?: Pet;
  holder?: Pet;
  /** It has the number of no animal. */
  isRenumbered?: boolean;
  newName?: string;
  categoryId?: string;
  create?: object;
  update?: object;
  /** The values that the animal has of the members that the row changes. */
  expected?: object;
  difference?: string;
};
/** A file that is being imported. */
export type ImportSource = {
  name: string;
  bytes: Uint8Array;
  encoding: string;
  sheets: Sheet[];
  sheet: Sheet;
  table: Table;
  header: Header;
  mapping: Mapping;
};
/** A category that an import creates, or names if it has a number. */
export type NewCategory = { name: string; id?: string };
/** An import that has started, with the number of its rows and of its chunks. */
export type KeptImport = {
  id: string;
  key: number;
  name: string;
  hash: string;
  time: number;
  headings: string[];
  invalid: RejectedRow[];
  total: number;
  chunks: number;
  newCategories: NewCategory[];
  /** The numbers of categories in the file. */
  takenNumbers: Set<string>;
  /** The numbers of the new categories by folded name, once these are created. */
  categoryIds?: Map<string, string>;
};
/** The last import of a file, wherever it was made. */
export type FileImport = { batchId: string; state: string; added: number; changed: number; updatedAt: string; kept?: number };
/** The result of a change of a batch. */
export type BatchResult = { status: number; id?: number; error?: { code: string; message: string } };
export type ImportChange = { create: object } | { id: number; update: object; expected?: object };
/** A batch of an import, or its outcome. */
export type KeptChunk = {
  import: string;
  at: number;
  /** The position of its first row. */
  row: number;
  /** `newCategory`: the folded name of the category whose number the change is to have. */
  rows: (Row & { change: ImportChange; newCategory?: string })[];
  outcome?: { rows: number; added: number; changed: number; rejected: RejectedRow[] };
};
export type RejectedRow = Row & { reason: string };
/** An import, or a change of many animals. Of an import of this browser, `hash` is that of the file. */
export type PastBatch = {
  id: string;
  name: string;
  kind: "import" | "change";
  hash?: string;
  time: number;
  added: number;
  changed: number;
  deleted?: number;
  /** It has more changes than were counted. */
  isLonger?: boolean;
  /** The number of categories that it has created. */
  categories?: number;
  /** The time at which it was undone. */
  undone?: number;
};
/**
 * The number of animals that are as before, the animals that were kept, the number of categories that were deleted, and
 * of changes whose events are not kept anymore.
 */
export type UndoResult = { undone: number; kept: RejectedAnimal[]; categories: number; purged: number; purgedPhotos: number };
/** A button that leads back to where something was started. */
export type WayBack = { label: string; go(): void };

/** A file on its way to the service: its progress from 0 to 1, the address of a small picture of it, and why it failed. */
export type Upload = {
  id: string;
  pet: { id: number; name: string };
  name: string;
  file: Blob;
  state: "waiting" | "sending" | "lost" | "saved" | "failed";
  progress: number;
  preview: string;
  problem: string;
  /** The browser has converted the file, after the service had refused it. */
  isConverted: boolean;
  /** It may succeed if it is tried again. */
  canRetry: boolean;
};

/** An animal that a change of many, or an undo, left as it is. */
export type RejectedAnimal = { id: number; reason: string };
/** A change of many animals; without an update, they are deleted. `effect` says what is so of those that were changed. */
export type MemberChange = { name: string; update?: object; effect(done: number): string };
/** The list that animals are selected in: where its bar goes, the query of all matching animals, and their number. */
export type ManyOptions = {
  section: HTMLElement;
  path(): string;
  total(): { value?: number; text: string; isNarrowed: boolean };
  /** The category that the list is narrowed to. */
  categoryId(): string;
  end: AbortSignal;
};
export type ManyBar = ReturnType<typeof selectionBar>;
