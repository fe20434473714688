// A replay, followed by the events of the server until it is over.
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
  events.addEventListener("state", (event) => {
    const { state } = JSON.parse(event.data);
    if (state === progress.dataset.state) say(WORDS[state] ?? "");
    else { events.close(); location.reload(); }
  });
  // A batch: what comes first may be just what this page says already.
  events.addEventListener("progress", (event) => {
    const { state, hindered, progress: now } = JSON.parse(event.data);
    const known = [state, hindered, now.waiting, now.asked, now.ended, now.refused, now.skipped, now.cancelled];
    if (known.join(" ") === progress.dataset.known) say("It runs.");
    else { events.close(); setTimeout(() => location.reload(), 500); }
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) say("This page is not told any more: reload it, and sign in again if you are asked to.");
    else say("The connection is lost. The replay goes on; trying to reach the server …");
  });
}
