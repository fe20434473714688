// Bodies, each as what it is: `as` is ours, and says so beside the value.
const tree = (item) => el("div", { class: "json" }, json(item, 0, wanted));

// A fold whose inside is made when it is first opened.
function later(name, make, open) {
  const fold = el("details", open ? { open: "" } : {}, el("summary", { class: "facts" }, name));
  const fill = () => { if (fold.childElementCount === 1) fold.append(make()); };
  if (open) fill(); else fold.addEventListener("toggle", () => { if (fold.open) { fill(); mark(fold); tellHits(); } });
  return fold;
}

function picture(shown) {
  const encoded = value(shown.v);
  const base64 = encoded.slice(encoded.indexOf(",") + 1);
  return el("figure", {}, el("img", { src: `data:${shown.kind};base64,${base64}`, alt: "a recorded picture" }), el("figcaption", { class: "facts" }, `${shown.kind}, ${count(Math.floor((base64.replace(/=+$/, "").length * 3) / 4), "byte")}`));
}

function dump(hex) {
  const lines = [];
  for (let at = 0; at < hex.length; at += 32) {
    const bytes = hex.slice(at, at + 32).match(/../g);
    const text = bytes.map((byte) => { const code = parseInt(byte, 16); return code > 31 && code < 127 ? String.fromCharCode(code) : "."; }).join("");
    lines.push(`${(at / 2).toString(16).padStart(6, "0")}  ${bytes.join(" ").padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

const table = (pairs) => el("table", {}, ...pairs.map((pair) => el("tr", {}, el("td", {}, String(pair[0])), el("td", {}, compact(pair[1])))));

function sentEvent(pair) {
  const [name, said] = pair;
  return el("li", {}, name ? el("span", { class: "tag" }, name) : null, typeof said === "object" && said !== null ? el("div", { class: "json" }, json(said, 1, wanted)) : el("span", { class: "text" }, String(said)));
}

const SHOWN = {
  json: (shown) => tree(value(shown.v)),
  text: (shown) => el("div", {}, shown.of ? el("p", { class: "facts" }, `the first part of ${count(shown.of, "character")}`) : null, el("pre", { tabindex: "0" }, value(shown.v))),
  image: picture,
  hex: (shown) => el("div", {}, el("p", { class: "facts" }, count(shown.of, "byte") + (value(shown.v).length / 2 < shown.of ? ", of which these are the first" : "")), el("pre", { class: "hex", tabindex: "0" }, dump(value(shown.v)))),
  form: (shown) => table(value(shown.v)),
  parts: (shown) => el("div", {}, ...shown.v.map((part) => el("div", { class: "part" }, el("p", { class: "facts" }, Object.entries(value(part.about)).map((pair) => pair.join(" ")).join(", ")), content(part.body)))),
  events: (shown) => { const all = value(shown.v); return el("div", {}, el("p", { class: "facts" }, count(all.length, "event")), el("ol", { class: "events" }, ...pieces(all, sentEvent, sought.length ? wanted : null))); },
};

const content = (shown) => (shown == null ? el("p", { class: "facts" }, "nothing") : SHOWN[shown.as](shown));
