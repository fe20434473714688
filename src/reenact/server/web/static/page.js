// What moves on a page. Everything can be read and sent without it.
import { follow } from "./live.js";
import { watch } from "./editor.js";

for (const form of document.querySelectorAll("form.editor")) watch(form);
for (const progress of document.querySelectorAll("[data-events]")) follow(progress);

// A form that was sent is not sent twice. The server sees to that by itself; this is for the eye.
addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  else event.target.dataset.sent = "yes";
});
// One that is come back to can be sent again.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// On a narrow screen the navigation is scrolled to where one is.
const here = document.querySelector("header nav [aria-current]");
if (here) { const nav = here.closest("nav"); nav.scrollLeft = here.offsetLeft - nav.offsetLeft - nav.clientWidth / 3; }

// After signing in again: back to the form that was being filled in. Nothing is done by this.
document.querySelector("form[data-goes-on]")?.requestSubmit();

// Times are in UTC; what the clock on the wall said is told by those who point at one.
for (const time of document.querySelectorAll("time[datetime]")) {
  const here = new Date(time.dateTime);
  if (here.getTimezoneOffset()) time.title += `, ${here.toLocaleString()} here`;
}

// What is to be copied is copied with one click, where a browser lets a page do that.
for (const secret of navigator.clipboard ? document.querySelectorAll("pre[data-copy]") : []) {
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(secret.textContent);
    copy.textContent = "Copied";
  });
  secret.after(copy);
}

// On a narrow screen what was found is what one came for: filters are folded until one is set.
const narrow = matchMedia("(max-width: 720px)");
for (const filters of document.querySelectorAll("details.filters[data-folds]")) {
  const fit = () => { filters.open = !narrow.matches; };
  narrow.addEventListener("change", fit);
  fit();
}

// "/" goes to the search.
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector("input[type=search]");
  if (search) { event.preventDefault(); search.closest("details")?.setAttribute("open", ""); search.focus(); }
});
