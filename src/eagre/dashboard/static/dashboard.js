// Receives the server's events and draws the dashboard.
import { Chart, clock, count, ms } from "/chart.js";
import * as panels from "/panels.js";

const RETAINED = 900;
const el = (id) => document.getElementById(id);
const LATENCY = [{ field: "max_ms", css: "c-max thin" }, { field: "p99_ms", css: "c-p99" }, { field: "p95_ms", css: "c-p95" }, { field: "p50_ms", css: "c-p50" }];
const latencyTip = (s) => [["p50", ms(s.p50_ms)], ["p95", ms(s.p95_ms)], ["p99", ms(s.p99_ms)], ["max", ms(s.max_ms)], ["results", count(s.records)], ...(s.pause_ms ? [["GC pause", ms(s.pause_ms)]] : [])];

let state = null, chosen = null, pinned = false, range = 300, lastSecond = 0;
const seconds = new Map();
const latency = new Chart(el("latency-chart"), { lines: LATENCY, log: true, band: ["p50_ms", "p99_ms"], tip: latencyTip });
const flow = new Chart(el("flow-chart"), { lines: [{ field: "in", css: "c-in" }, { field: "out", css: "c-out" }], tip: (s) => [["in", `${count(s.in)}/s`], ["out", `${count(s.out)}/s`], ["lag", count(s.lag)]], empty: "no data yet" });
const topics = new panels.Topics("topics", { deadLetters: false });
const deadLetters = new panels.Topics("dead-letters", { deadLetters: true });
const pairs = new Map();

el("flow-legend").append(panels.h("span", { class: "c-in" }, panels.h("i"), "in"), panels.h("span", { class: "c-out" }, panels.h("i"), "out"));

function take(update, everything) {
  state = update;
  if (everything) seconds.clear();
  for (const view of update.pipelines) {
    const retained = seconds.get(view.key) || [];
    const fresh = view.seconds.filter((s) => !retained.length || s.t > retained[retained.length - 1].t);
    seconds.set(view.key, [...retained, ...fresh].slice(-RETAINED));
  }
  lastSecond = Date.now();
  draw();
}

function choose() {
  const views = state.pipelines;
  const current = views.find((view) => view.key === chosen);
  const over = (view) => ["ended", "failed"].includes(view.status.phase);
  if (current && (pinned || !over(current))) return current;
  const next = [...views].reverse().find((view) => !over(view)) || current || views[views.length - 1];
  chosen = next?.key ?? null;
  return next;
}

function draw() {
  const view = choose();
  tabs();
  connection();
  if (!view) {
    el("status").replaceChildren(panels.h("h1", {}, "No pipeline is running"), panels.h("p", {}, "Start one with eagre run APP.py; it appears here automatically."));
    return;
  }
  const history = seconds.get(view.key) || [];
  document.title = `${view.status.name}: ${view.waiting ? "waiting for records" : view.status.phase} · Eagre`;
  panels.status(view);
  panels.tiles(view, history);
  panels.meter(view);
  charts(view, history);
  panels.causes(view, history);
  panels.chain(history);
  panels.partitions(view, history);
  panels.slo(view);
  panels.graph(view);
  panels.epochs(view);
  panels.state(view);
  panels.settings(view);
  panels.notes(view);
  compare();
  const names = new Set([...(view.status.about.sources || []).map((s) => s.topic), ...(view.status.about.dead_letters || []), ...(view.status.about.sink?.topics || [])]);
  const shown = state.topics.filter((topic) => names.has(topic.topic));
  const payloads = state.payloads && el("payloads").checked;
  topics.show(shown, state.trouble, payloads);
  deadLetters.show(shown, {}, payloads);
}

function bounds(view, history) {
  const over = ["ended", "failed"].includes(view.status.phase) && history.length;
  const to = over ? history[history.length - 1].t : state.now;
  const first = history.length ? history[0].t : to;
  return { from: Math.max(to - range, Math.min(first, to - 60)), to };
}

function charts(view, history) {
  const { from, to } = bounds(view, history);
  const total = view.meter.total;
  const empty = view.meter.why ? "not measured, see below" : view.status.phase === "running" ? "waiting for records" : view.status.phase === "starting" ? view.status.reason || "starting" : "no results in this period";
  latency.draw({ from, to, seconds: history, marks: view.marks, target: view.slo?.within_ms, empty, label: `Latency over time on a log axis; p50 ${ms(total.p50_ms)}, p99 ${ms(total.p99_ms)} since the start` });
  flow.draw({ from, to, seconds: history, marks: view.marks.filter((m) => m.kind !== "start"), label: "Records per second in and out" });
}

function compare() {
  const name = (state.pipelines.find((v) => v.key === chosen) || {}).status?.name;
  const same = state.pipelines.filter((view) => view.status.name === name && view.status.mode && view.status.about.sink);
  const box = el("modes");
  box.hidden = new Set(same.map((view) => view.status.mode)).size < 2;
  if (box.hidden) return;
  if (!box.firstChild) box.append(panels.h("div", { class: "head" }, panels.h("h2", {}, "Same pipeline, two modes")), panels.h("div", { class: "pair" }), panels.h("div"));
  const [, pair, table] = box.children;
  const most = Math.max(...same.map((view) => view.meter.total.max_ms || 0));
  for (const view of same) {
    if (!pairs.has(view.key)) {
      const chart = panels.h("div", { class: "chart small" });
      pair.append(panels.h("div", {}, panels.h("h3", {}, view.status.mode), chart));
      pairs.set(view.key, new Chart(chart, { lines: LATENCY, log: true, band: ["p50_ms", "p99_ms"], tip: latencyTip, empty: "waiting for records" }));
    }
    const history = seconds.get(view.key) || [];
    pairs.get(view.key).draw({ ...bounds(view, history), seconds: history, marks: view.marks, most, label: `Latency in ${view.status.mode}` });
  }
  table.replaceChildren(panels.modes(same));
}

function tabs() {
  el("tabs").replaceChildren(...state.pipelines.map((view) => panels.h("button", { type: "button", "aria-current": String(view.key === chosen), onclick: () => { chosen = view.key; pinned = true; draw(); } },
    panels.h("span", { class: `dot ${view.status.phase}` }), view.status.name, panels.h("small", {}, view.status.mode))));
}

function connection() {
  const lost = Date.now() - lastSecond > 4000;
  el("link").classList.toggle("lost", lost);
  el("link").textContent = lost ? `disconnected since ${clock(lastSecond / 1000)}` : clock(state.now);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let wanted = null;
try { wanted = localStorage.getItem("eagre-theme"); } catch { /* a browser without storage follows the system */ }
theme(wanted || (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => { if (!wanted) theme(dark.matches ? "dark" : "light"); });
el("theme").addEventListener("click", () => {
  wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  theme(wanted);
  try { localStorage.setItem("eagre-theme", wanted); } catch { /* as above */ }
});
el("payloads").addEventListener("change", () => {
  for (const list of [topics, deadLetters]) for (const node of list.nodes.values()) node.loaded = 0;
  if (state) draw();
});
el("ranges").addEventListener("click", (event) => {
  if (!event.target.dataset.seconds) return;
  range = Number(event.target.dataset.seconds);
  for (const button of el("ranges").children) button.classList.toggle("on", button === event.target);
  if (state) draw();
});

const events = new EventSource("/api/events");
events.addEventListener("everything", (event) => take(JSON.parse(event.data), true));
events.addEventListener("second", (event) => take(JSON.parse(event.data), false));
setInterval(() => state && connection(), 1000);
