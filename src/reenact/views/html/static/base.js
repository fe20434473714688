"use strict";
// What every page has. Everything recorded is hostile: it becomes text, never markup.
const data = JSON.parse(document.getElementById("data").textContent);

function el(tag, about, ...inside) {
  const made = document.createElement(tag);
  for (const [name, item] of Object.entries(about || {})) {
    if (name === "on") for (const [event, does] of Object.entries(item)) made.addEventListener(event, does);
    else if (item != null) made.setAttribute(name, item);
  }
  made.append(...inside.filter((one) => one != null));
  return made;
}

const span = (ms) => (ms < 1000 ? `${ms} ms` : ms < 60000 ? `${(ms / 1000).toFixed(2)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`);
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// JSON, folded

// A fold is open when it is near the top, or when `wanted` says so of its value.
const PIECE = 200;

function json(item, depth, wanted) {
  if (item == null || typeof item === "boolean") return el("span", { class: "dim" }, String(item));
  if (typeof item === "number" || typeof item === "bigint") return el("span", { class: "num" }, String(item));
  if (typeof item === "string") return el("span", { class: "str" }, JSON.stringify(item));
  const list = Array.isArray(item);
  const names = list ? item.map((_, index) => index) : Object.keys(item);
  if (!names.length) return el("span", { class: "dim" }, list ? "[]" : "{}");
  const fold = el("details", depth < 2 || (wanted && wanted(item)) ? { open: "" } : {}, el("summary", { class: "dim" }, list ? `[${names.length}]` : `{${names.slice(0, 4).join(", ")}${names.length > 4 ? ", …" : ""}}`));
  const one = (name) => el("div", { class: "json" }, list ? null : el("span", { class: "key" }, `${name}: `), json(item[name], depth + 1, wanted));
  const fill = () => { if (fold.childElementCount === 1) fold.append(...pieces(names, one, wanted && ((name) => wanted(item[name])))); };
  if (fold.open) fill(); else fold.addEventListener("toggle", fill, { once: true });
  return fold;
}

// The first of many, and a button for those that follow; all up to the last that is `wanted`.
function pieces(all, make, wanted) {
  const first = wanted ? Math.max(PIECE, all.findLastIndex(wanted) + 1) : PIECE;
  const made = all.slice(0, first).map(make);
  const rest = all.slice(first);
  if (rest.length) {
    const more = el("button", { on: { click: () => more.replaceWith(...pieces(rest, make)) } }, `${rest.length.toLocaleString("en")} more`);
    made.push(more);
  }
  return made;
}

function body(item) {
  if (item == null) return el("p", { class: "facts" }, "nothing");
  if (typeof item === "string") return el("pre", {}, item);
  if (item.$image) return el("img", { src: `data:${item.$image};base64,${item.data}`, alt: item.$image });
  if (item.$hex != null) return el("div", {}, el("p", { class: "facts" }, count(item.size, "byte")), el("pre", {}, item.$hex));
  if (item.$cut) return el("div", {}, el("p", { class: "facts" }, `the first part of ${count(item.$cut, "character")}`), el("pre", {}, item.text));
  return el("div", { class: "json" }, json(item, 0));
}

function folded(name, inside, open) {
  return el("details", open ? { open: "" } : {}, el("summary", { class: "facts" }, name), inside);
}

function headers(pairs) {
  if (!Array.isArray(pairs)) return body(pairs);
  return el("table", {}, ...pairs.map((pair) => el("tr", {}, el("td", {}, String(pair[0])), el("td", {}, String(pair[1])))));
}

// Light and dark

function theme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.getElementById("theme").addEventListener("click", theme);
