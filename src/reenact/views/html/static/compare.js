// The page about two runs.
const value = (ref) => (ref == null ? null : "t" in ref ? data.table[ref.t] : ref.v);
const KINDS = ["changed", "added", "removed", "moved"];
const OPEN_AT_FIRST = 12;
const AT_A_TIME = 200;
const changes = data.lanes.flatMap((lane) => lane.parts.filter((part) => part.kind));
const known = new Map(changes.map((change) => [link(change), change]));
const cards = new Map();
const off = new Set();
const opened = new Set(changes.filter((one) => !one.repeats).slice(0, OPEN_AT_FIRST));

function link(change) {
  return `change-${[change.one && `A${change.one.seq}`, change.other && `B${change.other.seq}`].filter(Boolean).join("-")}`;
}

// Values

function words(pieces, side) {
  return el("div", { class: "text" }, ...pieces.filter(([tag]) => tag === 0 || tag === side).map(([tag, text]) => (tag === 0 ? text : el(tag === 1 ? "del" : "ins", {}, text))));
}

function shown(item) {
  if (item == null) return el("span", { class: "facts" }, "nothing");
  if (item.image) return el("img", { src: `data:${item.image};base64,${item.data}`, alt: item.image });
  if (item.hex != null) return el("div", {}, el("span", { class: "facts" }, count(item.size, "byte")), el("pre", {}, item.hex));
  if (item.json === null || typeof item.json === "number" || typeof item.json === "boolean") return el("div", { class: "leaf" }, String(item.json));
  if (typeof item.json === "string") return el("div", { class: "text" }, item.json);
  return el("div", { class: "json" }, json(item.json, 0));
}

const side = (kind, ...inside) => el("div", { class: `side ${kind}` }, ...inside);
const sides = (...inside) => el("div", { class: "sides" }, ...inside);
const none = () => side("none");

// Two messages

function message(said, marked, tag) {
  const parts = [el("div", { class: "role" }, said.role)];
  const text = (name, item) => (marked && marked[name] ? words(value(marked[name]), tag) : typeof item === "string" ? el("div", { class: "text" }, item) : el("div", { class: "json" }, json(item, 0)));
  const list = (name, say) => (said[name] || []).map(([who, item], index) => el("div", { class: "part" }, el("span", { class: "role" }, `${say} ${who}`), text(`${name}${index}`, item)));
  if (said.reasoning) parts.push(el("div", { class: "part" }, folded("reasoning", text("reasoning", said.reasoning), Boolean(marked && marked.reasoning))));
  if (said.text) parts.push(text("text", said.text));
  if (said.refusal) parts.push(el("div", { class: "text" }, said.refusal));
  parts.push(...list("calls", "calls"), ...list("results", "result"));
  for (const one of said.attached || []) parts.push(el("div", { class: "facts" }, one));
  if (said.error) parts.push(el("div", { class: "text" }, said.error));
  for (const one of said.others || []) parts.push(folded("another answer", message(one)[1] || "", false));
  const facts = [said.stopped && `stopped: ${said.stopped}`, ...Object.entries(said.usage || {}).map(([name, number]) => `${name} ${number.toLocaleString("en")}`)].filter(Boolean);
  if (facts.length) parts.push(el("div", { class: "facts" }, facts.join(" · ")));
  return parts;
}

function turn(one) {
  const left = value(one.one), right = value(one.other);
  if (one.again != null) {
    const target = changes.find((change) => (change.other || change.one).seq === one.again);
    return el("div", { class: "over facts" }, `${left.role}: differs as at `, el("a", { href: `#${link(target)}` }, `event ${one.again}`));
  }
  return [left ? side("gone", ...message(left, one.words, 1)) : none(), right ? side("new", ...message(right, one.words, 2)) : none()];
}

function talk(turns) {
  const rows = [];
  let same = [];
  const flush = () => {
    if (!same.length) return;
    const all = same;
    same = [];
    const fold = el("details", { class: "same over" }, el("summary", {}, `${count(all.length, "message")} the same`));
    fold.addEventListener("toggle", () => fold.append(...all.map((one) => side("", ...message(one)))), { once: true });
    rows.push(fold);
  };
  for (const one of turns) {
    if (one.both) same.push(...one.both.map((at) => data.table[at]));
    else { flush(); rows.push(...[turn(one)].flat()); }
  }
  flush();
  return sides(...rows);
}

// One change

function place(gap) {
  const pieces = value(gap.words);
  const left = pieces ? side("gone", words(pieces, 1)) : gap.one ? side("gone", shown(value(gap.one))) : none();
  const right = pieces ? side("new", words(pieces, 2)) : gap.other ? side("new", shown(value(gap.other))) : none();
  return [el("div", { class: "path over" }, gap.path), left, right];
}

function title(step) {
  if (step.method && step.kind !== "llm") return `${step.method} ${step.url || ""}`;
  return step.name || { run_start: "the beginning of the run", run_end: "the end of the run" }[step.kind] || step.kind;
}

function about(step) {
  return [`event ${step.seq}`, `lane ${step.lane}`, step.kind, step.status, step.ms ? span(step.ms) : null].filter((one) => one != null).join(" · ");
}

function inside(change) {
  const { one, other } = change;
  const parts = [el("div", { class: "sides heads" }, side("", one ? `${data.one.name} · ${about(one)}` : ""), side("", other ? `${data.other.name} · ${about(other)}` : ""))];
  const places = change.places || [];
  // What the conversation shows already.
  const told = change.talk ? places.filter((gap) => !/^\$\.(response\.answer\.(text|usage|stop_reason|tool_calls|reasoning|refusal)|request\.body\.(messages|input|contents|system|systemInstruction|instructions))\b/.test(gap.path)) : places;
  if (change.talk) parts.push(talk(change.talk));
  if (told.length) parts.push(...(change.talk ? [el("h3", {}, "and besides")] : []), sides(...told.flatMap(place)));
  if (change.more) parts.push(el("p", { class: "facts" }, `and ${count(change.more, "more place")}`));
  const whole = () => sides(one ? side("", shown(value(one.whole))) : none(), other ? side("", shown(value(other.whole))) : none());
  if (change.kind === "changed" || change.talk) {
    const fold = el("details", {}, el("summary", { class: "facts" }, "all that is compared"));
    fold.addEventListener("toggle", () => fold.append(whole()), { once: true });
    parts.push(fold);
  } else if (change.kind === "moved") parts.push(folded("what it says", shown(value(other.whole)), false));
  else parts.push(sides(one ? side("gone", shown(value(one.whole))) : none(), other ? side("new", shown(value(other.whole))) : none()));
  parts.push(el("a", { href: `#${link(change)}` }, "link to this difference"));
  return el("div", { class: "inside" }, ...parts);
}

function gist(change) {
  if (change.kind === "moved") return change.one.lane === change.other.lane ? "" : `lane ${change.one.lane} → ${change.other.lane}`;
  const gaps = change.places || [];
  if (change.repeats) return "only what differed before";
  return gaps.length ? `${gaps[0].path}${gaps.length + (change.more || 0) > 1 ? ` and ${(gaps.length + change.more - 1).toLocaleString("en")} more` : ""}` : "";
}

function card(change) {
  if (cards.has(change)) return cards.get(change);
  const step = change.other || change.one;
  const seqs = [change.one, change.other].filter(Boolean).map((one) => one.seq).join(" → ");
  const made = el("details", { class: `change ${change.kind}`, id: link(change) }, el("summary", {}, el("span", { class: "kind" }, change.kind), el("b", {}, title(step)), el("span", { class: "gist" }, gist(change)), el("span", { class: "facts" }, `event ${seqs}`)));
  made.addEventListener("toggle", () => { if (made.open && made.childElementCount === 1) made.append(inside(change)); });
  made.open = opened.has(change);
  cards.set(change, made);
  return made;
}

const sameIn = (part) => part.same.length + part.unlisted;

function same(part) {
  const pairs = part.same;
  const fold = el("details", { class: "same" }, el("summary", {}, `${count(sameIn(part), "call")} the same`));
  const more = (items, from) => {
    for (const [one, other, name] of pairs.slice(from, from + AT_A_TIME)) items.append(el("li", {}, `${one}${one === other ? "" : ` → ${other}`}  ${data.names[name].filter(Boolean).join(" ")}`));
    if (from + AT_A_TIME < pairs.length) {
      const button = el("button", { on: { click: () => { button.remove(); more(items, from + AT_A_TIME); } } }, "more");
      items.append(button);
    } else if (part.unlisted) items.append(el("li", { class: "facts" }, `and ${part.unlisted.toLocaleString("en")} more`));
  };
  fold.addEventListener("toggle", () => { const items = el("ol", {}); more(items, 0); fold.append(items); }, { once: true });
  return fold;
}

// Both runs in numbers

function totals() {
  const number = (many) => many.toLocaleString("en");
  const tokens = [data.one, data.other].some((run) => run.tokens.input || run.tokens.output);
  const columns = [
    ["recorded", (run) => new Date(run.createdAt).toISOString().slice(0, 19).replace("T", " "), true], ["status", (run) => run.status], ["calls", (run) => number(run.calls)], ["lanes", (run) => number(run.lanes)],
    ["model calls", (run) => number(run.models)], ["tokens in", (run) => number(run.tokens.input || 0)], ["tokens out", (run) => number(run.tokens.output || 0)],
    ["time in models", (run) => span(run.modelTime), true], ["time in all", (run) => span(run.time), true],
  ].filter(([name]) => (data.one.models + data.other.models || !/model/.test(name)) && (tokens || !/token/.test(name)));
  const row = (run, other) => el("tr", {}, el("th", {}, run.name), ...columns.map(([, of, free]) => el("td", free || of(run) === of(other) ? {} : { class: "apart" }, of(run))));
  return el("div", { class: "total", tabindex: "0", role: "region", "aria-label": "both runs in numbers" }, el("table", {}, el("tr", {}, el("td", {}), ...columns.map(([name]) => el("td", { class: "facts" }, name))), row(data.one, data.other), row(data.other, data.one)));
}

function laneTitle(lane) {
  if (lane.one != null && lane.other != null) return lane.one === lane.other ? `lane ${lane.one}` : `lane ${lane.one}, now ${lane.other}`;
  const before = new Set(lane.parts.map((part) => (part.kind === "moved" ? part.one.lane : null)));
  if (before.size === 1 && !before.has(null)) return `lane ${lane.other}, in ${data.one.name} lane ${[...before][0]}`;
  return `lane ${lane.one ?? lane.other}, only in ${(lane.one == null ? data.other : data.one).name}`;
}

const hasChanges = (lane) => lane.parts.some((part) => part.kind);

function sameLanes(lanes) {
  const calls = lanes.reduce((sum, one) => sum + one.parts.reduce((many, part) => many + sameIn(part), 0), 0);
  const fold = el("details", { class: "same" }, el("summary", {}, `${count(lanes.length, "lane")} the same, with ${count(calls, "call")}`));
  fold.addEventListener("toggle", () => fold.append(...lanes.map((one) => new Lane(one).section)), { once: true });
  return el("section", { class: "lane", id: "rest" }, fold);
}

function lanes() {
  const some = data.lanes.filter((one) => one.parts.length);
  const others = some.filter((one) => !hasChanges(one));
  return [...some.filter(hasChanges).map((one) => new Lane(one).section), ...(others.length ? [sameLanes(others)] : [])];
}

// A lane shows its first parts, and more when asked: a page of 10,000 cards takes long to open.

const sections = new Map();

class Lane {
  constructor(one) {
    this.parts = one.parts;
    this.limit = AT_A_TIME;
    this.inside = el("div", {});
    const numbers = KINDS.map((kind) => [kind, one.parts.filter((part) => part.kind === kind).length]).filter(([, many]) => many).map(([kind, many]) => `${many.toLocaleString("en")} ${kind}`);
    const rest = one.parts.reduce((sum, part) => sum + (part.same ? sameIn(part) : 0), 0);
    this.section = el("section", { class: "lane" }, el("h2", {}, laneTitle(one), " ", el("span", { class: "facts" }, [...numbers, `${rest.toLocaleString("en")} the same`].join(", "))), this.inside);
    for (const part of one.parts) if (part.kind) sections.set(part, this);
    this.fill(false);
  }

  fill(narrow) {
    this.fits = this.parts.filter((part) => (part.kind ? !hidden.has(part) : !narrow));
    this.section.hidden = !this.fits.length;
    this.draw();
  }

  draw() {
    const rest = this.fits.length - this.limit;
    const more = rest > 0 ? el("button", { on: { click: () => { this.limit += AT_A_TIME; this.draw(); } } }, `${rest.toLocaleString("en")} more`) : null;
    this.inside.replaceChildren(...this.fits.slice(0, this.limit).map((part) => (part.kind ? card(part) : same(part))), ...(more ? [more] : []));
  }

  reach(change) {
    const at = this.fits.indexOf(change);
    if (at >= this.limit) { this.limit = at + AT_A_TIME; this.draw(); }
  }
}

const hidden = new Set();

// Choosing

let picked = null;

function pick(change, quietly) {
  if (picked) cards.get(picked).classList.remove("picked");
  picked = change;
  sections.get(change).reach(change);
  const made = card(change);
  made.classList.add("picked");
  made.open = true;
  made.scrollIntoView({ block: "start" });
  if (!quietly) history.replaceState(null, "", `#${link(change)}`);
}

function move(by) {
  const all = changes.filter((change) => !hidden.has(change));
  if (!all.length) return;
  const at = all.indexOf(picked);
  pick(all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + by))]);
}

function text(change) {
  const parts = [change.kind];
  const collect = (item, name) => {
    if (name === "both") item.forEach((at) => collect(data.table[at]));
    else if (typeof item === "string") parts.push(item);
    else if (Array.isArray(item)) item.forEach((one) => collect(one));
    else if (item && typeof item === "object") {
      if ("t" in item && Object.keys(item).length === 1) collect(data.table[item.t]);
      else Object.entries(item).forEach(([name, inner]) => { parts.push(name); collect(inner, name); });
    } else if (item != null) parts.push(String(item));
  };
  const pieces = (ref, tag) => (value(ref) || []).filter(([one]) => one === 0 || one === tag).map(([, part]) => part).join("");
  collect(change);
  for (const one of change.places || []) if (one.words) parts.push(pieces(one.words, 1), pieces(one.words, 2));
  return parts.join("\n").toLowerCase();
}

const find = document.getElementById("find");
const texts = new Map();
const nothing = el("p", { class: "nothing", hidden: "" }, "Nothing matches.");

function filter() {
  const sought = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  hidden.clear();
  for (const change of changes) {
    if (sought.length && !texts.has(change)) texts.set(change, text(change));
    if (off.has(change.kind) || !sought.every((word) => texts.get(change).includes(word))) hidden.add(change);
  }
  const narrow = sought.length > 0 || off.size > 0;
  for (const lane of new Set(sections.values())) lane.fill(narrow);
  const rest = document.getElementById("rest");
  if (rest) rest.hidden = narrow;
  nothing.hidden = !narrow || hidden.size < changes.length;
}

function chips() {
  const make = (kind) => {
    const chip = el("button", { "aria-pressed": "true", title: `show what was ${kind}, or not`, on: { click: () => toggle() } }, `${data.counts[kind].toLocaleString("en")} ${kind}`);
    const toggle = () => { if (!off.delete(kind)) off.add(kind); chip.setAttribute("aria-pressed", String(!off.has(kind))); filter(); };
    return chip;
  };
  return KINDS.filter((kind) => data.counts[kind]).map(make);
}

// All together

const KEYS = {
  n: () => move(1), j: () => move(1), p: () => move(-1), k: () => move(-1), "/": () => find.focus(), t: () => theme(),
  o: () => { if (picked) cards.get(picked).open = !cards.get(picked).open; },
};

function fromLink(quietly) {
  const change = known.get(location.hash.slice(1));
  if (change && hidden.has(change)) { find.value = ""; off.clear(); for (const chip of document.querySelectorAll("#kinds button")) chip.setAttribute("aria-pressed", "true"); filter(); }
  if (change) pick(change, quietly);
  return change;
}

const parts = [changes.length ? null : "no difference", `${data.counts.same.toLocaleString("en")} the same`, data.notCompared ? `${count(data.notCompared, "draw")} not compared` : null];
document.getElementById("facts").textContent = parts.filter(Boolean).join(" · ");
document.getElementById("kinds").append(...chips());
document.getElementById("runs").append(totals(), ...lanes(), nothing, el("p", { class: "keys" }, ...[["n", "next"], ["p", "previous"], ["o", "fold"], ["/", "search"], ["t", "light or dark"]].flatMap(([key, does]) => [el("kbd", {}, key), ` ${does}  `])));
document.getElementById("on").addEventListener("click", KEYS.n);
document.getElementById("back").addEventListener("click", KEYS.p);
find.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.target === find) { if (event.key === "Escape") { find.value = ""; filter(); find.blur(); } return; }
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
addEventListener("hashchange", () => fromLink(true));
fromLink(true);
