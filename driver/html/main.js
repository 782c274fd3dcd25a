// Draws the sections of the page's data in their order.

const page = {};
const DRAWN = {
  table, bars, scatter, treemap, graph,
  text: (section, host) => host.append(el("pre", {}, section.content)),
};

function draw() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("page");
  main.append(el("h1", {}, data.title));
  if (data.facts.length > 0)
    main.append(el("dl", {class: "facts"},
                   ...data.facts.flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)])));
  for (const note of data.notes) main.append(el("div", {class: "note"}, note));
  const links = el("nav", {"aria-label": "sections"});
  if (data.sections.length > 2) main.append(links);
  const later = [];
  data.sections.forEach((section, i) => {
    const host = el("section", {id: `section-${i}`, class: `of-${section.type}`}, el("h2", {}, section.title));
    if (section.text) host.append(el("p", {class: "soft"}, section.text));
    links.append(el("button", {class: "link", onclick: () => host.scrollIntoView()}, section.title));
    main.append(host);
    later.push(() => DRAWN[section.type](section, host));
  });
  // The graph is known to the map of modules before that is drawn.
  data.sections.forEach((section, i) => section.type === "graph" && later[i]());
  data.sections.forEach((section, i) => section.type !== "graph" && later[i]());
  document.body.dataset.drawn = Math.round(performance.now());
}
draw();
