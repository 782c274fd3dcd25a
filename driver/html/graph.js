// The nodes of a graph by module, to be searched, with what each takes and who uses what it makes.
//
// section: strings; values [name, type, producer, kind] (producer -1: an input of a graph, kind what it is);
// nodes [op, module, source, attributes, inputs, outputs, graph]; graphs, outputs of the first. All but inputs and
// outputs are numbers of strings.

function graph(section, host) {
  const {strings, values, nodes, graphs} = section;
  const text = (i) => strings[i];
  const users = values.map(() => []);
  nodes.forEach((node, n) => node[4].forEach((v) => v >= 0 && users[v][users[v].length - 1] !== n && users[v].push(n)));
  const results = new Set(section.outputs);

  // What is listed: inputs of the first graph, then nodes; before each run of one module its name.
  const entries = [];
  values.forEach((value, v) => value[2] < 0 && value[4] === 0 && entries.push({value: v, group: "inputs"}));
  nodes.forEach((node, n) => entries.push({
    node: n, group: (node[6] > 0 ? `${text(graphs[node[6]])} · ` : "") + (text(node[1]) || "(no module)")}));
  const nameOf = (entry) => entry.value !== undefined ? text(values[entry.value][0])
    : nodes[entry.node][5].map((v) => text(values[v][0])).join(", ");
  let keys = null;  // what is searched, made for the first search
  const keyOf = (entry) => {
    if (entry.value !== undefined) {
      const [name, type, , kind] = values[entry.value];
      return [name, type, kind].map(text).join(" ");
    }
    const [op, module, source, attributes, , outputs] = nodes[entry.node];
    return [op, module, source, attributes, ...outputs.flatMap((v) => values[v].slice(0, 2))].map(text).join(" ");
  };
  let shownEntries = [];
  let picked = null;

  const box = el("div", {class: "box list", tabindex: "0"});
  const body = el("div");
  const panel = el("div", {class: "panel", tabindex: "0"}, el("p", {class: "soft"}, "Choose a node."));
  const count = el("span", {class: "soft"});
  const space = (height) => el("div", {style: {height: `${height}px`}});
  function make(row) {
    if (row.title !== undefined) return el("div", {class: "row module"}, row.title);
    const line = el("div", {class: row === picked ? "row picked" : "row", onclick: () => go(row)});
    if (row.value !== undefined) {
      line.append(nameOf(row), " ", el("span", {class: "soft"}, text(values[row.value][1])));
    } else {
      const node = nodes[row.node];
      line.append(nameOf(row), " = ", el("span", {class: "op"}, text(node[0])), " ",
                  el("span", {class: "soft"}, node[5].map((v) => text(values[v][1])).join(", ")));
    }
    return line;
  }
  const list = windowed(box, body, 24, space, make);
  function show(found) {
    shownEntries = [];
    let group = null;
    for (const entry of found) {
      if (entry.group !== group) shownEntries.push({title: (group = entry.group)});
      shownEntries.push(entry);
    }
    list.show(shownEntries);
    count.textContent = found.length === entries.length ? `${nodes.length} nodes`
                                                        : `${found.length} of ${entries.length} found`;
  }
  const field = search("search names, operators, modules, types, lines", filter);
  field.id = "graph-search";
  // "module:encoder.layer.3" is for the nodes of that module and of those in it.
  const moduleOf = (i) => (entries[i].node === undefined ? "" : text(nodes[entries[i].node][1]).toLowerCase());
  function fits(i, word) {
    if (!word.startsWith("module:")) return keys[i].includes(word);
    const [module, wanted] = [moduleOf(i), word.slice(7)];
    return module.startsWith(wanted) && (module.length === wanted.length || module[wanted.length] === ".");
  }
  function filter(wanted) {
    keys ??= entries.map((entry) => keyOf(entry).toLowerCase());
    show(wanted.length === 0 ? entries : entries.filter((_, i) => wanted.every((word) => fits(i, word))));
  }

  const byNode = new Map(entries.filter((e) => e.node !== undefined).map((e) => [e.node, e]));
  const byValue = new Map(entries.filter((e) => e.value !== undefined).map((e) => [e.value, e]));
  const link = (entry, label) => entry ? el("button", {class: "link", onclick: () => go(entry)}, label) : label;
  const makerOf = (v) => (values[v][2] >= 0 ? byNode.get(values[v][2]) : byValue.get(v));
  const item = (v) => v < 0 ? el("li", {class: "soft"}, "None")
    : el("li", {}, link(makerOf(v), text(values[v][0])), " ", el("span", {class: "soft"}, text(values[v][1])));
  const user = (n) => el("li", {}, link(byNode.get(n), nameOf(byNode.get(n))), " = ", text(nodes[n][0]));
  function part(title, children) {
    if (children.length > 0) panel.append(el("div", {class: "soft"}, title), el("ul", {}, ...children.slice(0, 200)));
    if (children.length > 200) panel.append(el("p", {class: "soft"}, `and ${children.length - 200} more`));
  }
  function describe(entry) {
    panel.replaceChildren(el("h2", {class: "mono"}, nameOf(entry)));
    const facts = [];
    if (entry.value !== undefined) {
      facts.push(["is", text(values[entry.value][3])], ["type", text(values[entry.value][1])]);
    } else {
      const node = nodes[entry.node];
      ["operator", "module", "source", "with"].forEach((label, k) => facts.push([label, text(node[k])]));
    }
    panel.append(el("dl", {class: "facts"}, ...facts.filter(([, t]) => t !== "")
      .flatMap(([label, t]) => [el("dt", {}, label), el("dd", {class: "mono"}, t)])));
    if (entry.value !== undefined) {
      part("used by", users[entry.value].map(user));
      return;
    }
    const node = nodes[entry.node];
    part("inputs", node[4].map(item));
    for (const v of node[5]) {
      const title = `${text(values[v][0])} ${text(values[v][1])}${results.has(v) ? ", an output" : ""}`;
      if (users[v].length > 0) part(`${title}, used by`, users[v].map(user));
      else panel.append(el("div", {class: "soft"}, results.has(v) ? title : `${title}, which nothing uses`));
    }
  }
  const hashOf = (entry) => (entry.value !== undefined ? `#value-${entry.value}` : `#node-${entry.node}`);
  function pick(entry) {
    picked = entry;
    describe(entry);
    let at = shownEntries.indexOf(entry);
    if (at < 0) {
      field.value = "";
      filter([]);
      at = shownEntries.indexOf(entry);
    }
    list.reveal(at);
  }
  // By way of the address, so that the browser's way back is the way back here.
  function go(entry) {
    if (location.hash === hashOf(entry)) pick(entry);
    else location.hash = hashOf(entry);
  }
  function fromAddress() {
    const [, kind, number] = location.hash.match(/^#(node|value)-(\d+)$/) || [];
    const entry = kind === "node" ? byNode.get(Number(number)) : kind === "value" ? byValue.get(Number(number)) : null;
    if (entry && page.graph === host) pick(entry);
  }
  page.graph ??= host;
  window.addEventListener("hashchange", fromAddress);
  if (page.graph === host)
    page.showModule = (module) => {
      field.value = `module:${module}`;
      filter(words(field.value));
      host.scrollIntoView();
    };
  host.append(el("div", {class: "bar"}, field, count), el("div", {class: "graph"}, el("div", {}, box), panel));
  box.append(body);
  show(entries);
  fromAddress();
}
