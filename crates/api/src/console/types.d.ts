// Types of the console, for the type checker and its readers; not part of the page.

import type { ApiError } from "./js/api.js";
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

/** A row of a spreadsheet, and the line it begins at. */
export type Row = { line: number; cells: string[] };
/** The columns by position; -1: none. */
export type Columns = { name: number; category: number; categoryId: number; status: number };
/** The columns of other members by position: `breed`, `source.name`, `metadata.litter`. */
export type MoreColumns = Record<string, number>;
/** `shown` and `problems` are of the name, the category and the status. */
export type PetRow = Row & { shown: string[]; problems: string[]; pet: object | null };
/** A file to import. `time` is when the import began, if it did; then nothing else changes any more. */
export type Source = {
  key: number;
  time: number;
  name: string;
  text: string;
  pasted: boolean;
  note?: string;
  header?: boolean;
  columns?: Columns;
  categories?: [string, string][];
};
