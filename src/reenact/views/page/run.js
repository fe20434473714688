// The page about one run.
const run = data;
const steps = run.steps;
const value = (ref) => (ref == null ? null : "t" in ref ? run.table[ref.t] : ref.v);
const KINDS = ["llm", "tool", "network", "process"];
const kind = (step) => (KINDS.includes(step.kind) ? step.kind : "other");

// What a step is, in a line

function title(step) {
  const detail = step.detail;
  if (detail.what === "model") return `${detail.provider}/${detail.model}`;
  if (detail.what === "http") return `${detail.method} ${detail.url}`;
  return step.name || step.kind;
}

function gist(step) {
  const detail = step.detail;
  if (detail.what === "model") {
    const answer = value(detail.answer) || {};
    const calls = (answer.tool_calls || []).map((one) => `→ ${one.name}`).join(" ");
    return answer.text || calls || (detail.error && detail.error.message) || detail.stop || "";
  }
  if (detail.what === "http") return detail.status == null ? "no answer" : String(detail.status);
  if (detail.what === "tool") return JSON.stringify(value(detail.given)) || "";
  const data = value(detail.data) || {};
  if (Array.isArray(data.argv)) return data.argv.join(" ");
  return ["input", "status", "output", "key", "request"].filter((name) => data[name] != null).map((name) => (typeof data[name] === "string" ? data[name] : JSON.stringify(data[name]))).join(" · ");
}

function words(step) {
  const parts = [title(step), step.kind, step.lane, `event ${step.seq}`];
  const collect = (item) => {
    if (typeof item === "string") parts.push(item);
    else if (Array.isArray(item)) item.forEach(collect);
    else if (item && typeof item === "object") {
      if ("t" in item && Object.keys(item).length === 1) collect(run.table[item.t]);
      else Object.entries(item).forEach(([name, inner]) => { parts.push(name); collect(inner); });
    } else if (item != null) parts.push(String(item));
  };
  collect(step.detail);
  return parts.join("\n").toLowerCase();
}

// Details

function said(message, open) {
  const role = message.role || "assistant";
  const text = message.text || "";
  const inside = [];
  for (const thought of message.reasoning || []) if (thought.text) inside.push(el("div", { class: "more" }, folded("reasoning", el("div", { class: "text" }, thought.text), false)));
  if (text) inside.push(el("div", { class: "text" }, text));
  if (message.refusal) inside.push(el("div", { class: "text" }, message.refusal));
  for (const call of message.tool_calls || []) inside.push(el("div", { class: "more" }, folded(`calls ${call.name}`, el("div", { class: "json" }, json(call.arguments === undefined ? null : call.arguments, 0)), true)));
  for (const result of message.results || []) inside.push(el("div", { class: "more" }, folded(`result${result.name ? ` of ${result.name}` : ""}`, el("pre", {}, result.text || ""), true)));
  for (const one of message.attached || []) inside.push(el("div", { class: "more facts" }, one));
  const calls = (message.tool_calls || []).map((call) => `→ ${call.name}`);
  const results = (message.results || []).map((result) => result.text || "");
  const short = [text, ...calls, ...results].join(" ").replace(/\s+/g, " ").trim().slice(0, 90);
  return el("details", { class: `said ${role}`, ...(open ? { open: "" } : {}) }, el("summary", {}, `${role}${short && !open ? ` · ${short}` : ""}`), ...inside);
}

function http(detail) {
  const parts = [];
  parts.push(el("h3", {}, "request"), el("p", {}, `${detail.method} ${detail.url}`));
  if (value(detail.sent)) parts.push(folded("headers", headers(value(detail.sent)), false));
  if (value(detail.body) != null) parts.push(body(value(detail.body)));
  parts.push(el("h3", {}, "response"), el("p", {}, detail.status == null ? "none" : String(detail.status)));
  if (value(detail.headers)) parts.push(folded("headers", headers(value(detail.headers)), false));
  if (detail.status != null) parts.push(body(value(detail.answer)));
  return parts;
}

function model(detail) {
  const messages = detail.messages.map(value);
  const parts = [el("h3", {}, count(messages.length, "message"))];
  messages.forEach((message, index) => parts.push(said(message, index >= messages.length - 2)));
  parts.push(el("h3", {}, "answer"));
  const answer = value(detail.answer);
  parts.push(answer ? said({ ...answer, role: "assistant" }, true) : el("p", { class: "facts" }, detail.error ? `${detail.error.class || "error"}: ${detail.error.message || ""}` : "none that can be read"));
  const facts = [];
  if (detail.stop) facts.push(`stopped: ${detail.stop}`);
  for (const [name, number] of Object.entries(detail.usage || {})) facts.push(`${name} ${number.toLocaleString("en")}`);
  if (facts.length) parts.push(el("p", { class: "facts" }, facts.join(" · ")));
  if (value(detail.tools)) parts.push(folded("tools on offer", body(value(detail.tools)), false));
  parts.push(folded("on the wire", el("div", {}, ...http(detail.wire)), false));
  return parts;
}

function diverged(one) {
  const box = el("div", { class: "diverged" }, el("b", {}, one.code), el("div", {}, one.detail));
  for (const gap of one.paths.slice(0, 20)) box.append(el("pre", {}, `${gap.path}\n- ${JSON.stringify(gap.expected)}\n+ ${JSON.stringify(gap.observed)}`));
  if (one.hint) box.append(el("div", { class: "facts" }, one.hint));
  return box;
}

// Choosing

let picked = null;
let shown = steps;
const list = document.getElementById("list");
const detail = document.getElementById("detail");
const bars = new Map();
const items = new Map();
const texts = new Map();

function pick(step, quietly) {
  for (const map of [bars, items]) { const old = picked && map.get(picked.seq); if (old) old.classList.remove("picked"); }
  picked = step;
  if (!step) return;
  for (const map of [bars, items]) { const now = map.get(step.seq); if (now) now.classList.add("picked"); }
  const item = items.get(step.seq);
  if (item) item.scrollIntoView({ block: "nearest" });
  const facts = [`event ${step.seq}${step.closed && step.closed !== step.seq ? `–${step.closed}` : ""}`, `lane ${step.lane}`, `after ${span(step.start)}`, `took ${span(step.end - step.start)}`];
  if (step.closed == null) facts.push("never completed");
  const link = el("a", { href: `#event-${step.seq}` }, "link");
  const kinds = { model, http, tool: (one) => [el("h3", {}, "given"), body(value(one.given)), el("h3", {}, "gave"), body(value(one.gave))], data: (one) => [body(value(one.data))] };
  detail.replaceChildren(el("h2", {}, title(step)), el("p", { class: "facts" }, facts.join(" · "), " · ", link), ...(step.divergences || []).map(diverged), ...kinds[step.detail.what](step.detail));
  detail.scrollTop = 0;
  if (!quietly) history.replaceState(null, "", `#event-${step.seq}`);
}

function move(by) {
  if (!shown.length) return;
  const at = shown.indexOf(picked);
  pick(shown[Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + by))]);
}

function fromLink() {
  const match = /^#event-(\d+)$/.exec(location.hash);
  const seq = match && Number(match[1]);
  return seq && steps.find((step) => step.seq === seq || step.closed === seq);
}

// The list, and searching in it

function filter(text) {
  const sought = text.trim().toLowerCase();
  shown = !sought ? steps : steps.filter((step) => {
    if (!texts.has(step.seq)) texts.set(step.seq, words(step));
    return sought.split(/\s+/).every((word) => texts.get(step.seq).includes(word));
  });
  const wanted = new Set(shown.map((step) => step.seq));
  for (const [seq, item] of items) item.hidden = !wanted.has(seq);
  for (const [seq, bar] of bars) bar.classList.toggle("faded", !wanted.has(seq));
  document.getElementById("none").hidden = shown.length > 0;
  if (shown.length && !wanted.has(picked && picked.seq)) pick(shown[0]);
}

function fillList() {
  const entries = el("ol", {});
  for (const step of steps) {
    const mark = step.divergences ? el("b", {}, "≠") : null;
    const item = el("li", { on: { click: () => pick(step) } }, el("div", { class: "what" }, el("span", { class: `dot ${kind(step)}` }), el("b", { title: title(step) }, title(step)), mark, el("span", { class: "facts" }, span(step.end - step.start))), el("small", {}, `${step.seq} · ${gist(step)}`.slice(0, 160)));
    items.set(step.seq, item);
    entries.append(item);
  }
  list.append(entries, el("p", { id: "none", hidden: "" }, "Nothing matches."));
}

// Time

const whole = Math.max(1, ...steps.map((step) => step.end));
let view = [0, whole];

function place() {
  const [from, to] = view;
  const width = to - from;
  for (const step of steps) {
    const bar = bars.get(step.seq);
    bar.style.left = `${((step.start - from) / width) * 100}%`;
    bar.style.width = `${((step.end - step.start) / width) * 100}%`;
  }
  const axis = document.getElementById("axis");
  axis.replaceChildren(...[0, 0.25, 0.5, 0.75].map((part) => { const label = el("span", {}, span(Math.round(from + width * part))); label.style.left = `${part * 100}%`; return label; }));
}

function zoom(factor, around) {
  const [from, to] = view;
  const middle = around == null ? (from + to) / 2 : around;
  let start = middle - (middle - from) * factor;
  let end = middle + (to - middle) * factor;
  if (end - start < 1) return;
  if (end - start >= whole) [start, end] = [0, whole];
  if (start < 0) [start, end] = [0, end - start];
  if (end > whole) [start, end] = [start - (end - whole), whole];
  view = [Math.max(0, start), end];
  place();
}

function fillTime() {
  const time = document.getElementById("time");
  time.append(el("div", { class: "lane axis" }, el("span", {}, "lane"), el("div", { class: "row", id: "axis" })));
  for (const lane of run.lanes) {
    const row = el("div", { class: "row" });
    for (const step of steps.filter((one) => one.lane === lane)) {
      const bar = el("button", { class: `bar ${kind(step)}${step.divergences ? " bad" : ""}`, title: `${title(step)} (${span(step.end - step.start)})`, tabindex: "-1", on: { click: () => pick(step) } });
      bars.set(step.seq, bar);
      row.append(bar);
    }
    time.append(el("div", { class: "lane" }, el("span", { title: `lane ${lane}` }, lane), row));
  }
  time.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = document.getElementById("axis").getBoundingClientRect();
    const at = view[0] + ((event.clientX - box.left) / box.width) * (view[1] - view[0]);
    zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, at);
  }, { passive: false });
  place();
}

// All together

function facts() {
  const models = steps.filter((step) => step.detail.what === "model");
  const tokens = { input: 0, output: 0 };
  for (const step of models) for (const name of Object.keys(tokens)) tokens[name] += (step.detail.usage || {})[name] || 0;
  const parts = [count(steps.length, "step"), count(run.lanes.length, "lane"), span(whole), `status ${run.status}`];
  if (models.length) parts.push(`${count(models.length, "model call")} in ${span(models.reduce((sum, step) => sum + step.end - step.start, 0))}`);
  if (tokens.input + tokens.output) parts.push(`${tokens.input.toLocaleString("en")} tokens in, ${tokens.output.toLocaleString("en")} out`);
  const draws = Object.entries(run.draws).map(([name, number]) => `${number.toLocaleString("en")} ${name}`);
  if (draws.length) parts.push(`draws: ${draws.join(", ")}`);
  return parts.join(" · ");
}

const find = document.getElementById("find");
const KEYS = {
  j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
  "/": () => find.focus(), "+": () => zoom(0.6), "-": () => zoom(1.6), 0: () => { view = [0, whole]; place(); },
  d: () => { const bad = shown.filter((step) => step.divergences); if (bad.length) pick(bad[(bad.indexOf(picked) + 1) % bad.length]); },
  t: () => theme(),
};

document.getElementById("facts").textContent = facts();
document.getElementById("closer").addEventListener("click", KEYS["+"]);
document.getElementById("wider").addEventListener("click", KEYS["-"]);
find.addEventListener("input", () => filter(find.value));
document.addEventListener("keydown", (event) => {
  if (event.target === find) { if (event.key === "Escape") { find.value = ""; filter(""); find.blur(); } return; }
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
addEventListener("hashchange", () => { const step = fromLink(); if (step) pick(step, true); });
fillList();
fillTime();
if (steps.length) pick(fromLink() || steps.find((step) => step.divergences) || steps[0], true);
for (const one of run.elsewhere) detail.prepend(diverged(one));
