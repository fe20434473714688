// The page about a regression.
const NAMES = ["ok", "diverged", "failed", "timeout", "unreadable", "known"];
const state = (group) => (group.known ? "known" : group.status);
const groups = [...data.groups];
if (data.ok.length) groups.push({ id: "ok", status: "ok", known: false, cause: "as recorded", rows: data.ok, full: [] });
const whole = data.run.total;
const done = NAMES.reduce((sum, name) => sum + data.counts[name], 0);
const seconds = (number) => span(Math.round(number * 1000));

// Long lists are built as far as somebody looks

function lazily(items, make, most) {
  const list = el("ol", {});
  const more = el("button", { class: "more", on: { click: () => grow(most * 5) } });
  let made = 0;
  function grow(by) {
    for (const item of items.slice(made, made + by)) list.append(make(item));
    made = Math.min(items.length, made + by);
    more.textContent = `${(items.length - made).toLocaleString("en")} more`;
    more.hidden = made >= items.length;
  }
  grow(most);
  return { list, more, upTo: (index) => { if (index >= made) grow(index + 1 - made); } };
}

// Commands to copy

function quoted(word) {
  const safe = word.startsWith("-") ? `./${word}` : word;
  return /^[\w@%+=:,./-]+$/.test(safe) ? safe : `'${safe.replace(/'/g, `'"'"'`)}'`;
}

function command(text) {
  const code = el("code", {}, text);
  const button = el("button", { title: "copy" }, "copy");
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(code);
    const said = () => { button.textContent = "copied"; };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(said, () => {}); else if (document.execCommand("copy")) said();
  });
  return el("div", { class: "copy" }, code, button);
}

function commands(recording, diverged) {
  const run = quoted(recording);
  const again = data.run.command.split(" RUN").join(` ${run}`);
  const told = looks(recording, run).map(command);
  if (!diverged) return [...told, command(again)];
  return [...told, command(again.replace(` ${run}`, ` ${run} --report again.json`)), command("reenact explain again.json")];
}

// What is elsewhere is looked at where it is, or got first
function looks(recording, run) {
  const [, keeper, id] = /^(capture|exchange|s3):(.*)$/s.exec(recording) || [];
  if (keeper === "capture") return [`reenact pull ${quoted(id)}`, `reenact view ${quoted(id)}`];
  if (keeper === "exchange") return [`reenact exchange show ${quoted(id)} --calls`];
  return keeper ? [] : [`reenact view ${run}`];
}

// A divergence in full

function value(item) {
  if (typeof item === "string") return el("div", {}, item);
  return item !== null && typeof item === "object" ? el("div", {}, el("div", { class: "json" }, json(item, 0))) : el("div", {}, el("code", {}, JSON.stringify(item)));
}

function worded(words, drop, tag) {
  return el("div", {}, ...words.filter(([kind]) => kind !== drop).map(([kind, text]) => (kind === "same" ? text : el(tag, {}, text))));
}

function gap(one) {
  const box = el("div", { class: "gap" }, el("code", {}, one.path, one.kind === "changed" ? "" : ` (${one.kind})`));
  const side = (name, shown) => box.append(el("div", { class: "side" }, el("span", {}, name), shown));
  if (one.kind !== "added") side("recorded", one.words ? worded(one.words, "added", "del") : value(one.expected));
  if (one.kind !== "removed") side("now", one.words ? worded(one.words, "removed", "ins") : value(one.observed));
  return box;
}

function seen(name, one) {
  if (!one) return null;
  const place = one.seq == null ? `lane ${one.lane}` : `event ${one.seq}, lane ${one.lane}`;
  return folded(`${name}: ${one.type} ${one.operation} · ${place}`, one.data === undefined ? el("p", { class: "facts" }, "nothing") : body(one.data), false);
}

function divergence(one) {
  const parts = [el("div", { class: "diverged" }, el("b", {}, one.code), ` · lane ${one.lane}${one.eventSeq == null ? "" : ` · event ${one.eventSeq}`}`, el("div", {}, one.detail))];
  if (one.paths.length) parts.push(el("h3", {}, one.paths.length === 1 ? "difference" : count(one.paths.length, "difference")), ...one.paths.map(gap));
  if (one.morePaths) parts.push(el("p", { class: "facts" }, `and ${count(one.morePaths, "more place")}`));
  parts.push(el("h3", {}, "calls"), seen("recorded", one.expected), seen("now", one.observed));
  if (one.nearest.length) parts.push(el("h3", {}, "nearest recorded calls"), el("ul", { class: "hints" }, ...one.nearest.map((near) => el("li", {}, `event ${near.seq}: ${near.operation}, lane ${near.lane}, ${near.score === 1 ? "the same" : `${Math.floor(near.score * 100)}% alike`}, ${near.used ? "used" : "not used yet"}${near.paths.length ? `; differs at ${near.paths.join(", ")}` : ""}`))));
  if (one.stack) parts.push(folded("where it waits", el("pre", {}, one.stack), false));
  if (one.hint) parts.push(el("h3", {}, "what to do"), el("ul", { class: "hints" }, ...one.hint.split("\n").map((line) => el("li", {}, line))));
  return parts;
}

function full(one) {
  if (!one) return [];
  return one.divergence ? divergence(one.divergence) : [el("h3", {}, "what it said"), el("pre", {}, one.detail)];
}

// A cause

let picked = null;
let sought = [];
const list = document.getElementById("list");
const detail = document.getElementById("detail");
const items = new Map();

function matching(group) {
  if (!sought.length) return group.rows;
  const found = group.rows.filter((row) => { const text = row.join("\n").toLowerCase(); return sought.every((word) => text.includes(word)); });
  return found.length ? found : group.rows;
}

function show(group, recording) {
  const rows = matching(group);
  const details = new Map(group.full.map((one) => [one.recording, one]));
  const chosen = recording || rows.map((row) => row[0]).find((name) => details.has(name)) || (group.full[0] && group.full[0].recording) || rows[0][0];
  const facts = [state(group), count(group.rows.length, "recording"), `${seconds(group.rows.reduce((sum, row) => sum + row[1], 0))} of work`];
  const link = el("a", { href: `#group-${group.id}` }, "link");
  const row = ([name, took, served, gist]) => {
    const opens = details.has(name) && name !== chosen ? el("button", { on: { click: () => { show(group, name); detail.scrollTop = 0; } } }, "show") : null;
    return el("li", name === chosen && group.full.length ? { class: "picked" } : {}, el("code", {}, name), el("span", { class: "facts" }, served ? `${count(served, "call")} · ` : "", seconds(took)), opens, gist ? el("small", {}, gist) : null);
  };
  const lines = lazily(rows, row, 100);
  lines.list.className = "rows";
  const number = rows.length === group.rows.length ? count(rows.length, "recording") : `${rows.length.toLocaleString("en")} of ${count(group.rows.length, "recording")}`;
  detail.replaceChildren(
    el("h2", {}, el("code", {}, group.cause)), el("p", { class: "facts" }, facts.join(" · "), " · ", link),
    ...(group.full.length ? [el("p", {}, group.full.length > 1 || group.rows.length > 1 ? "One of them: " : "", el("code", {}, chosen))] : []),
    ...full(details.get(chosen)),
    el("h3", {}, "look further"), ...commands(chosen, group.status === "diverged"),
    el("h3", {}, number), lines.list, lines.more);
}

function pick(group, quietly) {
  const old = picked && items.get(picked.id);
  if (old) old.classList.remove("picked");
  picked = group;
  listed.upTo(shown.indexOf(group));
  const now = items.get(group.id);
  if (now) { now.classList.add("picked"); now.scrollIntoView({ block: "nearest" }); }
  show(group);
  detail.scrollTop = 0;
  if (!quietly) history.replaceState(null, "", `#group-${group.id}`);
}

function move(by) {
  if (shown.length) pick(shown[Math.min(shown.length - 1, Math.max(0, shown.indexOf(picked) + by))]);
}

function fromLink() {
  const match = /^#group-(\w+)$/.exec(location.hash);
  return match && groups.find((group) => group.id === match[1]);
}

// The causes, and which of them are wanted

const texts = new Map();
const wanted = new Set();
let shown = groups;
let listed = null;

function words(group) {
  if (!texts.has(group.id)) texts.set(group.id, [group.cause, state(group), ...group.full.map((one) => one.detail), ...group.rows.map((row) => `${row[0]} ${row[3] || ""}`)].join("\n").toLowerCase());
  return texts.get(group.id);
}

function fill() {
  shown = groups.filter((group) => (!wanted.size || wanted.has(state(group))) && sought.every((word) => words(group).includes(word)));
  items.clear();
  let before = null;
  const item = (group) => {
    const made = el("li", { on: { click: () => pick(group) } }, el("span", { class: `dot s-${state(group)}` }), el("code", {}, group.cause), el("b", {}, group.rows.length.toLocaleString("en")), el("small", {}, group.known ? `known, ${group.status}` : group.status));
    items.set(group.id, made);
    const section = group.known ? "known" : group.status === "ok" ? "fine" : "new";
    const both = before === section ? [made] : [el("li", { class: "head" }, el("h2", {}, section)), made];
    before = section;
    const bunch = document.createDocumentFragment();
    bunch.append(...both);
    return bunch;
  };
  listed = lazily(shown, item, 200);
  list.replaceChildren(listed.list, listed.more, ...(shown.length ? [] : [el("p", { id: "none" }, "Nothing matches.")]));
  if (shown.length) pick(shown.includes(picked) ? picked : shown[0], true);
  else detail.replaceChildren();
}

// All together

function bar() {
  const parts = [...NAMES.map((name) => [name, data.counts[name]]), ["left", data.notRun]].filter(([, number]) => number);
  const made = el("div", { id: "bar", role: "img", "aria-label": parts.map(([name, number]) => `${number} ${name === "left" ? "not re-enacted" : name}`).join(", ") });
  for (const [name, number] of parts) {
    const part = el("span", { class: `s-${name}`, title: `${number.toLocaleString("en")} ${name === "left" ? "not re-enacted" : name}` });
    part.style.flexGrow = String(number);
    made.append(part);
  }
  return made;
}

function chip(name) {
  const made = el("button", { "aria-pressed": "false" }, el("span", { class: `dot s-${name}` }), el("b", {}, data.counts[name].toLocaleString("en")), name);
  made.addEventListener("click", () => {
    if (wanted.has(name)) wanted.delete(name); else wanted.add(name);
    made.setAttribute("aria-pressed", String(wanted.has(name)));
    fill();
  });
  return made;
}

function about() {
  const run = data.run;
  const job = run.job;
  const what = job.target ? `--target ${job.target}` : job.command ? `-- ${job.command.join(" ")}` : "each with its own command";
  const rows = [["recordings", run.paths.join(" ")], ["run", what], ["policy", job.policy], ["allowed", (job.allow || []).join(" ")], ["timeout", job.timeout && `${job.timeout} s`], ["part", run.shard], ["baseline", run.baseline],
    ["engine", run.jobs ? `${run.engine}, ${run.jobs} at a time` : run.engine], ["from the journal", run.resumed || null], ["begun", new Date(run.startedAt).toISOString().replace("T", " ").slice(0, 19) + " UTC"], ["took", `${seconds(run.seconds)} (${seconds(data.work)} of work)`], ["versions", `reenact ${run.reenact}, Python ${run.python}, ${run.system}`]];
  return el("table", {}, ...rows.filter(([, said]) => said).map(([name, said]) => el("tr", {}, el("td", {}, name), el("td", {}, el("code", {}, String(said))))));
}

function summary() {
  const run = data.run;
  const made = done - run.resumed;
  const facts = [count(done, "recording")];
  const causes = data.groups.filter((group) => !group.known).length;
  facts.push(causes ? count(causes, "new cause") : "nothing new");
  if (made && run.seconds) facts.push(`${(made / run.seconds).toFixed(1)}/s`, seconds(run.seconds));
  document.getElementById("facts").textContent = facts.join(" · ");
  const left = data.notRun ? el("p", { class: "notice" }, `${run.ended === "interrupted" ? "Interrupted" : "Stopped at the first that went wrong"}: ${data.notRun.toLocaleString("en")} of ${count(whole, "recording")} not re-enacted.`) : null;
  const fold = folded("what was run", about(), false);
  fold.id = "about";
  const chips = el("div", { id: "chips" }, ...NAMES.filter((name) => data.counts[name]).map(chip));
  document.getElementById("sum").append(...[bar(), chips, left, fold].filter(Boolean));
}

const find = document.getElementById("find");
const KEYS = { j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1), "/": () => find.focus(), t: () => theme() };
function search() { sought = find.value.trim().toLowerCase().split(/\s+/).filter(Boolean); fill(); }

find.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  if (event.target === find) { if (event.key === "Escape") { find.value = ""; search(); find.blur(); } return; }
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
addEventListener("hashchange", () => { const group = fromLink(); if (group && shown.includes(group)) pick(group, true); });
summary();
picked = fromLink();
fill();
if (!groups.length) list.append(el("p", { id: "all" }, "No recording was re-enacted."));
