// The run as a whole: what was called how often, for how long, and how many tokens it took.
const USED = { input: "tokens in", output: "out", cacheRead: "from cache", cacheWrite: "into cache", reasoning: "reasoning" };

function groupOf(step) {
  const detail = step.detail;
  if (detail.what === "http") return `${step.kind} ${urlParts(step)[1]}`;
  return step.kind === "llm" ? title(step) : title(step).startsWith(step.kind) ? title(step) : `${step.kind} ${title(step)}`;
}

function sums(some) {
  const times = some.map(took).sort((one, other) => one - other);
  const used = {};
  for (const step of some) for (const [name, tokens] of Object.entries(step.detail.usage || {})) if (name in USED) used[name] = (used[name] || 0) + tokens;
  return { calls: some.length, failed: some.filter((step) => step.failed).length, time: times.reduce((sum, ms) => sum + ms, 0), median: times[Math.floor((times.length - 1) / 2)] || 0, slowest: times[times.length - 1] || 0, used };
}

function grouped(some, by) {
  const groups = new Map();
  for (const step of some) { const name = by(step); if (groups.has(name)) groups.get(name).push(step); else groups.set(name, [step]); }
  return groups;
}

function summed(heading, groups, link) {
  const all = [...groups].map(([name, some]) => [name, sums(some), some]);
  const used = Object.keys(USED).filter((name) => all.some(([, sum]) => sum.used[name]));
  const failed = all.some(([, sum]) => sum.failed);
  const cell = (text) => el("td", { class: "number" }, text);
  const row = ([name, sum, some]) => el("tr", {}, el("th", { scope: "row" }, link ? link(name, some) : name), cell(number(sum.calls)), failed ? cell(sum.failed ? number(sum.failed) : "") : null, cell(span(sum.time)), cell(span(sum.median)), cell(span(sum.slowest)), ...used.map((one) => cell(sum.used[one] ? number(sum.used[one]) : "")));
  const heads = [heading, "calls", failed ? "failed" : null, "time", "median", "slowest", ...used.map((name) => USED[name])].filter((head) => head != null);
  const rows = el("tbody", {}, ...all.slice(0, 50).map(row));
  const more = all.length > 50 ? el("button", { on: { click: () => { rows.append(...all.slice(50).map(row)); more.remove(); } } }, `${number(all.length - 50)} more`) : null;
  return el("div", { class: "wide", tabindex: "0" }, el("table", { class: "sums" }, el("thead", {}, el("tr", {}, ...heads.map((head, index) => head ? el("th", { scope: "col", class: index ? "number" : "" }, head) : el("td")))), rows), more);
}

const toStep = (step, text) => el("a", { href: `#event-${step.seq}` }, text || `event ${step.seq}`);

function about() {
  const told = run.about;
  const made = Object.entries(told.environment).map((pair) => pair.join(" ")).join(", ");
  const begun = new Date(run.begun);
  const rows = [["status", told.status + (told.error ? `: ${told.error}` : "")], ["begun", isNaN(begun) ? "" : begun.toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC")], ["took", span(lasted)], ["recording", `${told.captureId}, ${count(told.events, "event")}, redaction ${told.redaction}`]];
  if (told.parent) rows.push([told.mode === "replay" ? "replay of" : "fork of", `${told.parent.captureId}${told.mode === "replay" ? "" : ` at event ${told.parent.seq}`}`]);
  if (made) rows.push(["made with", made]);
  const draws = Object.entries(run.draws).map(([name, times]) => `${number(times)} ${name}`);
  if (draws.length) rows.push(["drawn, not shown", draws.join(", ")]);
  return table(rows);
}

function summary() {
  const calls = steps.filter(isCall);
  const bad = calls.filter((step) => step.failed);
  const slow = calls.filter((step) => took(step) > 0).sort((one, other) => took(other) - took(one)).slice(0, 5);
  const marked = steps.filter((step) => step.divergences);
  const parts = [el("h2", {}, run.name), about()];
  if (marked.length || run.elsewhere.length) parts.push(el("h3", {}, "divergences"), ...run.elsewhere.map(diverged), listed(marked, (step) => step.divergences.map((one) => one.code).join(", ")));
  if (calls.length) {
    parts.push(el("h3", {}, "what was called"), summed("", new Map([...grouped(calls, groupOf), ["all together", calls]])));
    if (run.lanes.length > 1) parts.push(el("h3", {}, count(run.lanes.length, "lane")), summed("lane", grouped(calls, (step) => step.lane), (name, some) => toStep(some[0], name)));
  }
  if (slow.length) parts.push(el("h3", {}, "slowest"), listed(slow, (step) => span(took(step))));
  if (bad.length) parts.push(el("h3", {}, count(bad.length, "failure")), listed(bad, gist));
  return parts;
}

const listed = (some, tell) => el("ul", { class: "plain" }, ...pieces(some, (step) => el("li", {}, toStep(step), ` ${title(step)}`, el("span", { class: "facts" }, ` ${tell(step)}`))));

function facts() {
  const calls = steps.filter(isCall);
  const { used, failed } = sums(calls);
  const models = calls.filter((step) => step.kind === "llm");
  const wrongs = run.elsewhere.length + steps.reduce((sum, step) => sum + (step.divergences || []).length, 0);
  const parts = [count(calls.length, "call"), count(run.lanes.length, "lane"), span(lasted), run.about.status];
  if (wrongs) parts.push(count(wrongs, "divergence"));
  if (failed) parts.push(`${number(failed)} failed`);
  if (models.length) parts.push(`${count(models.length, "model call")} in ${span(sums(models).time)}`);
  if (used.input || used.output) parts.push(`${number(used.input || 0)} tokens in, ${number(used.output || 0)} out`);
  return parts.join(" · ");
}
