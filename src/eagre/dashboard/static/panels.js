// The panels of one pipeline. External data is inserted as text, never as markup.
import { clock, count, ms } from "/chart.js";

export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "w") node.style.setProperty("--w", value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const head = (title, note = "") => h("div", { class: "head" }, h("h2", {}, title), h("span", { class: "note" }, note));
const quiet = (text) => h("p", { class: "quiet" }, text);
const table = (headings, rows) => h("div", { class: "scroll" }, h("table", {},
  h("thead", {}, h("tr", {}, headings.map(([text, css]) => h("th", { class: css || false }, text)))),
  h("tbody", {}, rows)));
const bytes = (n) => (n >= 1 << 30 ? `${(n / (1 << 30)).toFixed(1)} GB` : n >= 1 << 20 ? `${(n / (1 << 20)).toFixed(1)} MB` : n >= 1024 ? `${(n / 1024).toFixed(0)} kB` : `${n} B`);
const fill = (id, ...children) => document.getElementById(id).replaceChildren(...children.filter((child) => child));

const WORDS = { starting: "starting", running: "running", stalled: "stalled", draining: "draining", waiting: "waiting to restart", ended: "ended", failed: "failed" };

export function status(view) {
  const s = view.status, idle = view.waiting && s.phase === "running";
  const every = s.every_ms ? `${s.mode === "real-time" ? "commits every" : "trigger of"} ${s.every_ms / 1000} s` : "";
  const facts = [s.mode, every, s.about.delivery, s.restarts ? `${s.restarts} restart${s.restarts === 1 ? "" : "s"}` : "", view.app.split("/").pop()].filter(Boolean).join(" · ");
  const parts = [h("h1", {}, s.name), h("span", { class: `phase ${idle ? "quiet" : s.phase}`, id: "phase" }, idle ? "waiting for records" : WORDS[s.phase] || s.phase), h("p", {}, facts)];
  if (s.reason) parts.push(h("p", { class: s.phase === "starting" ? "why soft" : "why", id: "why" }, s.reason));
  if (s.overdue_seconds) parts.push(h("p", { class: "why", id: "overdue" }, `A commit is overdue by ${Math.round(s.overdue_seconds)} s: ${s.overdue_reason}.`));
  if (s.phase !== "running" && s.failure) parts.push(h("p", { class: "why" }, s.failure));
  fill("status", ...parts);
}

function tile(css, name, value, unit, below) {
  return h("div", { class: `tile ${css}` }, h("span", { class: "key" }, h("i"), name), h("b", {}, value, unit ? h("small", {}, unit) : null), h("span", {}, below));
}

function latencyTile(css, name, field, last, total) {
  const [value, unit] = ms(last?.[field]).split(" ");
  return tile(css, name, value, unit, total.records ? `${ms(total[field])} overall` : "not measured");
}

export function tiles(view, seconds) {
  const recent = seconds.slice(-4), last = [...recent].reverse().find((s) => s.records), total = view.meter.total;
  const flow = [...recent].reverse().find((s) => s.out !== undefined || s.in !== undefined) || {};
  const lag = view.status.lag;
  fill("tiles",
    latencyTile("c-p50", "p50", "p50_ms", last, total), latencyTile("c-p95", "p95", "p95_ms", last, total),
    latencyTile("c-p99", "p99", "p99_ms", last, total), latencyTile("c-none", "p99.9", "p999_ms", last, total),
    latencyTile("c-max", "max", "max_ms", last, total),
    tile("c-in", "in", count(flow.in), "/s", "records read"),
    tile("c-out", "out", count(flow.out), "/s", `${count(total.records + total.unmeasured + total.skipped)} results`),
    tile("c-none", "lag", count(lag), "", `${count(view.status.commits)} commit${view.status.commits === 1 ? "" : "s"}`));
}

export function meter(view) {
  const m = view.meter, foot = document.getElementById("meter");
  foot.className = m.why ? "foot warn" : "foot";
  const sampled = m.sampled < 1 ? ` Results are sampled above ${count(m.most_per_second)}/s: ${(m.sampled * 100).toFixed(0)} % were measured.` : "";
  const negative = m.total.negative ? ` ${count(m.total.negative)} results are older than their source record: check the clocks.` : "";
  const missing = m.total.unmeasured && m.total.records ? ` ${count(m.total.unmeasured)} results have no provenance.` : "";
  foot.textContent = m.why || `From the source's timestamp to a consumer of the output. Kafka timestamps are whole milliseconds, so a figure can be up to ${m.resolution_ms} ms too high. ▽ marks a commit that pauses the stream.${sampled}${negative}${missing}`;
}

export function causes(view, seconds) {
  const note = "slow seconds in the last 5 minutes";
  if (!view.causes.length) {
    const measured = seconds.some((s) => s.records);
    fill("causes", head("Causes of tail latency", note), quiet(measured ? "None: no second was three times slower than usual." : "No data yet."));
    return;
  }
  const most = Math.max(...view.causes.map((c) => c.seconds));
  fill("causes", head("Causes of tail latency", note), ...view.causes.map((c) => h("div", { class: "cause", "data-cause": c.id },
    h("div", { class: "top" }, c.title, h("span", {}, `${c.seconds} s, worst ${ms(c.worst_ms)}`)),
    h("div", { class: "meter" }, h("i", { w: `${(100 * c.seconds) / most}%` })),
    h("p", {}, `${c.evidence}, at ${clock(c.at)}. ${c.hint[0].toUpperCase()}${c.hint.slice(1)}`))));
}

export function chain(seconds) {
  const recent = seconds.slice(-30).filter((s) => s.records);
  const records = recent.reduce((n, s) => n + s.records, 0);
  const mean = (field) => recent.reduce((sum, s) => sum + (s[field] || 0) * s.records, 0) / (records || 1);
  if (!records) { fill("chain", head("Where the time goes"), quiet("Available with the first results.")); return; }
  const split = recent.some((s) => s.wait_ms !== undefined);
  const sent = mean("until_sent_ms"), after = Math.max(0, mean("after_sent_ms"));
  const wait = split ? Math.min(sent, mean("wait_ms")) : 0;
  const links = [["l-wait", "waiting in the source topic", wait, split], ["l-pipe", split ? "in the pipeline" : "source topic and pipeline together", sent - wait, true], ["l-sink", "in the sink, until a consumer has it", after, true]];
  const all = links.reduce((sum, [, , value]) => sum + Math.max(0, value), 0) || 1;
  const known = links.filter(([, , , is]) => is);
  fill("chain", head("Where the time goes", "mean of the last 30 s"),
    h("div", { class: "links" }, known.map(([css, , value]) => h("i", { class: css, w: `${(100 * Math.max(0, value)) / all}%` }))),
    h("div", { class: "links-key" }, known.flatMap(([css, name, value]) => [h("i", { class: css }), h("span", {}, name), h("b", {}, `${ms(Math.max(0, value))} · ${((100 * Math.max(0, value)) / all).toFixed(0)} %`)])),
    split ? null : quiet("On a cluster, the time in the source topic is not measured separately."));
}

export function partitions(view, seconds) {
  const last = seconds[seconds.length - 1] || {}, lags = view.status.metrics.lag || {};
  const names = (view.status.about.sources || []).flatMap((s) => Array.from({ length: s.partitions }, (_, p) => `${s.topic}/${p}`));
  if (!names.length) { fill("partitions", head("Partitions"), quiet("Available when the pipeline is running.")); return; }
  const most = Math.max(1, ...Object.values(lags));
  const latency = Object.assign({}, ...seconds.slice(-10).map((s) => s.partitions || {}));
  const rows = names.slice(0, 64).map((name) => {
    const lag = lags[name], starved = view.starved.includes(name), hot = lag > 100 && lag === most && names.length > 1;
    return h("tr", {}, h("td", {}, name, starved ? h("span", { class: "tag" }, "not read") : null),
      h("td", { class: "n" }, lag === undefined ? "–" : count(lag)),
      h("td", { class: "keep" }, h("div", { class: hot ? "lagbar hot" : "lagbar" }, h("i", { w: `${lag ? (100 * lag) / most : 0}%` }))),
      h("td", { class: "n" }, last.in_by?.[name] === undefined ? "–" : `${count(last.in_by[name])}/s`),
      h("td", { class: "n" }, latency[name] ? ms(latency[name][1]) : "–"));
  });
  fill("partitions", head("Partitions", "lag, rate, mean latency"),
    table([["source"], ["lag", "n"], ["", "keep"], ["in", "n"], ["latency", "n"]], rows));
}

export function slo(view) {
  const box = document.getElementById("slo"), s = view.slo;
  box.hidden = !s;
  if (!s) return;
  const burns = [...Object.entries(s.windows), ["all", s.burn]];
  box.replaceChildren(head(`SLO: ${s.text}`, s.records ? `p${s.percentile} is ${ms(s.actual_ms)}: ${s.met ? "met" : "missed"}` : "not measured"),
    h("div", { class: "burns" }, burns.map(([name, rate]) => h("div", {}, h("b", { class: rate > 1 ? "over" : "under" }, `${rate >= 10 ? rate.toFixed(0) : rate.toFixed(1)}×`), h("span", {}, name)))),
    h("p", { class: "foot" }, `Burn rate of the error budget: at 1× the ${(100 - s.percentile).toFixed(2).replace(/\.?0+$/, "")} % of results that may be slower are exactly used up. ${count(s.slow)} of ${count(s.records)} results were slower than ${s.within_ms} ms.`));
}

export function graph(view) {
  const about = view.status.about;
  if (!about.sources) { fill("graph", head("Pipeline"), quiet("Available when the query is planned.")); return; }
  const stages = about.stages || [], slots = stages.reduce((sum, s) => sum + s.partitions, 0);
  const sum = stages.length > 1 ? `${stages.map((s) => s.partitions).join(" + ")} = ${slots}` : `${slots}`;
  const note = stages.length ? `${sum} task slots${about.slots ? ` of ${about.slots}` : ""}${view.status.mode === "real-time" ? ", all at the same time" : ""}` : "";
  const parts = about.sources.map((s) => h("div", { class: "node end" }, h("b", {}, s.topic), h("small", {}, "source topic"), h("small", {}, `${s.partitions} partitions`)));
  for (const stage of stages) {
    parts.push(h("div", { class: stage.inputs.length ? "edge shuffle" : "edge" }, stage.inputs.length ? "shuffle" : "read"));
    parts.push(h("div", { class: "node" }, h("b", {}, stage.source ? "read and transform" : stage.stateful ? "keyed state" : "transform"), h("small", {}, stage.operators.join(" → ")), h("small", { class: "slots" }, `${stage.partitions} slots`)));
  }
  parts.push(h("div", { class: "edge" }, "write"), h("div", { class: "node end" }, h("b", {}, about.sink.name), h("small", {}, about.sink.kind === "kafka" ? "sink topic" : about.sink.kind), h("small", {}, about.delivery)));
  fill("graph", head("Pipeline", note), h("div", { class: "graph" }, parts));
}

export function epochs(view) {
  const real = view.status.mode === "real-time", all = view.status.epochs;
  const midEpoch = all.every((e) => "commit" in e.phases), kind = !real ? "batch" : midEpoch ? "commit" : "epoch";
  const title = real ? (midEpoch ? "Commits" : "Epochs") : "Micro-batches";
  if (!all.length) { fill("epochs", head(title), quiet(real ? `The first commit comes ${view.status.every_ms ? `after ${view.status.every_ms / 1000} s` : "later"}.` : "No batch has ended yet.")); return; }
  const names = [...new Set(all.flatMap((e) => Object.keys(e.phases)))].filter((n) => n !== "triggerExecution" && n !== "addBatch").sort();
  const overhead = (e) => names.reduce((sum, n) => sum + (e.phases[n] || 0), 0);
  const most = Math.max(1, ...all.map(overhead));
  const rows = [...all].reverse().slice(0, 8).map((e) => h("tr", {}, h("td", {}, String(e.batch)), h("td", {}, clock(e.ended)), h("td", { class: "n" }, count(e.rows)),
    h("td", { class: "n" }, ms(e.phases.addBatch)), h("td", { class: "n" }, ms(overhead(e))),
    h("td", { class: "keep" }, h("div", { class: "phases" }, names.map((n, i) => h("i", { class: `ph${i % 6}`, w: `${(100 * (e.phases[n] || 0)) / most}%`, title: `${n} ${e.phases[n] || 0} ms` }))))));
  const paused = all.some((e) => "pause" in e.phases);
  const note = !midEpoch ? "rows wait between epochs" : paused ? "rows wait only during the pause" : "commits do not pause the stream";
  fill("epochs", head(title, note), table([[kind], [midEpoch ? "at" : "ended"], ["rows", "n"], ["run", "n"], ["overhead", "n"], ["", "keep"]], rows),
    h("p", { class: "foot legend phases-key" }, names.map((n, i) => h("span", {}, h("i", { class: `ph${i % 6}` }), n))));
}

export function state(view) {
  const last = view.status.epochs[view.status.epochs.length - 1];
  const jvm = view.status.metrics;
  const executors = Object.entries(jvm.executors || {});
  const heap = executors.length ? [table([["JVM"], ["heap", "n"], ["GC pauses", "n"], ["in total", "n"]], executors.map(([name, own]) => h("tr", {}, h("td", {}, name === "driver" ? name : `executor ${name}`), h("td", { class: "n" }, `${count(own.heap_mb)} MB`), h("td", { class: "n" }, count(own.pauses)), h("td", { class: "n" }, ms(own.paused_ms)))))] : jvm.heap_mb === undefined ? [] : [h("p", { class: "foot" }, `JVM: ${count(jvm.heap_mb)} MB of heap in use, ${count(jvm.pauses)} GC pauses, ${ms(jvm.paused_ms)} in total.`)];
  if (!last) { fill("state", head("State"), quiet("Available after the first commit."), ...heap); return; }
  const s = last.state;
  if (!s.operators) { fill("state", head("State"), quiet("This pipeline has no state."), ...heap); return; }
  fill("state", head("State", `at commit ${last.batch}`), h("div", { class: "facts" },
    h("div", {}, h("b", { class: "big" }, count(s.keys)), h("span", {}, "keys")), h("div", {}, h("b", { class: "big" }, bytes(s.memory_bytes)), h("span", {}, "memory")), h("div", {}, h("b", { class: "big" }, bytes(s.disk_bytes)), h("span", {}, "files"))),
  h("p", { class: "foot" }, `${s.changed === undefined ? "" : `${count(s.changed)} keys changed since the commit before; `}the commit took ${ms(s.commit_ms)}.`), ...heap);
}

export function settings(view) {
  const all = Object.entries(view.status.about.settings || {});
  const more = view.status.checkpoint ? [["checkpoint", view.status.checkpoint]] : [];
  const rows = [...all, ...more].map(([name, value]) => h("tr", {}, h("td", { class: "mono wrap" }, name), h("td", { class: "mono wrap" }, value)));
  fill("settings", head("Effective settings"), all.length ? h("table", { class: "pairs" }, h("tbody", {}, rows)) : quiet("Available when the pipeline is running."));
}

export function notes(view) {
  const { notes: said, failures = [] } = view.status;
  const unsaid = failures.filter(([, reason]) => !said.some(([, text]) => text === reason));
  const all = [...said, ...unsaid].sort(([a], [b]) => b - a);
  fill("notes", head("Messages"), all.length ? h("table", {}, h("tbody", {}, all.map(([t, text]) => h("tr", {}, h("td", {}, clock(t)), h("td", { class: "wrap" }, text))))) : quiet("No messages."));
}

export function modes(views) {
  const fields = [["p50", "p50_ms"], ["p95", "p95_ms"], ["p99", "p99_ms"], ["p99.9", "p999_ms"], ["max", "max_ms"]];
  const best = Object.fromEntries(fields.map(([, f]) => [f, Math.min(...views.map((v) => v.meter.total[f] ?? Infinity))]));
  const rows = views.map((v) => h("tr", {}, h("td", {}, h("b", {}, v.status.mode), ` ${WORDS[v.status.phase]}`),
    fields.map(([, f]) => h("td", { class: v.meter.total[f] === best[f] ? "n best" : "n" }, ms(v.meter.total[f]))), h("td", { class: "n" }, count(v.meter.total.records))));
  return table([["since the start"], ...fields.map(([n]) => [n, "n"]), ["records", "n"]], rows);
}

function recordRows(data, deadLetters) {
  return data.records.map((r) => h("tr", {}, h("td", {}, `${r.partition}/${r.offset}`), h("td", {}, clock(r.time / 1000)),
    deadLetters ? h("td", { class: "wrap" }, h("b", {}, r.reason), r.source ? h("div", { class: "quiet" }, `from ${r.source}`) : null) : h("td", { class: "mono" }, r.key === undefined ? "hidden" : r.key ?? "–"),
    h("td", { class: "value" }, r.value === undefined ? `hidden, ${bytes(r.bytes)}` : r.value ?? "null")));
}

// Topics reuse their elements between updates, so that open ones stay open.
export class Topics {
  constructor(id, { deadLetters }) {
    this.box = document.getElementById(id);
    this.deadLetters = deadLetters;
    this.list = h("div");
    this.nodes = new Map();
    this.note = h("span", { class: "note" });
    this.hint = quiet("");
    this.box.replaceChildren(h("div", { class: "head" }, h("h2", {}, deadLetters ? "Dead letters" : "Topics"), this.note), this.hint, this.list);
  }

  show(topics, trouble, payloads) {
    this.payloads = payloads;
    const shown = topics.filter((t) => t.dead_letters === this.deadLetters);
    const total = shown.reduce((sum, t) => sum + t.records, 0);
    this.note.textContent = this.deadLetters && shown.length ? `${count(total)} in total` : "";
    this.hint.textContent = Object.entries(trouble).map(([at, why]) => `${at}: ${why}`).join(" ") || (shown.length ? "" : this.deadLetters ? "None: every record was processed." : "Available when the pipeline is running.");
    for (const topic of shown) this.update(topic);
    for (const [name, node] of this.nodes) if (!shown.some((t) => t.topic === name)) { node.box.remove(); this.nodes.delete(name); }
  }

  update(topic) {
    let node = this.nodes.get(topic.topic);
    if (!node) {
      node = { name: h("b"), a: h("span", { class: "opt" }), b: h("span"), c: h("span"), parts: h("div", { class: "parts" }), body: h("div", { class: "records" }) };
      node.box = h("details", { "data-topic": topic.topic, ontoggle: () => node.box.open && this.load(topic.topic, node) }, h("summary", {}, node.name, node.a, node.b, node.c), h("div", { class: "records" }, node.parts), node.body);
      this.nodes.set(topic.topic, node);
      this.list.append(node.box);
    }
    node.name.textContent = topic.topic;
    node.a.textContent = this.deadLetters ? "" : `${topic.partitions.length} partition${topic.partitions.length === 1 ? "" : "s"}`;
    node.b.textContent = `${count(topic.records)} records`;
    node.c.textContent = this.deadLetters ? Object.keys(topic.reasons).join(", ") : `${count(topic.rate)}/s`;
    const reasons = Object.entries(topic.reasons).map(([why, n]) => h("span", {}, `${why}: ${count(n)} of the newest`));
    node.parts.replaceChildren(...reasons, ...topic.partitions.map((p) => h("span", {}, `${p.partition}: ${p.begin.toLocaleString("en")} – ${p.end.toLocaleString("en")}, ${count(p.rate)}/s`)));
    if (node.box.open && Date.now() - (node.loaded || 0) > 3000) this.load(topic.topic, node);
  }

  async load(topic, node) {
    node.loaded = Date.now();
    const query = new URLSearchParams({ topic, payloads: this.payloads ? "1" : "0", dead_letters: this.deadLetters ? "1" : "0" });
    const answer = await fetch(`/api/records?${query}`).catch(() => null);
    if (!answer) return;
    const data = await answer.json();
    if (data.problem) { node.body.replaceChildren(quiet(data.problem)); return; }
    const headings = [["position"], ["time"], [this.deadLetters ? "reason" : "key"], ["value"]];
    node.body.replaceChildren(data.records.length ? table(headings, recordRows(data, this.deadLetters)) : quiet("The topic is empty."));
  }
}
