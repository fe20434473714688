// The form of a replay, checked while it is filled in. The server does the checking: what it says here
// is what it says when the form is sent.
const REST = 300; // milliseconds without a key

export function watch(form) {
  let waiting = 0;
  let asking = null;
  const later = () => { clearTimeout(waiting); waiting = setTimeout(check, REST); };
  form.addEventListener("input", later);
  form.addEventListener("click", (event) => {
    const place = event.target.closest("#plan a[href^='#']");
    if (place) { event.preventDefault(); go(form, place); }
  });
  form.querySelector(".check-now")?.remove();
  layOut(form);
  more(form);

  async function check() {
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await fetch(form.dataset.check, {
        method: "POST", body: new URLSearchParams(new FormData(form)), signal: asking.signal,
        headers: { Accept: "application/json" },
      });
      if (answer.ok) show(form, await answer.text());
      else tell(form, (await answer.json()).error.message);
    } catch (error) {
      if (error.name !== "AbortError") tell(form, "the server does not answer, so this is not checked");
    }
  }
}

function show(form, html) {
  const made = new DOMParser().parseFromString(html, "text/html").getElementById("plan");
  form.querySelector("#plan").replaceWith(made);
  form.querySelector("button.main").disabled = "denied" in made.dataset; // the plan says which permission is missing
  form.querySelector("#reason").required = "reason" in made.dataset;
  for (const name of ["headers", "body", "properties"]) {
    const wrong = [...made.querySelectorAll(`.mistakes a[href="#${name}"]`)].map((place) => place.parentElement.textContent);
    form.querySelector(`#${name}-wrong`).textContent = wrong.map((words) => words.replace(/^\w+(, |: )/, "")).join("; ");
  }
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const place of made.querySelectorAll(".mistakes a")) {
    const field = fieldOf(form, place);
    if (field.matches("input, textarea")) field.setAttribute("aria-invalid", "true");
  }
}

function tell(form, words) {
  const plan = form.querySelector("#plan");
  const told = document.createElement("p");
  told.className = "alert";
  told.textContent = words;
  plan.querySelector(":scope > p.alert")?.remove();
  plan.prepend(told);
}

// To the place of a mistake.
function go(form, place) {
  const line = Number(place.dataset.line);
  const field = fieldOf(form, place);
  field.focus();
  if (!line || field.tagName !== "TEXTAREA") return;
  const lines = field.value.split("\n");
  const before = [...lines[line - 1] ?? ""].slice(0, Number(place.dataset.column) - 1).join(""); // columns count characters
  const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + before.length;
  field.setSelectionRange(at, at + String.fromCodePoint(field.value.codePointAt(at) ?? 10).length);
}

// What a mistake is in. Headers are counted as the server does: without those that are empty.
function fieldOf(form, place) {
  const filled = [...form.querySelectorAll(".header")].filter((row) => [...row.children].some((one) => one.value));
  const header = place.hash === "#headers" && filled[Number(place.dataset.line) - 1]?.firstElementChild;
  return header || form.querySelector(place.hash);
}

// JSON in lines, for those who would like to read what they edit. Nothing but the white space between
// its parts is touched: numbers stay as they are written.
function layOut(form) {
  const body = form.querySelector("textarea#body");
  const type = form.querySelector("select[name=body-type]");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet lay-out";
  button.textContent = "Lay it out";
  button.addEventListener("click", () => {
    body.focus();
    body.select();
    document.execCommand("insertText", false, inLines(body.value)); // as if it was typed, so that it can be undone
    body.setSelectionRange(0, 0);
    body.scrollTop = 0;
  });
  const fit = () => { button.hidden = type.value !== "json"; };
  type.addEventListener("change", fit);
  fit();
  body.closest("label").after(button);
}

function inLines(text) {
  try { JSON.parse(text); } catch { return text; } // what is wrong with it is told beside it
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return text.replace(/("(?:[^"\\]|\\.)*")|([{[])\s*([}\]])?|([}\]])|(,)|(:)|\s+/g, (found, string, open, shut, close, comma, colon) => {
    if (string) return string;
    if (open && shut) return open + shut;
    if (open) { depth += 1; return open + line(); }
    if (close) { depth -= 1; return line() + close; }
    if (comma) return comma + line();
    return colon ? ": " : "";
  });
}

// Another header, when the last empty row is used.
function more(form) {
  const rows = form.querySelector(".rows");
  rows.addEventListener("input", () => {
    const last = rows.lastElementChild;
    if (![...last.querySelectorAll("input")].some((one) => one.value)) return;
    const next = last.cloneNode(true);
    const number = rows.children.length + 1;
    const [name, value] = next.querySelectorAll("input");
    name.value = value.value = "";
    name.setAttribute("aria-label", `Name of header ${number}`);
    value.setAttribute("aria-label", `Value of header ${number}`);
    rows.append(next);
  });
}
