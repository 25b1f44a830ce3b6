// Drawings.

/** An element of a drawing, with its content. @param {string} tag @param {Record<string, unknown>} attributes @param {...(Node | string)} content */
export function draw(tag, attributes = {}, ...content) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...content);
  return element;
}
