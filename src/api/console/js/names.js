// The names of animals, categories and API keys, which events and orders refer to by id.

export class Names {
  /** @param {import("./api.js").Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Map<string, string>} */
    this.categories = new Map();
    /** @type {Map<string, string>} */
    this.keys = new Map();
    /** @type {Map<number, string>} "" if there is no such animal */
    this.pets = new Map();
    /** @type {Promise<void> | null} */
    this.loadingKeys = null;
  }

  async loadCategories() {
    this.categories = await this.#load("categories");
  }

  /** Loads the keys, if one of these ids is new. @param {(string | undefined)[]} ids */
  async loadKeys(ids) {
    if (ids.every((id) => !id || this.keys.has(id))) return;
    this.loadingKeys ??= this.#load("keys").then((keys) => void (this.keys = keys), () => {});
    await this.loadingKeys;
    this.loadingKeys = null;
  }

  /** Loads the names of these animals, if they are new. @param {number[]} ids */
  async loadPets(ids) {
    const unknown = [...new Set(ids)].filter((id) => !this.pets.has(id));
    while (unknown.length) {
      const some = unknown.splice(0, 100);
      const { data } = await this.api.get(`pets?limit=100&id=${some}`);
      for (const id of some) this.pets.set(id, "");
      for (const { id, name } of data) this.pets.set(id, name);
    }
  }

  /** @param {string} list */
  async #load(list) {
    const names = new Map();
    /** @type {string | null} */
    let query = "?limit=100";
    while (query) {
      const { data, next } = await this.api.get(list + query);
      for (const { id, name } of data) names.set(String(id), name);
      query = next;
    }
    return names;
  }

  /** @param {import("./api.js").Event} event */
  onEvent({ type, data }) {
    if (type.startsWith("pet.") && this.pets.has(data.id)) this.pets.set(data.id, type === "pet.deleted" ? "" : data.name);
    if (type === "category.updated") this.categories.set(String(data.id), data.name);
    if (type === "category.deleted") this.categories.delete(String(data.id));
  }

  /** @param {number | bigint | string} id */
  category(id) {
    return this.categories.get(String(id)) ?? `no. ${id}`;
  }

  /** Who made a change. @param {string | undefined} id */
  who(id) {
    if (!id) return "the service";
    return `“${this.keys.get(id) ?? `key ${id}`}”`;
  }
}
