// A replay or a batch, followed by the events of the server until it is over.
const REST = 1000; // milliseconds between two looks
const WORDS = {
  requested: "Waiting for the agent to take it.",
  delivered: "The agent has it, and will start it.",
  running: "It runs.",
};

export function follow(progress) {
  const said = progress.querySelector("#live");
  const events = new EventSource(progress.dataset.events);
  const say = (words) => { if (said.textContent !== words) said.textContent = words; };
  say(WORDS[progress.dataset.state] ?? "");
  const renew = seldom(() => renewed(progress));
  events.addEventListener("state", (event) => {
    const { state } = JSON.parse(event.data);
    say(WORDS[state] ?? "");
    if (state in WORDS) { if (state !== progress.dataset.state) renew(); }
    else { events.close(); location.reload(); }
  });
  // A batch: what comes first may be just what this page says already.
  events.addEventListener("progress", (event) => {
    const { state, hindered, progress: now } = JSON.parse(event.data);
    const known = [state, hindered, now.waiting, now.asked, now.ended, now.refused, now.skipped, now.cancelled];
    if (state !== progress.dataset.state) { events.close(); location.reload(); return; }
    say("It runs.");
    if (known.join(" ") !== progress.dataset.known) renew();
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) say("This page is not told any more: reload it, and sign in again if you are asked to.");
    else say("The connection is lost. The replay goes on; trying to reach the server …");
  });
}

// The parts of the page that tell how far it is, as they are now. The rest stays: what somebody reads, has
// opened or is about to press. So does a part that has the focus.
async function renewed(progress) {
  const answer = await fetch(location.href);
  if (!answer.ok || answer.redirected) { location.reload(); return; }
  const made = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = made.querySelector(`[data-part="${part.dataset.part}"]`);
    if (next && !part.contains(document.activeElement)) part.replaceWith(next);
  }
  const now = made.querySelector("[data-events]");
  if (now) Object.assign(progress.dataset, now.dataset);
  else location.reload();
}

// Does it now, and however often it is called meanwhile, once more after a rest.
function seldom(work) {
  let busy = false;
  let again = false;
  return async function run() {
    if (busy) { again = true; return; }
    busy = true;
    try { await work(); } catch { /* the server does not answer: the events say so, and what is new when they are back */ }
    setTimeout(() => { busy = false; if (again) { again = false; run(); } }, REST);
  };
}
