// What all sections of a page are made of: elements, numbers as people read them, and lists of which only the rows in
// sight are in the document. Names come from files that nobody vouches for: they become text, never markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// ---- Numbers

function scaled(value, units, step) {
  let i = 0;
  while (Math.abs(value) >= step * 10 && i + 1 < units.length) value /= step, ++i;
  return `${i === 0 && Number.isInteger(value) ? value : value.toFixed(1)} ${units[i]}`.trim();
}
function short(value) {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}
const UNITS = {
  text: (v) => String(v),
  code: (v) => String(v),
  count: (v) => v.toLocaleString("en-US"),
  bytes: (v) => scaled(v, ["bytes", "kB", "MB", "GB", "TB"], 1000),
  operations: (v) => scaled(v, ["", "k", "M", "G", "T", "P"], 1000),
  rate: (v) => `${scaled(v, ["", "k", "M", "G", "T"], 1000)}/s`,
  seconds: (v) =>
    v >= 1 ? `${v.toFixed(3)} s` : v >= 1e-3 ? `${(v * 1e3).toFixed(3)} ms` : `${(v * 1e6).toFixed(1)} µs`,
  percent: (v) => `${(100 * v).toFixed(1)} %`,
  number: short,
};
// JSON has no infinities: they are texts.
const numeric = (v) => (typeof v === "string" && /^(-?Infinity|NaN)$/.test(v) ? Number(v) : v);
function shown(value, unit) {
  if (value === null || value === undefined) return "";
  value = numeric(value);
  return typeof value === "number" ? (UNITS[unit] || short)(value) : String(value);
}
const isNumber = (unit) => unit !== "text" && unit !== "code";

// ---- Long lists

// Keeps in `body` the elements of the items that are in sight of `box`, between two that take the others' place.
function windowed(box, body, height, space, make) {
  let items = [];
  let waiting = false;
  function draw() {
    waiting = false;
    const sight = Math.max(box.clientHeight, Math.round(window.innerHeight * 0.7));
    const first = Math.max(0, Math.min(items.length, Math.floor(box.scrollTop / height)) - 12);
    const last = Math.min(items.length, first + Math.ceil(sight / height) + 24);
    body.replaceChildren(
      space(first * height), ...items.slice(first, last).map((item, i) => make(item, first + i)),
      space((items.length - last) * height));
  }
  box.addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  });
  return {
    draw,
    show(list) {
      items = list;
      box.scrollTop = 0;
      draw();
    },
    reveal(index) {
      const top = index * height;
      if (top < box.scrollTop || top + 2 * height > box.scrollTop + box.clientHeight)
        box.scrollTop = Math.max(0, top - box.clientHeight / 3);
      draw();
    },
  };
}

// A field that filters: `change` is called with the words, in lower case, of what was typed.
function search(label, change) {
  const field = el("input", {type: "search", placeholder: label, "aria-label": label});
  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      change(words(field.value));
      field.dataset.searched = field.value;  // for tests: what the rows in sight were found by
    }, 60);
  });
  return field;
}
const words = (text) => text.toLowerCase().split(/\s+/).filter((word) => word !== "");

// ---- Tables

function table(section, host) {
  const {columns, rows, histograms} = section;
  let order = rows.map((_, i) => i);
  let found = order;
  let sorted = -1;
  let up = true;
  let picked = -1;
  const box = el("div", {class: "box", tabindex: "0"});
  const body = el("tbody");
  const count = el("span", {class: "soft"});
  const detail = el("div");
  const texts = rows.map((row) => null);
  const textOf = (i) => (texts[i] ??= rows[i].map((v, c) => shown(v, columns[c].unit)).join(" ").toLowerCase());

  const space = (height) =>
    el("tr", {class: "space"}, el("td", {colspan: columns.length + 1, style: {height: `${height}px`}}));
  function make(i) {
    const cells = rows[i].map((v, c) => {
      const text = shown(v, columns[c].unit);
      const kind = isNumber(columns[c].unit) ? "number" : columns[c].unit === "code" ? "mono" : "";
      return el("td", {class: kind, title: text.length > 40 ? text : undefined}, text);
    });
    if (!histograms) return el("tr", {}, ...cells);
    const pick = () => {
      picked = picked === i ? -1 : i;
      detail.replaceChildren();
      if (picked >= 0 && histograms[i]) histogram(`${rows[i][0]}`, histograms[i], detail);
      list.draw();
    };
    return el(
      "tr", {class: i === picked ? "more picked" : "more", tabindex: "0", onclick: pick,
             onkeydown: (e) => e.key === "Enter" && pick()},
      ...cells, el("td", {}, histograms[i] ? spark(histograms[i]) : null));
  }
  const list = windowed(box, body, 26, space, make);
  function show() {
    list.show(found);
    count.textContent = found.length === rows.length ? `${rows.length} rows` : `${found.length} of ${rows.length} rows`;
  }
  function sort(c) {
    up = sorted === c ? !up : !isNumber(columns[c].unit);
    sorted = c;
    const key = (i) => numeric(rows[i][c]);
    const sign = up ? 1 : -1;
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (x === null || y === null) return (x === null) - (y === null);
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return sign * less || a - b;
    };
    order.sort(compare);
    found = found.slice().sort(compare);
    heads.forEach((h, k) => h.setAttribute("aria-sort", k !== c ? "none" : up ? "ascending" : "descending"));
    show();
  }
  const heads = columns.map((column, c) =>
    el("th", {class: isNumber(column.unit) ? "number" : ""}, el("button", {onclick: () => sort(c)}, column.title)));
  if (histograms) heads.push(el("th", {}, "values"));
  box.append(el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
  const bar = el("div", {class: "bar"}, count);
  if (rows.length > 12)
    bar.prepend(search("search the table", (wanted) => {
      found = order.filter((i) => wanted.every((word) => textOf(i).includes(word)));
      show();
    }));
  host.append(bar, box, detail);
  show();
}
