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
};
export type Order = {
  id: number;
  petId: number;
  status: "placed" | "completed" | "cancelled" | "returned";
  createdAt: string;
  updatedAt: string;
  expiresAt?: string;
  price?: Price;
  reference?: string;
  /** Never part of an event. */
  buyer?: { name: string; address?: string; contact?: string };
};
export type StoreEvent = {
  id: string;
  type: string;
  subject: string;
  time: string;
  sequence: string;
  keyid?: string;
  data: any;
  /** The animal or category before the event, if the page has looked it up. */
  before?: any;
};
/** Similar events in a row: at most some of them, newest first. */
export type Burst = {
  id: string;
  newest: StoreEvent;
  oldest: StoreEvent;
  count: number;
  events: StoreEvent[];
  isOpen: boolean;
};
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

/** `next` is the query of the next page; `replayed`: an earlier request had the same idempotency key; `isOld`: kept from before. */
export type Result = { data: any; etag?: string; next?: string; replayed?: boolean; isOld?: boolean };
export type Options = RequestInit & { headers?: Record<string, string> };
/** Gets events; whether they arrive, and whether the service responds; that the position is no longer kept. */
export type Follower = {
  event(event: StoreEvent): void;
  state(live: boolean, reached: boolean): void;
  gone(): void;
};
/** What a button does. */
export type Action = () => Promise<unknown>;
export type OnError = (error: ApiError) => unknown;

/** The filters of a list by name. */
export type Filters = Record<string, string>;
/** `#/animals/17?status=sold`: the rest is "17". */
export type Address = { screen: string; rest: string; filters: Filters };
/** A screen. `show` gets another address of it; `onEvent` every event of the log that the key may see. */
export type Screen = { show?(rest: string, filters: Filters): void; onEvent?(event: StoreEvent): void };
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
  /** Where the rows go; a `tbody` if absent. */
  tag?: string;
  key(item: Item): Id;
  row(item: Item): HTMLElement;
  /** Whether an item belongs to the list; it is shown already, or not. */
  matches?(item: Item, isShown: boolean): boolean;
  /** Whether the first page is sorted by key, newest first. */
  isSorted?(): boolean;
  /** What an event changes. */
  apply?(event: StoreEvent): unknown;
  /** After a page was added. */
  added?(page: Item[]): unknown;
  /** All items that are shown from now on, if pages are not just added. */
  arrange?(page: any[], isFirst: boolean): Item[];
  /** The query of the next page, if it is not the one of the link. */
  pageQuery?(next: string): string;
  /** Whether the next page waits for a person. */
  isPaused?(): boolean;
  /** What is below the list. */
  foot(count: number, isLast: boolean): Child;
};

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
export type Values = typeof animal.noValues;
export type SaleValues = typeof sale.noValues;

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
};
/** The meanings of simplified words, and what spreadsheets show instead of a result. */
export type Words = Record<"members" | "headings" | "flags" | "status" | "sex" | "flag", Map<string, string>> & { errors: Set<string> };

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
  difference?: string;
};
/** A file that is being imported. */
export type ImportSource = {
  name: string;
  hash: string;
  encoding: string;
  sheets: Sheet[];
  sheet: Sheet;
  table: Table;
  header: Header;
  mapping: Mapping;
};
/** An import that has started. */
export type KeptImport = { id: string; key: number; name: string; hash: string; time: number; headings: string[]; invalid: RejectedRow[] };
/** The result of a change of a batch. */
export type BatchResult = { status: number; id?: number; error?: { code: string; message: string } };
/** A batch of an import, or its outcome. */
export type KeptChunk = {
  import: string;
  at: number;
  rows: (Row & { change: object })[];
  outcome?: { rows: number; added: number; changed: number; rejected: RejectedRow[] };
};
export type RejectedRow = Row & { reason: string };
/** An animal that an undo left as it is. */
export type KeptAnimal = { id: number; reason: string; message: string };
/** An import, or a change of many animals, which has no `hash`. */
export type PastImport = { id: string; name: string; hash?: string; time: number; added: number; changed: number; deleted?: number; undone?: number };

/** An animal that a change of many left as it is. */
export type RejectedAnimal = { id: number; reason: string };
/** A change of many animals; without an update, they are deleted. `effect` says what is so of those that were changed. */
export type MemberChange = { name: string; update?: object; effect(done: number): string };
/** The list that animals are selected in: where its bar goes, the query of all that match, and their number. */
export type ManyOptions = {
  section: HTMLElement;
  path(): string;
  total(): { value?: number; text: string; isNarrowed: boolean };
  /** The category that the list is narrowed to. */
  categoryId(): string;
  end: AbortSignal;
};
export type ManyBar = ReturnType<typeof selectionBar>;
