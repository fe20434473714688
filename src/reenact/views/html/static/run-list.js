// The list of steps. Only what is in sight is there, however many there are.
const list = document.getElementById("list");
const HEIGHT = 46;
let shown = steps;
const sheet = el("ol", { role: "presentation" });
list.append(sheet, el("p", { id: "none", hidden: "" }, steps.length ? "Nothing matches." : "Nothing was recorded."));

function item(step, index) {
  const marks = [step.divergences ? el("b", { class: "wrong", title: "diverged" }, "≠") : null, step.failed ? el("b", { class: "wrong", title: "failed" }, "✕") : null];
  const where = [step.seq, run.lanes.length > 1 ? `lane ${step.lane}` : "", gist(step), step.detail.what === "http" ? urlParts(step)[1] : ""].filter(Boolean).join(" · ");
  const made = el("li", { id: `step-${step.seq}`, role: "option", "aria-selected": String(step === picked), "aria-posinset": index + 1, "aria-setsize": shown.length, class: step === picked ? "picked" : null, on: { click: () => pick(step) } }, el("div", { class: "what" }, el("span", { class: `dot ${kind(step)}` }), el("b", { title: title(step) }, short(step)), ...marks, el("span", { class: "facts" }, isCall(step) ? span(took(step)) : "")), el("small", {}, where));
  made.style.top = `${index * HEIGHT}px`;
  return made;
}

function drawList() {
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 4);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + 4);
  sheet.style.height = `${shown.length * HEIGHT}px`;
  sheet.replaceChildren(...shown.slice(first, last).map((step, index) => item(step, first + index)));
  document.getElementById("none").hidden = shown.length > 0;
  if (picked) list.setAttribute("aria-activedescendant", `step-${picked.seq}`); else list.removeAttribute("aria-activedescendant");
}

function bringIntoList() {
  const at = shown.indexOf(picked);
  if (at < 0) return;
  if (at * HEIGHT < list.scrollTop) list.scrollTop = at * HEIGHT;
  else if ((at + 1) * HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = (at + 1) * HEIGHT - list.clientHeight;
}

let waiting = false;
function soon(draw) {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
list.addEventListener("scroll", () => soon(drawAll));
