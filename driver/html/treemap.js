// Modules as areas, two levels at a time: by bytes of weights, by operations, by nodes.

function moduleTree(leaves, measures) {
  const make = (name, path, parent) => (
    {name, path, parent, children: new Map(), values: new Array(measures).fill(0), kind: 0});
  const root = make("", "", null);
  for (const [module, name, kind, ...values] of leaves) {
    const parts = module === "" ? [] : module.split(".");
    let node = root;
    const add = () => values.forEach((v, k) => (node.values[k] += v || 0));
    add();
    for (const part of parts) {
      let next = node.children.get(part);
      if (!next) node.children.set(part, (next = make(part, node.path === "" ? part : `${node.path}.${part}`, node)));
      node = next;
      add();
    }
    const key = `${kind} ${name}`;
    let leaf = node.children.get(key);
    if (!leaf) node.children.set(key, (leaf = {...make(name, node.path, node), kind: kind + 1}));
    node = leaf;
    add();
  }
  return root;
}

// Rectangles of areas as their weights, near squares (Bruls, Huizing, van Wijk 2000).
function squarify(items, x, y, wide, high, place) {
  let total = items.reduce((sum, item) => sum + item.size, 0);
  let scale = (wide * high) / total;
  for (let begin = 0; begin < items.length && wide > 0.5 && high > 0.5;) {
    const side = Math.min(wide, high);
    let sum = 0, worst = Infinity, end = begin;
    for (; end < items.length; ++end) {
      const next = sum + items[end].size * scale;
      const ratio = Math.max((side * side * items[begin].size * scale) / (next * next),
                             (next * next) / (side * side * items[end].size * scale));
      if (ratio > worst) break;
      worst = ratio;
      sum = next;
    }
    const depth = sum / side;
    let at = 0;
    for (let i = begin; i < end; ++i) {
      const length = (items[i].size * scale) / depth;
      if (wide >= high) place(items[i].node, x, y + at, depth, length);
      else place(items[i].node, x + at, y, length, depth);
      at += length;
    }
    if (wide >= high) x += depth, wide -= depth;
    else y += depth, high -= depth;
    begin = end;
  }
}

function treemap(section, host) {
  const root = moduleTree(section.leaves, section.measures.length);
  const usable = section.measures.map((m, k) => ({...m, k})).filter((m) => root.values[m.k] > 0);
  if (usable.length === 0) {
    host.append(el("p", {class: "soft"}, "There is nothing to draw."));
    return;
  }
  let measure = usable[0];
  let path = [root];
  const trail = el("span", {});
  const hint = el("p", {class: "hint"}, "A click on a module shows what is in it.");
  const map = el("div", {class: "map", role: "group", "aria-label": section.title});
  const choice = el("select", {"aria-label": "area", onchange: () => {
    measure = usable[choice.selectedIndex];
    draw();
  }}, ...usable.map((m) => el("option", {}, `by ${m.name}`)));

  const parts = (node) => Array.from(node.children.values())
    .map((child) => ({node: child, size: child.values[measure.k]})).filter((item) => item.size > 0)
    .sort((a, b) => b.size - a.size || (a.node.name < b.node.name ? -1 : 1));
  const named = (m) => m.unit === "bytes" || m.unit === "seconds";  // by the unit
  const amount = (node, m) => `${shown(node.values[m.k], m.unit)}${named(m) ? "" : ` ${m.name}`}`;
  const text = (node) => {
    const name = node.kind === 0 ? node.path || "all" : node.path === "" ? node.name : `${node.path}: ${node.name}`;
    return `${name} — ${usable.map((m) => amount(node, m)).join(", ")}`;
  };
  function tile(node, x, y, wide, high, deep) {
    if (wide < 3 || high < 3) return;
    const inner = node.kind === 0;
    const tell = () => (hint.textContent = text(node));
    const open = (e) => {
      e.stopPropagation();
      if (inner) enter(node);
      else tell();
    };
    const box = el("div", {
      class: `tile${inner ? " inner" : node.kind === 2 ? " operator" : ""}`, tabindex: "0",
      role: inner ? "button" : "img", "aria-label": text(node), title: text(node),
      style: {left: `${x}px`, top: `${y}px`, width: `${wide}px`, height: `${high}px`},
      onmouseover: (e) => (e.stopPropagation(), tell()), onfocus: tell, onclick: open,
      onkeydown: (e) => e.key === "Enter" && open(e),
    }, wide > 24 && high > 14 ? el("span", {class: "name"}, node.name) : null);
    if (inner && deep > 0 && wide > 30 && high > 34)
      squarify(parts(node).slice(0, 300), 2, 20, wide - 6, high - 24,
               (child, ...place) => box.append(...[tile(child, ...place, deep - 1)].filter(Boolean)));
    return box;
  }
  function draw() {
    const node = path[path.length - 1];
    trail.replaceChildren(...path.flatMap((step, i) => [
      i > 0 ? " › " : "",
      el(i + 1 < path.length ? "button" : "b", {class: "link", onclick: () => enter(step, false)},
         step.name || "all")]));
    trail.append(` — ${amount(node, measure)}`);
    if (node.path !== "" && page.showModule)
      trail.append(" ", el("button", {class: "link", onclick: () => page.showModule(node.path)}, "its nodes"));
    map.replaceChildren();
    squarify(parts(node).slice(0, 1000), 0, 0, map.clientWidth, map.clientHeight,
             (child, ...place) => map.append(...[tile(child, ...place, 2)].filter(Boolean)));
  }
  // Modules with nothing beside their one module are passed through.
  function enter(node, through = true) {
    path = [];
    for (let step = node; step; step = step.parent) path.unshift(step);
    for (let below = parts(node); through && below.length === 1 && below[0].node.kind === 0;) {
      path.push(below[0].node);
      below = parts(below[0].node);
    }
    draw();
  }
  host.append(el("div", {class: "bar"}, choice, trail), map, hint);
  draw();
  let wide = map.clientWidth;
  new ResizeObserver(() => {
    if (map.clientWidth === wide) return;
    wide = map.clientWidth;
    draw();
  }).observe(map);
}
