// Elements made from text alone: nothing that arrived is ever taken for markup.

import { text } from "./strings.js";

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
}

/** An element with attributes (true: an empty one; false, null: none) and children. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAttributes(node, attributes);
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** A button that follows the language. */
export function button(key, action, kind = "plain") {
  const node = make("button", { type: "button", class: kind, "data-text": key }, text(key));
  node.addEventListener("click", action);
  return node;
}

// each state has a shape of its own, so that colour is not needed to tell them apart
const SHAPES = {
  passed: [
    ["circle", { cx: 12, cy: 12, r: 11, class: "fill" }],
    ["path", { d: "M6.8 12.6l3.5 3.5 7-7.6", class: "sign" }],
  ],
  failed: [
    ["path", { d: "M7.4 1h9.2L23 7.4v9.2L16.6 23H7.4L1 16.6V7.4z", class: "fill" }],
    ["path", { d: "M8 8l8 8M16 8l-8 8", class: "sign" }],
  ],
  open: [
    ["circle", { cx: 12, cy: 12, r: 10, class: "ring" }],
    ["path", { d: "M12 2a10 10 0 0 0 0 20z", class: "fill" }],
  ],
  none: [
    ["circle", { cx: 12, cy: 12, r: 10, class: "ring" }],
    ["path", { d: "M7.5 12h9", class: "line" }],
  ],
  waiting: [
    ["circle", { cx: 12, cy: 12, r: 10, class: "ring faint" }],
    ["path", { d: "M12 2a10 10 0 0 1 10 10", class: "ring turning" }],
  ],
};

/** A sign of a state: passed, failed, open, none, waiting. */
export function shape(name) {
  const node = document.createElementNS(SVG, "svg");
  setAttributes(node, { viewBox: "0 0 24 24", class: `shape ${name}`, "aria-hidden": "true" });
  for (const [tag, attributes] of SHAPES[name]) {
    const part = document.createElementNS(SVG, tag);
    setAttributes(part, attributes);
    node.append(part);
  }
  return node;
}

/** A list of names and values; a value is a text or an element. */
export function pairs(entries) {
  const list = make("dl");
  for (const [name, value, isCode] of entries) {
    list.append(make("dt", {}, name), make("dd", { class: isCode ? "code" : null }, value));
  }
  return list;
}
