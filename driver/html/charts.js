// Charts as SVG: bars in an order, points over two axes with lines between, histograms.

const WIDE = 900, HIGH = 300, LEFT = 76, BOTTOM = 42, TOP = 14, RIGHT = 34;

// A scale from numbers to a length. What is not above 0 has no place on a logarithmic one.
function axis(low, high, from, to, log) {
  if (log) {
    low = Math.floor(Math.log10(low) + 1e-9);
    high = Math.max(low + 1, Math.ceil(Math.log10(high) - 1e-9));
    const step = Math.ceil((high - low) / 8);
    const ticks = [];
    for (let e = low; e <= high; e += step) ticks.push(10 ** e);
    const at = (v) => from + (to - from) * ((Math.log10(v) - low) / (high - low));
    return {at, ticks, has: (v) => v > 0 && Number.isFinite(v)};
  }
  if (high <= low) high = low + (Math.abs(low) || 1);
  const rough = (high - low) / 5;
  const base = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= rough);
  low = Math.floor(low / step) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  const ticks = [];
  for (let k = 0; low + k * step <= high + step / 2; ++k) ticks.push(low + k * step);
  return {at: (v) => from + (to - from) * ((v - low) / (high - low)), ticks, has: Number.isFinite};
}

function frame(y, unit, label, picture) {
  for (const tick of y.ticks) {
    const at = y.at(tick);
    picture.append(
      svg("line", {class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: at, y2: at}),
      svg("text", {x: LEFT - 6, y: at + 4, "text-anchor": "end"}, shown(Math.abs(tick) < 1e-300 ? 0 : tick, unit)));
  }
  picture.append(svg("text", {x: 12, y: (TOP + HIGH - BOTTOM) / 2, "text-anchor": "middle",
                              transform: `rotate(-90 12 ${(TOP + HIGH - BOTTOM) / 2})`}, label));
}

function mark(shape, attributes, text, hint) {
  const tell = () => (hint.textContent = text);
  return svg(shape, {...attributes, tabindex: "-1", onmouseenter: tell, onfocus: tell, onclick: tell},
             svg("title", {}, text));
}

function picture(title, host) {
  const drawing = svg("svg", {viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": title});
  const hint = el("p", {class: "hint"}, "Point at a mark to see what it stands for.");
  host.append(el("div", {class: "chart"}, drawing), hint);
  return {drawing, hint};
}

function legend(names, host) {
  if (names.length < 2) return;
  host.append(el("div", {class: "bar"}, ...names.map((name, i) =>
    el("span", {}, el("span", {class: `legend s${i % 4}`}), name))));
}

// A bar each, in the given order. Where there are more than columns of the screen, one stands for the largest of a few.
function bars(section, host) {
  const {items, unit, series, lines} = section;
  const values = items.map((item) => numeric(item[1]));
  const room = WIDE - LEFT - RIGHT;
  const each = Math.ceil(items.length / room);
  const positive = values.filter((v) => v > 0 && Number.isFinite(v));
  const log = section.log && positive.length > 0;
  const most = Math.max(...positive, ...(lines || []).map((l) => l[1]), log ? 0 : 1e-300);
  const least = positive.reduce((a, b) => Math.min(a, b), Infinity);
  const {drawing, hint} = picture(section.title, host);
  const y = axis(log ? least / 2 : 0, most, HIGH - BOTTOM, TOP, log);
  frame(y, unit, section.y, drawing);
  const count = Math.ceil(items.length / each);
  const width = Math.min(48, room / Math.max(1, count));
  for (let k = 0; k < count; ++k) {
    let best = k * each;
    for (let i = best; i < Math.min(items.length, (k + 1) * each); ++i) if (values[i] > values[best]) best = i;
    const [name, , group] = items[best];
    const v = values[best];
    const top = y.has(v) ? y.at(v) : Number.isFinite(v) ? HIGH - BOTTOM : TOP;
    drawing.append(mark("rect", {
      class: `mark s${(group || 0) % 4}`, x: LEFT + k * width, width: Math.max(1, width - (width > 3 ? 1 : 0)),
      y: Math.min(top, HIGH - BOTTOM - 1.5), height: Math.max(1.5, HIGH - BOTTOM - top),
    }, `${name}: ${shown(v, unit)}${each > 1 ? ` (the largest of ${each})` : ""}`, hint));
  }
  for (const [text, value] of lines || []) {
    const at = y.at(value);
    drawing.append(svg("line", {class: "roof", x1: LEFT, x2: WIDE - RIGHT, y1: at, y2: at}),
                   svg("text", {x: WIDE - RIGHT, y: at - 4, "text-anchor": "end"}, text));
  }
  drawing.append(svg("text", {x: (LEFT + WIDE) / 2, y: HIGH - 8, "text-anchor": "middle"}, section.x));
  legend(series || [], host);
}

// Points [x, y, text] in series; lines [text, [[x, y], …]].
function scatter(section, host) {
  const {x: across, y: along, series, lines} = section;
  const all = series.flatMap((s) => s.points.map(([x, y]) => [x, y]));
  const has = (v, log) => Number.isFinite(v) && (!log || v > 0);
  const fits = ([x, y]) => has(x, across.log) && has(y, along.log);
  const good = all.filter(fits);
  if (good.length === 0) {
    host.append(el("p", {class: "soft"}, "There is nothing to draw."));
    return;
  }
  const ends = good.concat((lines || []).flatMap((l) => l[1]));
  const bound = (list, k) =>
    list.reduce(([a, b], p) => [Math.min(a, p[k]), Math.max(b, p[k])], [Infinity, -Infinity]);
  const {drawing, hint} = picture(section.title, host);
  const x = axis(...bound(ends, 0), LEFT, WIDE - RIGHT, across.log);
  const y = axis(...bound(ends, 1), HIGH - BOTTOM, TOP, along.log);
  frame(y, along.unit, along.label, drawing);
  for (const tick of x.ticks)
    drawing.append(svg("line", {class: "grid", x1: x.at(tick), x2: x.at(tick), y1: TOP, y2: HIGH - BOTTOM}),
                   svg("text", {x: x.at(tick), y: HIGH - BOTTOM + 16, "text-anchor": "middle"},
                       shown(tick, across.unit)));
  drawing.append(svg("text", {x: (LEFT + WIDE) / 2, y: HIGH - 8, "text-anchor": "middle"}, across.label));
  for (const [text, points] of lines || []) {
    const [px, py] = points[points.length - 1];
    drawing.append(
      svg("polyline", {class: "roof", points: points.map(([a, b]) => `${x.at(a)},${y.at(b)}`).join(" ")}),
      svg("text", {x: x.at(px) - 4, y: y.at(py) - 5, "text-anchor": "end"}, text));
  }
  series.forEach((s, i) => {
    for (const [px, py, text, area] of s.points)
      if (fits([px, py]))
        drawing.append(mark("circle", {class: `mark s${i % 4}`, cx: x.at(px), cy: y.at(py), "fill-opacity": 0.75,
                                       r: area === undefined ? 4 : 3 + 13 * Math.sqrt(area)},
                            `${text}: ${across.label} ${shown(px, across.unit)}, ` +
                              `${along.label} ${shown(py, along.unit)}`, hint));
  });
  if (all.length > good.length)
    host.append(el("p", {class: "soft"},
                   `${all.length - good.length} that have no place on these axes are not drawn.`));
  legend(series.map((s) => s.name), host);
}

// ---- Histograms: {from, width, counts, …} of a weight's values

function steps(h, wide, high, minimum) {
  const most = Math.max(...h.counts, 1);
  const width = wide / h.counts.length;
  return h.counts.map((n, i) => ({
    i, n, x: i * width, width: Math.max(0.5, width - (width > 4 ? 1 : 0)),
    height: n === 0 ? 0 : Math.max(minimum, (high * n) / most),
  }));
}
function spark(h) {
  const bar = (s) => svg("rect", {class: "s0", x: s.x, y: 18 - s.height, width: s.width, height: s.height});
  return svg("svg", {width: 90, height: 18, "aria-hidden": "true"}, ...steps(h, 90, 18, 1).map(bar));
}
function histogram(name, h, host) {
  const facts = [["least", h.min], ["greatest", h.max], ["mean", h.mean], ["standard deviation", h.deviation]]
    .filter(([, v]) => v !== undefined).map(([label, v]) => `${label} ${shown(v, "number")}`);
  for (const [label, n] of [["zeros", h.zeros], ["NaN", h.nan], ["infinite", h.infinite]])
    if (n > 0) facts.push(`${label} ${shown(n, "count")}`);
  host.append(el("h2", {}, name),
              el("p", {class: "soft"}, `${shown(h.elements, "count")} values: ${facts.join(", ")}`));
  const {drawing, hint} = picture(`values of ${name}`, host);
  const y = axis(0, Math.max(...h.counts, 1), HIGH - BOTTOM, TOP, false);
  frame(y, "count", "values", drawing);
  const room = WIDE - LEFT - RIGHT;
  const edge = (i) => h.from + i * h.width;
  for (const s of steps(h, room, 1, 0))
    drawing.append(mark("rect", {class: "mark s0", x: LEFT + s.x, width: s.width, y: y.at(s.n),
                                 height: HIGH - BOTTOM - y.at(s.n)},
                        `${shown(edge(s.i), "number")} to ${shown(edge(s.i + 1), "number")}: ` +
                          shown(s.n, "count"), hint));
  for (let k = 0; k <= 4; ++k)
    drawing.append(svg("text", {x: LEFT + (room * k) / 4, y: HIGH - BOTTOM + 16, "text-anchor": "middle"},
                       shown(edge((h.counts.length * k) / 4), "number")));
}
