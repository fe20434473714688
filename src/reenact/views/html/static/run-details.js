// One step in full.

function said(message, open) {
  const role = message.role || "assistant";
  const calls = (message.tool_calls || []).map((call) => `→ ${call.name}`);
  const results = (message.results || []).map((result) => result.text || "");
  const short = [message.text, ...calls, ...results, ...(message.attached || [])].filter(Boolean).join(" ").replace(/\s+/g, " ").trim().slice(0, 120);
  const fold = el("details", { class: "said" }, el("summary", {}, el("b", {}, role), el("span", { class: "short" }, short)));
  fold.classList.add(message.results && !message.text ? "tool" : ["user", "assistant", "tool"].includes(role) ? role : "system");
  const fill = () => { if (fold.childElementCount === 1) { fold.append(...inside(message)); } };
  if (open || says(message)) { fold.open = true; fill(); } else fold.addEventListener("toggle", () => { fill(); mark(fold); }, { once: true });
  return fold;
}

function inside(message) {
  const more = (...made) => el("div", { class: "more" }, ...made);
  const parts = [];
  for (const thought of message.reasoning || []) {
    if (thought.text) parts.push(more(later("reasoning", () => el("div", { class: "text" }, thought.text), says(thought.text))));
    else if (thought.opaque) parts.push(more(el("span", { class: "facts" }, "reasoning that only the provider can read")));
  }
  if (message.text) parts.push(el("div", { class: "text" }, message.text));
  if (message.refusal) parts.push(el("div", { class: "text" }, el("span", { class: "tag bad" }, "refusal"), message.refusal));
  if (message.error) parts.push(el("div", { class: "text" }, el("span", { class: "tag bad" }, "error"), message.error));
  for (const call of message.tool_calls || []) parts.push(more(later(`calls ${call.name}${call.hosted ? " (at the provider)" : ""}`, () => tree(call.arguments === undefined ? null : call.arguments), true)));
  for (const result of message.results || []) parts.push(more(later(`result${result.name ? ` of ${result.name}` : ""}${result.failed ? ": failed" : ""}`, () => outcome(result.text || ""), true)));
  for (const one of message.attached || []) parts.push(more(el("span", { class: "facts" }, one)));
  for (const one of message.pictures || []) parts.push(more(picture(one)));
  return parts;
}

function outcome(text) {
  try {
    const found = JSON.parse(text);
    if (typeof found === "object" && found !== null) return tree(found);
  } catch { /* it is no JSON */ }
  return el("pre", { tabindex: "0" }, text);
}

function http(detail) {
  const sent = value(detail.sent);
  const parts = [el("h3", {}, "request"), el("p", { class: "line" }, `${detail.method} ${value(detail.url)}`)];
  if (sent && sent.length) parts.push(later(`${count(sent.length, "header")}`, () => headers(sent), says(sent)));
  if (detail.body) parts.push(content(detail.body));
  parts.push(el("h3", {}, "response"));
  if (detail.error !== undefined) parts.push(wrong(detail.error));
  if (detail.status == null) { if (detail.error === undefined) parts.push(el("p", {}, "none")); return parts; }
  const got = value(detail.headers);
  parts.push(el("p", { class: `line${detail.status >= 400 ? " wrong" : ""}` }, [detail.status, value(detail.reason)].filter(Boolean).join(" ")));
  if (got && got.length) parts.push(later(`${count(got.length, "header")}`, () => headers(got), says(got)));
  parts.push(content(detail.answer));
  return parts;
}

function wrong(error) {
  const told = value(error);
  return el("div", {}, el("p", { class: "line wrong" }, failure(error)), told && typeof told === "object" ? later("the error in full", () => tree(told), false) : null);
}

function answer(detail) {
  const found = value(detail.answer);
  if (!found) return [detail.error ? wrong(detail.error) : el("p", { class: "facts" }, "none that can be read")];
  const others = found.others || [];
  const facts = [];
  if (detail.stop) facts.push(`stopped: ${detail.stop}`);
  if (found.model && found.model !== detail.model) facts.push(`answered by ${found.model}`);
  if (detail.streams) facts.push("streamed");
  if (found.complete === false) facts.push("breaks off");
  for (const [name, tokens] of Object.entries(detail.usage || {})) facts.push(`${name} ${number(tokens)}`);
  const all = [found, ...others].map((choice, index) => said({ ...choice, role: others.length ? `choice ${index + 1}` : "assistant" }, true));
  for (const one of all) one.classList.add("assistant");
  return [...all, facts.length ? el("p", { class: "facts" }, facts.join(" · ")) : null];
}

// A result says which call it is of by id; people want to know which tool that was.
function named(messages) {
  const tools = new Map(messages.flatMap((message) => message.tool_calls || []).map((call) => [call.id, call.name]));
  return messages.map((message) => (message.results ? { ...message, results: message.results.map((result) => ({ ...result, name: result.name || tools.get(result.id) })) } : message));
}

function model(detail) {
  const messages = named(value(detail.messages));
  const parts = [el("h3", {}, count(messages.length, "message"))];
  const recent = new Set(messages.slice(Math.min(messages.length - 1, messages.findLastIndex((message) => message.role === "assistant") + 1)));
  const make = (message) => said(message, recent.has(message));
  const early = messages.length > 16 && !sought.length ? messages.slice(0, -8) : [];
  if (early.length) parts.push(later(`${count(early.length, "earlier message")}`, () => el("div", {}, ...early.map(make)), false));
  parts.push(...messages.slice(early.length).map(make));
  parts.push(...(value(detail.pictures) || []).map(picture));
  parts.push(el("h3", {}, "answer"), ...answer(detail));
  const tools = value(detail.tools);
  if (tools) parts.push(later("tools on offer", () => tree(tools), says(tools)));
  const settings = value(detail.settings);
  if (settings) parts.push(later("settings", () => table(Object.entries(settings)), says(settings)));
  parts.push(later("on the wire", () => el("div", {}, ...http(detail.wire)), false));
  parts[parts.length - 1].classList.add("wire");
  return parts;
}

function process(detail) {
  const { argv, ...asked } = value(detail.argv);
  const { stdin, stdout, stderr, exitCode, turns, ...rest } = value(detail.said);
  const parts = [el("h3", {}, "command"), el("pre", {}, Array.isArray(argv) ? argv.join(" ") : compact(argv))];
  for (const [name, text] of [["stdin", stdin], ["stdout", stdout], ["stderr", stderr]]) if (text) parts.push(el("h3", {}, name), el("pre", { tabindex: "0" }, compact(text)));
  parts.push(el("h3", {}, "ended"), el("p", { class: exitCode ? "line wrong" : "line" }, exitCode == null ? "nobody waited for it" : `exit ${exitCode}`));
  for (const [name, more] of [["more that was asked", asked], ["more that was answered", rest]]) if (Object.keys(more).length) parts.push(later(name, () => tree(more), says(more)));
  return parts;
}

function tool(detail) {
  const parts = [el("h3", {}, "given"), tree(value(detail.given))];
  if (detail.error !== undefined) return [...parts, el("h3", {}, "failed"), wrong(detail.error)];
  const gave = value(detail.gave);
  return [...parts, el("h3", {}, "gave"), typeof gave === "string" ? outcome(gave) : tree(gave ?? null)];
}

const DETAILS = { model, http, tool, process, data: (detail) => [tree(value(detail.data))] };

// Divergences

function diverged(one) {
  const where = one.seq == null ? `lane ${one.lane}, beyond the recording` : `lane ${one.lane}, event ${one.seq}`;
  const box = el("section", { class: "diverged", "aria-label": "divergence" }, el("b", {}, one.code), el("span", { class: "facts" }, ` ${where}`), el("div", {}, value(one.detail)));
  for (const gap of one.paths.map(value)) {
    box.append(el("div", { class: "gap" }, el("code", {}, gap.path), side("recorded", gap.expected, "gone"), side("asked", gap.observed, "come")));
  }
  if (one.more) box.append(el("p", { class: "facts" }, `and ${count(one.more, "more place")}`));
  const asked = value(one.asked);
  if (asked) box.append(later("what was asked, in full", () => tree(asked), says(asked)));
  for (const near of value(one.nearest) || []) box.append(el("p", { class: "facts" }, "near: ", stepOf.has(near.seq) ? el("a", { href: `#event-${near.seq}` }, `event ${near.seq}`) : `event ${near.seq}`, ` ${near.operation}, ${Math.round(near.score * 100)}% alike${near.used ? ", used" : ""}`));
  const hint = value(one.hint);
  if (hint) box.append(el("pre", { class: "facts" }, hint));
  return box;
}

const side = (name, item, sort) => (item == null ? null : el("pre", { class: sort, "aria-label": name }, typeof item === "string" ? item : JSON.stringify(item, null, 1)));
