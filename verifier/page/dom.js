// Elements made from text alone: nothing that was read is ever taken for markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (true: an empty one; false, null: none) and children. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  setAttributes(node, attributes);
  node.append(...children.filter((child) => child !== null));
  return node;
}

function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
}

const byId = (id) => document.getElementById(id);

function drawn(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  setAttributes(node, attributes);
  return node;
}

// each result has a shape of its own, so that colour is not needed to tell them apart
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
};
const SHAPE_OF_RESULT = { passed: "passed", failed: "failed", open: "open", "not made": "none" };
const SHAPE_OF_VERDICT = { PASS: "passed", FAIL: "failed", INCOMPLETE: "open" };

function shape(name) {
  const node = drawn("svg", { viewBox: "0 0 24 24", class: `shape ${name}`, "aria-hidden": "true" });
  for (const [tag, attributes] of SHAPES[name]) node.append(drawn(tag, attributes));
  return node;
}

/** A list of names and values. */
function pairs(entries) {
  const list = make("dl");
  for (const [name, value, isCode] of entries) {
    list.append(make("dt", {}, name), make("dd", { class: isCode ? "code" : null }, value));
  }
  return list;
}

function bullets(items) {
  return make("ul", {}, ...items.map((item) => make("li", {}, item)));
}
