// The timeline: a row for each lane, a bar for each step. Only what is in sight is there, and bars
// too short to tell apart are one.
const time = document.getElementById("time");
const axis = document.getElementById("axis");
const lanes = document.getElementById("lanes");
const range = document.getElementById("range");
const ROW = 22;
const latest = (some) => some.reduce((most, step) => Math.max(most, finish(step)), 0);
const lasted = steps.reduce((most, step) => Math.max(most, step.end), 0);
const inLane = grouped(steps, (step) => step.lane);

// Along the axis: milliseconds, or events in their order.
let ordered = false;
const begin = (step) => (ordered ? step.seq : step.start);
const finish = (step) => (ordered ? (step.closed ?? step.seq) + 1 : step.end);
const limits = () => (ordered ? [1, Math.max(2, latest(steps))] : [0, Math.max(1, lasted)]);
let view = limits();

function bars(some, width) {
  const [from, to] = view;
  const scale = width / (to - from);
  const made = [];
  for (const step of some) {
    if (finish(step) < from || begin(step) > to) continue;
    const left = (begin(step) - from) * scale;
    const right = Math.max(left + 3, (finish(step) - from) * scale);
    const last = made[made.length - 1];
    if (last && right - left <= 5 && left < last.right && last.right - last.left <= 12) {
      last.steps.push(step);
      last.right = Math.max(last.right, right);
    } else made.push({ left, right, steps: [step] });
  }
  return made;
}

function bar({ left, right, steps: some }) {
  const [step] = some;
  const label = some.length > 1 ? `${count(some.length, "step")}, the first is ${title(step)}` : `${title(step)} (${span(took(step))})`;
  const made = el("button", { class: `bar ${some.every((one) => kind(one) === kind(step)) ? kind(step) : "other"}`, title: label, "aria-label": label, tabindex: "-1", on: { click: () => choose(some) } });
  made.classList.toggle("bad", some.some((one) => one.divergences));
  made.classList.toggle("failed", some.some((one) => one.failed));
  made.classList.toggle("picked", some.includes(picked));
  made.classList.toggle("faded", sought.length > 0 && !some.some((one) => wantedSteps.has(one)));
  made.style.left = `${left}px`;
  made.style.width = `${right - left}px`;
  return made;
}

function choose(some) {
  if (some.length > 1 && finish(some[some.length - 1]) - begin(some[0]) > 1) look(begin(some[0]), latest(some));
  pick(some[0]);
}

function lane(name, index, width) {
  const row = el("div", { class: "row" }, ...bars(inLane.get(name), width).map(bar));
  const made = el("div", { class: "lane" }, el("span", { title: `lane ${name}: ${count(inLane.get(name).length, "step")}` }, name), row);
  made.style.top = `${index * ROW}px`;
  return made;
}

function ticks(width) {
  const [from, to] = view;
  const rough = (to - from) / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(ordered ? 1 : 0.1, [1, 2, 5, 10].find((factor) => factor * power >= rough) * power);
  const made = [];
  for (let at = Math.ceil(from / step) * step; at < to && made.length < 60; at += step) {
    const label = el("span", {}, ordered ? `event ${number(Math.round(at))}` : span(Math.round(at * 10) / 10));
    label.style.left = `${((at - from) / (to - from)) * 100}%`;
    made.push(label);
  }
  return made;
}

function forkLine(width) {
  const origin = run.about.parent;
  const first = origin && run.about.mode !== "replay" && steps.find((step) => step.seq >= origin.seq);
  if (!first || begin(first) < view[0] || begin(first) > view[1]) return [];
  const line = el("div", { class: "fork", title: `forked here, at event ${origin.seq}: live from here on` });
  line.style.left = `${axis.offsetLeft + ((begin(first) - view[0]) / (view[1] - view[0])) * width}px`;
  return [line];
}

lanes.style.height = `${run.lanes.length * ROW}px`;

function drawTime() {
  const width = axis.clientWidth || 1;
  const first = Math.max(0, Math.floor(time.scrollTop / ROW) - 2);
  const names = run.lanes.slice(first, Math.ceil((time.scrollTop + time.clientHeight) / ROW) + 2);
  lanes.replaceChildren(...names.map((name, index) => lane(name, first + index, width)), ...forkLine(width));
  axis.replaceChildren(...ticks(width));
}

function look(from, to) {
  const [start, end] = limits();
  const width = Math.min(Math.max(to - from, ordered ? 4 : 1), end - start);
  const left = Math.min(Math.max(from, start), end - width);
  view = [left, left + width];
  soon(drawAll);
}

const fit = () => look(...limits());
const pan = (part) => look(view[0] + (view[1] - view[0]) * part, view[1] + (view[1] - view[0]) * part);
const at = (x) => { const box = axis.getBoundingClientRect(); return view[0] + ((x - box.left) / box.width) * (view[1] - view[0]); };

function zoom(factor, around) {
  const middle = around ?? (picked && begin(picked) >= view[0] && finish(picked) <= view[1] ? (begin(picked) + finish(picked)) / 2 : (view[0] + view[1]) / 2);
  look(middle - (middle - view[0]) * factor, middle + (view[1] - middle) * factor);
}

function zoomToPicked() {
  if (!picked) return fit();
  const width = Math.max(finish(picked) - begin(picked), 1);
  look(begin(picked) - width / 4, finish(picked) + width / 4);
}

function switchOrder() {
  ordered = !ordered;
  document.getElementById("order").setAttribute("aria-pressed", String(ordered));
  fit();
}

function bringIntoTime() {
  if (!picked) return;
  const index = run.lanes.indexOf(picked.lane);
  const room = time.clientHeight - ROW;
  if (index * ROW < time.scrollTop) time.scrollTop = index * ROW;
  else if ((index + 1) * ROW > time.scrollTop + room) time.scrollTop = (index + 1) * ROW - room;
  if (finish(picked) < view[0] || begin(picked) > view[1]) { const half = (view[1] - view[0]) / 2; look(begin(picked) - half, begin(picked) + half); }
}

// Wheel: with Ctrl, or where there is nothing to scroll, it zooms; sideways it moves.
time.addEventListener("wheel", (turned) => {
  const sideways = turned.shiftKey || Math.abs(turned.deltaX) > Math.abs(turned.deltaY);
  if (!sideways && !turned.ctrlKey && time.scrollHeight > time.clientHeight + 1 && turned.target.closest(".axis") === null) return;
  turned.preventDefault();
  if (sideways && !turned.ctrlKey) pan(Math.sign(turned.deltaX || turned.deltaY) * 0.1);
  else zoom(turned.deltaY > 0 ? 1.25 : 0.8, at(turned.clientX));
}, { passive: false });

// Dragging selects a range to look at; with a finger it moves.
let drag = null;
time.addEventListener("pointerdown", (pressed) => { if (pressed.button === 0 && pressed.clientX >= axis.getBoundingClientRect().left) drag = { x: pressed.clientX, last: pressed.clientX, moved: false }; });
time.addEventListener("pointermove", (moved) => {
  if (!drag || (!drag.moved && Math.abs(moved.clientX - drag.x) < 5)) return;
  if (!drag.moved) { drag.moved = true; time.setPointerCapture(moved.pointerId); }
  if (moved.pointerType === "touch") { const by = at(drag.last) - at(moved.clientX); look(view[0] + by, view[1] + by); drag.last = moved.clientX; return; }
  const [left, right] = [Math.min(drag.x, moved.clientX), Math.max(drag.x, moved.clientX)];
  range.hidden = false;
  range.style.left = `${left - time.getBoundingClientRect().left}px`;
  range.style.width = `${right - left}px`;
  range.style.height = `${Math.max(time.clientHeight, time.scrollHeight)}px`;
  range.textContent = ordered ? count(Math.round(at(right) - at(left)), "event") : span(Math.round(at(right) - at(left)));
});
addEventListener("pointerup", (released) => {
  const done = drag;
  drag = null;
  range.hidden = true;
  if (!done || !done.moved || released.pointerType === "touch") return;
  look(Math.min(at(done.x), at(released.clientX)), Math.max(at(done.x), at(released.clientX)));
});
addEventListener("pointercancel", () => { drag = null; range.hidden = true; });
time.addEventListener("dblclick", (twice) => { if (!twice.target.closest(".bar")) fit(); });
time.addEventListener("scroll", () => soon(drawAll));
addEventListener("resize", () => soon(drawAll));
