// The page about one run: choosing, searching, keys.
let picked = null;
let wantedSteps = new Set(steps);
const find = document.getElementById("find");
const detail = document.getElementById("detail");
const button = (id) => document.getElementById(id);

function drawAll() {
  drawList();
  drawTime();
}

function pick(step, quietly) {
  picked = step;
  if (!quietly) document.body.classList.add("reading");
  detail.replaceChildren(back(), ...(step ? whatHappened(step) : summary()));
  detail.scrollTop = 0;
  mark(detail);
  const wire = step && detail.querySelector(".wire");
  if (wire && sought.length && !marks().length) wire.open = true;
  bringIntoList();
  bringIntoTime();
  drawAll();
  tellHits();
  if (!quietly) history.replaceState(null, "", step ? `#event-${step.seq}` : "#summary");
}

const back = () => el("button", { class: "back", on: { click: () => document.body.classList.remove("reading") } }, "← steps");

function whatHappened(step) {
  const told = [`event ${step.seq}${step.closed && step.closed !== step.seq ? `–${step.closed}` : ""}`, `lane ${step.lane}`, `after ${span(step.start)}`];
  if (isCall(step)) told.push(`took ${span(took(step))}`);
  if (step.closed == null) told.push("never completed");
  const copied = el("button", { class: "copy", title: "copy a link to this event ( c )", on: { click: copyLink } }, "copy link");
  return [el("h2", {}, el("span", { class: `dot ${kind(step)}` }), title(step)), el("p", { class: "facts" }, told.join(" · "), " ", copied), ...(step.divergences || []).map(diverged), ...inFull(step)].filter(Boolean);
}

function inFull(step) {
  try {
    return DETAILS[step.detail.what](step.detail);
  } catch {
    return [el("p", { class: "facts" }, "this is not as it should be, so here is all of it"), tree(value(step.detail))];
  }
}

async function copyLink() {
  if (!picked) return;
  const link = `${location.href.split("#")[0]}#event-${picked.seq}`;
  const told = detail.querySelector(".copy");
  try {
    await navigator.clipboard.writeText(link);
    told.textContent = "copied";
  } catch {
    told.replaceWith(el("input", { class: "copy", readonly: "", value: link, "aria-label": "link to this event" }));
    detail.querySelector("input.copy").select();
  }
}

function move(by) {
  if (!shown.length) return;
  const now = shown.indexOf(picked);
  if (now + by < 0 && !sought.length) return pick(null);
  pick(shown[Math.min(shown.length - 1, Math.max(0, now + by))]);
}

function next(by, is) {
  const some = shown.filter(is);
  const now = picked ? steps.indexOf(picked) : -1;
  const found = by > 0 ? some.find((step) => steps.indexOf(step) > now) || some[0] : some.findLast((step) => steps.indexOf(step) < now) || some[some.length - 1];
  if (found) pick(found);
}

function fromLink() {
  const match = /^#event-(\d+)$/.exec(location.hash);
  return match ? stepOf.get(Number(match[1])) : undefined;
}

// Searching, and from hit to hit

const marks = () => [...detail.querySelectorAll("mark")].filter((one) => one.checkVisibility());
let hit = -1;

function search() {
  sought = wordsOf(find.value);
  shown = sought.length ? matching(sought) : steps;
  wantedSteps = new Set(shown);
  hit = -1;
  list.scrollTop = 0;
  if (!sought.length || wantedSteps.has(picked)) pick(picked, true);
  else if (shown.length) pick(shown[0], true);
  else { drawAll(); tellHits(); }
}

function tellHits() {
  for (const id of ["before", "after"]) button(id).hidden = !sought.length;
  if (!sought.length) { button("hits").textContent = ""; return; }
  const here = marks().length;
  const place = shown.indexOf(picked);
  button("hits").textContent = !shown.length ? "nothing" : `${place < 0 ? "" : `${number(place + 1)} of `}${count(shown.length, "step")}${here ? ` · ${hit < 0 ? "" : `${hit + 1} of `}${count(here, "hit")} here` : ""}`;
}

function toHit(by) {
  if (!sought.length || !shown.length) return;
  let found = marks();
  const to = hit < 0 && by < 0 ? -1 : hit + by;
  if (to < 0 || to >= found.length) {
    const place = (shown.indexOf(picked) + by + shown.length) % shown.length;
    pick(shown[place]);
    found = marks();
    hit = by > 0 ? 0 : found.length - 1;
  } else hit = to;
  for (const one of found) one.classList.remove("now");
  const now = found[hit];
  if (now) { now.classList.add("now"); now.scrollIntoView({ block: "center" }); }
  tellHits();
}

// Keys

function foldAll() {
  const folds = [...detail.querySelectorAll("details")];
  if (folds.some((fold) => !fold.open)) unfold(8); else for (const fold of folds) fold.open = false;
}

// What is inside of a fold is made when it opens: then there are more.
function unfold(times) {
  const folds = [...detail.querySelectorAll("details:not([open])")];
  for (const fold of folds) fold.open = true;
  if (folds.length && times) setTimeout(() => unfold(times - 1), 0);
}

const ends = (last) => { if (shown.length) pick(shown[last ? shown.length - 1 : 0]); };
const KEYS = [
  [["j", "ArrowDown"], "next step", () => move(1)],
  [["k", "ArrowUp"], "previous step", () => move(-1)],
  [["g", "Home"], "first step", () => ends(false)],
  [["G", "End"], "last step", () => ends(true)],
  [["s"], "the run as a whole: tokens, times, failures", () => pick(null)],
  [["d"], "next divergence", () => next(1, (step) => step.divergences)],
  [["D"], "previous divergence", () => next(-1, (step) => step.divergences)],
  [["e"], "next failure", () => next(1, (step) => step.failed)],
  [["/"], "search; words must all be there, \"in quotes\" they are one", () => find.focus()],
  [["n"], "next hit", () => toHit(1)],
  [["N"], "previous hit", () => toHit(-1)],
  [["x"], "unfold everything, or fold it", foldAll],
  [["c"], "copy a link to this event", copyLink],
  [["+", "="], "zoom in", () => zoom(0.6)],
  [["-"], "zoom out", () => zoom(1 / 0.6)],
  [["ArrowLeft"], "earlier", () => pan(-0.2)],
  [["ArrowRight"], "later", () => pan(0.2)],
  [["f"], "zoom to this step", zoomToPicked],
  [["0"], "the whole run", fit],
  [["o"], "by time, or event by event", switchOrder],
  [["t"], "light or dark", theme],
  [["?"], "these keys", () => help.showModal()],
];
const does = new Map(KEYS.flatMap(([keys, , act]) => keys.map((key) => [key, act])));
const ARROWS = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→" };
const help = document.getElementById("help");
help.append(el("h2", {}, "Keys"), el("table", {}, ...KEYS.map(([keys, what]) => el("tr", {}, el("td", {}, ...keys.flatMap((key) => [el("kbd", {}, ARROWS[key] || key), " "])), el("td", {}, what)))), el("p", { class: "facts" }, "On the timeline: drag to look at a range, double-click for the whole; the wheel zooms (with Ctrl where there are many lanes), with Shift it moves."), el("form", { method: "dialog" }, el("button", { on: { click: (click) => { click.preventDefault(); help.close(); } } }, "close")));

document.addEventListener("keydown", (key) => {
  if (key.target === find) {
    if (key.key === "Escape") { find.value = ""; search(); find.blur(); }
    else if (key.key === "Enter") { key.preventDefault(); toHit(key.shiftKey ? -1 : 1); }
    return;
  }
  if (key.key === "Escape") document.body.classList.remove("reading");
  const act = does.get(key.key);
  if (key.ctrlKey || key.metaKey || key.altKey || help.open || key.target.matches("input, .wide") || !act) return;
  if (key.key.startsWith("Arrow") && key.target.matches("pre, dialog")) return;
  key.preventDefault();
  act();
});

let typed = 0;
find.addEventListener("input", () => { clearTimeout(typed); if (steps.length < 2000) search(); else typed = setTimeout(search, 150); });
for (const [id, act] of [["closer", () => zoom(0.6)], ["wider", () => zoom(1 / 0.6)], ["fit", fit], ["order", switchOrder], ["about", () => pick(null)], ["keys", () => help.showModal()], ["before", () => toHit(-1)], ["after", () => toHit(1)]]) button(id).addEventListener("click", act);

function follow() {
  const step = fromLink();
  const led = step || location.hash === "#summary";
  if (led) { pick(step || null, true); document.body.classList.add("reading"); }
  return led;
}

addEventListener("hashchange", follow);
button("facts").textContent = facts();
if (!lasted && steps.length > 1) switchOrder(); // a tape that keeps no times
if (!follow()) pick(steps.find((step) => step.divergences) || null, true);
