// What is on the stage: the item, its classes with their keys, and why it was asked. Text goes in as text only.

const SHORT = 140; // characters
const MIDDLE = 480;
const NATS = "Nats measure information: a fair coin flip has 0.69.";
const DIGITS = "1234567890";
const LETTERS = "abcdfghijkmnopqrtvxyz"; // without e, l, s, u and w, which do other things

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// ---- the item ----

function table(cells, more, className = "cells") {
  const rows = cells.map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value || "–")));
  if (more) rows.push(element("tr", {}, element("th", { scope: "row" }, "…"), element("td", {}, `${more} more columns`)));
  return element("table", { className }, element("tbody", {}, ...rows));
}

const DRAW = {
  text({ text, more }) {
    const size = text.length <= SHORT ? "short" : text.length <= MIDDLE ? "middle" : "long";
    const shown = element("p", { className: `text ${size}` }, text);
    return more ? [shown, element("p", { className: "fine" }, `… and ${more.toLocaleString()} more characters`)] : [shown];
  },
  picture({ source, alt }) {
    const image = element("img", { src: source, alt });
    image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= 96));
    image.addEventListener("error", () => image.replaceWith(broken("The image cannot be loaded.")));
    return [image];
  },
  cells({ cells, more }) {
    return [table(cells, more)];
  },
  html({ html }) {
    const slot = element("div", { className: "slot" });
    slot.innerHTML = html; // the project's own template, its values escaped by the server; scripts in it never run
    return [slot];
  },
  broken({ why }) {
    return [broken(why)];
  },
};

function broken(why) {
  return element("div", { className: "empty" },
    element("h2", {}, "This item cannot be shown"), element("p", {}, `${why} Skip it with S.`));
}

export function showItem(task, { place, id }) {
  place.replaceChildren(...DRAW[task.card.kind](task.card));
  place.classList.remove("fresh");
  void place.offsetWidth; // starts the animation again
  place.classList.add("fresh");
  place.parentElement.scrollTop = 0;
  id.textContent = task.labels ? `${task.item} · ${task.labels} ${task.labels === 1 ? "label" : "labels"} so far` : task.item;
  id.title = task.item;
}

export function showNothing(words, text, { place, id }) {
  place.replaceChildren(element("div", { className: "empty" },
    element("img", { className: "mark", src: "/static/mark.svg", alt: "" }), element("h2", {}, words), element("p", {}, text)));
  id.textContent = "";
}

// A long item ends behind the classes: say so while there is more below.
export function showMore(view, hint) {
  hint.hidden = view.scrollHeight - view.clientHeight - view.scrollTop < 24;
}

// ---- why this item ----

function meter(share) {
  const space = "http://www.w3.org/2000/svg";
  const bar = document.createElementNS(space, "svg");
  bar.setAttribute("class", "meter");
  bar.setAttribute("aria-hidden", "true");
  for (const [name, width] of [["whole", 100], ["part", 100 * share]]) {
    const rect = document.createElementNS(space, "rect");
    for (const [key, value] of Object.entries({ class: name, width: `${width}%`, height: 6, rx: 3 })) rect.setAttribute(key, value);
    bar.append(rect);
  }
  return bar;
}

export function showWhy(task, place) {
  if (!task.why.length) {
    const text = task.score === null
      ? "It was not chosen by a model. Until there is a model and every class has a label, items are random, spread over the pool, or near the targets."
      : "Its label is informative about the targets as a whole; no single target stands out.";
    place.replaceChildren(element("h2", {}, "Why this item?"), element("p", {}, text));
    return;
  }
  const most = Math.max(...task.why.map((reason) => reason.nats), 1e-12);
  const lines = task.why.map((reason) => {
    const what = reason.picture ? element("img", { src: reason.picture, alt: reason.text }) : reason.text || reason.target;
    return element("li", {}, element("span", { className: "of", title: reason.target }, what), meter(Math.max(0, reason.nats / most)),
      element("span", { className: "nats", title: NATS }, `${reason.nats.toPrecision(2)} nats`));
  });
  const total = task.score === null ? "" : ` Over all targets: ${task.score.toPrecision(2)} nats on average.`;
  place.replaceChildren(element("h2", {}, "Why this item?"),
    element("p", {}, `Its label is most informative about these targets, inputs that the model has to predict.${total} ${NATS}`),
    element("ol", { className: task.why.every((reason) => reason.picture) ? "pictures" : "" }, ...lines));
}

// ---- the classes ----

// Key -> class. Classes that are called by single letters or digits have those keys; others have them in order.
export function keysOf(classes) {
  const own = classes.map((name) => name.toLowerCase());
  if (own.every((name) => (DIGITS + LETTERS).includes(name) && name.length === 1) && new Set(own).size === own.length) {
    return new Map(own.map((key, place) => [key, classes[place]]));
  }
  const names = [...DIGITS, ...LETTERS];
  return new Map(classes.slice(0, names.length).map((name, place) => [names[place], name]));
}

export function showClasses(classes, place, choose) {
  const keys = [...keysOf(classes).keys()];
  place.classList.toggle("many", classes.length > 8);
  place.classList.toggle("wide", classes.length > 8 && classes.some((name) => name.length > 14));
  const columns = classes.length <= 4 || classes.length > 8 ? "" : classes.length <= 6 ? "3" : "4"; // even rows
  if (columns) place.dataset.columns = columns;
  else delete place.dataset.columns;
  place.replaceChildren(...classes.map((name, index) => {
    const key = keys[index];
    const button = element("button", { className: "class", type: "button" });
    if (key) button.append(element("kbd", {}, key.toUpperCase()));
    const parts = name.split(/(?<=[._/-])/).flatMap((part) => [part, document.createElement("wbr")]);
    button.append(element("span", {}, ...parts)); // long names break where people would break them
    if (key) button.setAttribute("aria-keyshortcuts", key);
    button.dataset.name = name;
    button.addEventListener("click", () => choose(name));
    return button;
  }));
}

export function markClass(place, name, mark) {
  for (const button of place.children) button.classList.toggle(mark, button.dataset.name === name);
}

export function filterClasses(place, words) {
  const wanted = words.trim().toLocaleLowerCase();
  let first = null;
  for (const button of place.children) {
    button.hidden = !button.dataset.name.toLocaleLowerCase().includes(wanted);
    if (!button.hidden && !first) first = button.dataset.name;
  }
  return wanted ? first : null;
}
