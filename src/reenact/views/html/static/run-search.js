// Searching: every row of the table is looked at once, however many steps point to it.
let sought = [];

function textOf(item) {
  const said = [];
  const rows = [];
  const walk = (one) => {
    if (one === null) return;
    if (typeof one !== "object") said.push(String(one));
    else if (Array.isArray(one)) one.forEach(walk);
    else if (typeof one.$t === "number") rows.push(one.$t);
    else if (Array.isArray(one.$t) || typeof one.$t === "string") walk(one.$t);
    else for (const [name, inner] of Object.entries(one.$t ?? one)) { said.push(name); walk(inner); }
  };
  walk(item);
  return { text: said.join("\n").toLowerCase(), rows };
}

// A step without the words that are ours.
function ownText(step) {
  const said = [title(step), step.kind, `lane ${step.lane}`, `event ${step.seq}`, step.failed ? "failed" : null];
  const collect = (item) => {
    for (const [name, inner] of Object.entries(item)) {
      if (["wire", "body", "answer"].includes(name) && inner) collect(inner);
      else if (!["what", "as", "streams"].includes(name)) said.push(name === "$t" ? item : inner);
    }
  };
  collect(step.detail);
  for (const one of step.divergences || []) said.push(...Object.values(one));
  return textOf(said);
}

let texts = null;

function indexed() {
  texts ??= {
    rows: run.table.map(textOf),
    steps: steps.map(ownText),
  };
  return texts;
}

// Words that must all be there; "in quotes" they are one.
const wordsOf = (text) => [...text.toLowerCase().matchAll(/"([^"]+)"?|(\S+)/g)].map((match) => match[1] || match[2]);

function matching(words) {
  const known = indexed();
  let found = steps.map(() => true);
  for (const word of words) {
    const rows = [];
    for (const { text, rows: inner } of known.rows) rows.push(text.includes(word) || inner.some((row) => rows[row]));
    found = found.map((still, index) => still && (known.steps[index].text.includes(word) || known.steps[index].rows.some((row) => rows[row])));
  }
  return steps.filter((_, index) => found[index]);
}

const says = (item) => {
  if (!sought.length || item == null) return false;
  if (typeof item !== "object") { const text = String(item).toLowerCase(); return sought.some((word) => text.includes(word)); }
  return Object.entries(item).some(([name, inner]) => (!Array.isArray(item) && says(name)) || says(inner));
};
const wanted = (item) => says(item);

// Marks

function mark(where) {
  if (!sought.length) return;
  const pattern = new RegExp(sought.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
  const walker = document.createTreeWalker(where, NodeFilter.SHOW_TEXT, (node) => (node.parentElement.closest("mark, button") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const node of nodes) {
    const parts = [];
    let at = 0;
    for (const match of node.data.matchAll(pattern)) {
      parts.push(node.data.slice(at, match.index), el("mark", {}, match[0]));
      at = match.index + match[0].length;
    }
    if (!parts.length) continue;
    node.replaceWith(...parts.filter((part) => part !== ""), node.data.slice(at));
  }
  for (const hit of where.querySelectorAll("mark")) for (let fold = hit.closest("details:not([open])"); fold; fold = fold.parentElement.closest("details:not([open])")) if (hit.closest("summary")?.parentElement !== fold) fold.open = true;
}
