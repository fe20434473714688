// The steps of a run, what they are called and what they say.
const run = data;
const steps = run.steps;
const KINDS = ["llm", "tool", "network", "process", "mcp", "run_start", "run_end"];
const kind = (step) => (KINDS.includes(step.kind) ? step.kind : "other");
const number = (one) => Number(one).toLocaleString("en");
const compact = (item) => (typeof item === "string" ? item : JSON.stringify(item, (_, one) => (typeof one === "bigint" ? String(one) : one)) ?? "");

// The table: {"$t": row}, {"$t": "digits"}, {"$t": [lists to join]}, {"$t": {an object with such a key}}
const whole = new Map();

function value(item) {
  if (item === null || typeof item !== "object") return item;
  if (Array.isArray(item)) return item.map(value);
  if (!("$t" in item)) return plain(item);
  if (typeof item.$t === "string") return BigInt(item.$t);
  if (Array.isArray(item.$t)) return item.$t.flatMap(value);
  if (typeof item.$t === "object") return plain(item.$t);
  if (!whole.has(item.$t)) whole.set(item.$t, value(run.table[item.$t]));
  return whole.get(item.$t);
}

const plain = (item) => Object.fromEntries(Object.entries(item).map(([name, inner]) => [name, value(inner)]));

// In a word, and in a line

function title(step) {
  const detail = step.detail;
  if (detail.what === "model") return `${detail.provider}/${detail.model}`;
  if (detail.what === "http") return `${detail.method} ${value(detail.url)}`;
  return step.name || step.kind.replace("_", " ");
}

// In a list: the path before the host, which is the same everywhere.
function short(step) {
  if (step.detail.what !== "http") return title(step);
  return `${step.detail.method} ${urlParts(step)[2] || "/"}`;
}

const urlParts = (step) => /^[a-z+]+:\/\/(?:[^/?#@]*@)?([^/?#]*)(.*)$/is.exec(value(step.detail.url) || "") || ["", "", value(step.detail.url) || ""];

function failure(error) {
  const told = value(error);
  if (told == null) return "";
  return typeof told === "object" ? [told.class, told.message].filter(Boolean).join(": ") || compact(told) : String(told);
}

const GISTS = {
  model(detail) {
    const answer = value(detail.answer) || {};
    const calls = (answer.tool_calls || []).map((one) => `→ ${one.name}`).join(" ");
    return [answer.text, calls].filter(Boolean).join(" ") || answer.error || failure(detail.error) || detail.stop || "";
  },
  http: (detail) => failure(detail.error) || (detail.status == null ? "no answer" : [detail.status, value(detail.reason)].filter(Boolean).join(" ")),
  tool: (detail) => `${compact(value(detail.given))} → ${detail.error === undefined ? compact(value(detail.gave)) : failure(detail.error)}`,
  process(detail) {
    const said = value(detail.said);
    return [(value(detail.argv).argv || []).join(" "), said.exitCode == null ? "" : `exit ${said.exitCode}`, said.stdout].filter(Boolean).join(" · ");
  },
  data(detail) {
    const found = value(detail.data) || {};
    if (Array.isArray(found.argv)) return found.argv.join(" ");
    return ["key", "input", "status", "exitCode", "output", "value", "request"].filter((name) => found[name] != null).map((name) => (name === "exitCode" ? `exit ${found[name]}` : compact(found[name]))).join(" · ");
  },
};

// Whoever wrote the recording: what is in it may have any shape.
function gist(step) {
  try {
    return GISTS[step.detail.what](step.detail).replace(/\s+/g, " ").slice(0, 160);
  } catch {
    return "";
  }
}

const took = (step) => Math.max(0, step.end - step.start);
const isCall = (step) => step.kind !== "run_start" && step.kind !== "run_end";
const stepOf = new Map();
for (const step of steps) { stepOf.set(step.seq, step); if (step.closed != null) stepOf.set(step.closed, step); }
