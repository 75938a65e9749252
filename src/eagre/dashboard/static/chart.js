// Time charts in SVG: a few lines, a log or linear axis, and marks for events.
const NS = "http://www.w3.org/2000/svg";
const PAD = { left: 52, right: 10, top: 16, bottom: 22 };

export function svg(tag, attributes = {}, text) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

export function ms(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value >= 100 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

export function count(value) {
  if (value === undefined || value === null) return "–";
  if (value >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (value >= 1e5) return `${(value / 1e3).toFixed(0)} k`;
  return Math.round(value).toLocaleString("en");
}

export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = low; power <= high; power++) {
    ticks.push([10 ** power, true]);
    if (power < high) ticks.push([2 * 10 ** power, false], [5 * 10 ** power, false]);
  }
  return ticks;
}

function logLabel(value) {
  if (value >= 1000) return `${value / 1000} s`;
  return `${value} ms`;
}

function linearTicks(high) {
  const raw = high / 4, power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) || 1;
  const ticks = [];
  for (let at = 0; at <= high + step / 2; at += step) ticks.push(at);
  return ticks;
}

// Draws lines ({field, css}) of seconds ({t, ...}) into a box, with a tooltip for the second under the pointer.
export class Chart {
  constructor(box, { lines, log = false, band = null, tip = null, empty = "" }) {
    Object.assign(this, { box, lines, log, band, tip, emptyText: empty, data: null });
    this.svg = svg("svg", { role: "img" });
    this.tipBox = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    this.empty = Object.assign(document.createElement("div"), { className: "empty" });
    box.replaceChildren(this.svg, this.tipBox, this.empty);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.leave());
    new ResizeObserver(() => this.data && this.draw(this.data)).observe(box);
  }

  draw(data) {
    this.data = data;
    const width = this.box.clientWidth, height = this.box.clientHeight;
    if (!width || !height) return;
    const { from, to, seconds } = data;
    const fields = this.lines.map((line) => line.field);
    const shown = seconds.filter((s) => s.t >= from && s.t <= to);
    const values = shown.flatMap((s) => fields.map((f) => s[f])).filter((v) => v !== undefined && v !== null);
    this.empty.textContent = values.length ? "" : data.empty || this.emptyText;
    const x = (t) => PAD.left + ((t - from) / (to - from)) * (width - PAD.left - PAD.right);
    const y = this.scale(values, height, data);
    Object.assign(this, { x, y, shown, width, height });
    const parts = [...this.axes(width, height, from, to), ...this.marks(data, height)];
    if (this.band) parts.push(svg("path", { class: "band", d: this.area(shown, ...this.band) }));
    for (const line of this.lines) parts.push(svg("path", { class: `series ${line.css}`, d: this.path(shown, line.field) }));
    this.cursor = svg("line", { class: "cursor", y1: PAD.top, y2: height - PAD.bottom, visibility: "hidden" });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("aria-label", data.label || "");
    this.svg.replaceChildren(...parts, this.cursor);
  }

  scale(values, height, data) {
    const inner = height - PAD.top - PAD.bottom;
    if (!this.log) {
      const ticks = linearTicks(Math.max(10, ...values));
      const top = ticks[ticks.length - 1];
      this.ticks = ticks.map((v) => [v, true, count(v)]);
      return (v) => PAD.top + inner * (1 - v / top);
    }
    const least = Math.max(0.5, Math.min(1, ...values)), most = Math.max(100, data.target || 0, data.most || 0, ...values);
    const low = Math.floor(Math.log10(least)), high = Math.max(low + 2, Math.ceil(Math.log10(most)));
    this.ticks = logTicks(low, high).map(([v, major]) => [v, major, major ? logLabel(v) : ""]);
    return (v) => PAD.top + inner * (1 - (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low));
  }

  axes(width, height, from, to) {
    const parts = [];
    for (const [value, major, label] of this.ticks) {
      const at = this.scaleAt(value, height);
      parts.push(svg("line", { class: major ? "grid" : "grid minor", x1: PAD.left, x2: width - PAD.right, y1: at, y2: at }));
      if (label) parts.push(svg("text", { x: PAD.left - 8, y: at + 4, "text-anchor": "end" }, label));
    }
    const most = Math.max(2, Math.floor(width / 120));
    const step = [10, 15, 30, 60, 120, 300, 600].find((s) => (to - from) / s <= most) || 900;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const at = PAD.left + ((t - from) / (to - from)) * (width - PAD.left - PAD.right);
      if (at < PAD.left + 20 || at > width - 24) continue;
      parts.push(svg("text", { x: at, y: height - 6, "text-anchor": "middle" }, step >= 60 ? clock(t).slice(0, 5) : clock(t)));
    }
    return parts;
  }

  scaleAt(value, height) {
    return this.y ? this.y(value) : this.scale([], height, {})(value);
  }

  marks({ marks = [], from, to, target }, height) {
    const parts = [], bottom = height - PAD.bottom;
    let stalled = null;
    for (const mark of [...marks].sort((a, b) => a.t - b.t)) {
      if (mark.kind === "stalled") stalled = mark.t;
      if (mark.kind === "flows" && stalled !== null) { parts.push(this.stall(stalled, mark.t, from, to, bottom)); stalled = null; }
      if (mark.t < from || mark.t > to || !["epoch", "restart", "start"].includes(mark.kind)) continue;
      const at = this.x(mark.t), line = svg("line", { class: mark.kind, x1: at, x2: at, y1: PAD.top, y2: bottom });
      line.append(svg("title", {}, `${mark.text}, ${clock(mark.t)}`));
      parts.push(line);
      if (mark.kind === "epoch") parts.push(svg("path", { class: "epoch-cap", d: `M${at - 4} ${PAD.top - 7}h8l-4 6z` }));
      else parts.push(svg("text", { class: `${mark.kind}-text`, x: Math.min(at + 4, this.box.clientWidth - 76), y: PAD.top + 10 }, mark.text));
    }
    if (stalled !== null) parts.push(this.stall(stalled, to, from, to, bottom));
    if (target) parts.push(svg("line", { class: "target", x1: PAD.left, x2: this.box.clientWidth - PAD.right, y1: this.y(target), y2: this.y(target) }));
    return parts;
  }

  stall(begin, end, from, to, bottom) {
    const left = this.x(Math.max(begin, from)), right = this.x(Math.min(Math.max(end, from), to));
    return svg("rect", { class: "stall", x: left, y: PAD.top, width: Math.max(0, right - left), height: bottom - PAD.top });
  }

  runs(shown, field) {
    const runs = [];
    let last = null;
    for (const s of shown) {
      if (s[field] === undefined || s[field] === null) { last = null; continue; }
      if (last === null || s.t - last > 3) runs.push([]);
      runs[runs.length - 1].push(s);
      last = s.t;
    }
    return runs;
  }

  path(shown, field) {
    return this.runs(shown, field).map((run) => (run.length === 1
      ? `M${this.x(run[0].t) - 2} ${this.y(run[0][field])}h4`
      : "M" + run.map((s) => `${this.x(s.t).toFixed(1)} ${this.y(s[field]).toFixed(1)}`).join("L"))).join("");
  }

  area(shown, low, high) {
    return this.runs(shown, high).filter((run) => run.length > 1).map((run) => {
      const upper = run.map((s) => `${this.x(s.t).toFixed(1)} ${this.y(s[high]).toFixed(1)}`);
      const lower = [...run].reverse().map((s) => `${this.x(s.t).toFixed(1)} ${this.y(s[low]).toFixed(1)}`);
      return `M${upper.join("L")}L${lower.join("L")}Z`;
    }).join("");
  }

  point(event) {
    if (!this.shown?.length || !this.tip) return;
    const box = this.svg.getBoundingClientRect();
    const at = event.clientX - box.left;
    const nearest = this.shown.reduce((a, b) => (Math.abs(this.x(b.t) - at) < Math.abs(this.x(a.t) - at) ? b : a));
    const line = this.x(nearest.t);
    this.cursor.setAttribute("x1", line);
    this.cursor.setAttribute("x2", line);
    this.cursor.setAttribute("visibility", "visible");
    const near = (this.data.marks || []).filter((m) => Math.abs(this.x(m.t) - line) < 6).map((m) => [m.text, ""]);
    const title = document.createElement("b");
    title.textContent = clock(nearest.t);
    const rows = [...this.tip(nearest), ...near].map(([name, value]) => {
      const row = document.createElement("div");
      for (const text of [name, value]) row.append(Object.assign(document.createElement("span"), { textContent: text }));
      return row;
    });
    this.tipBox.replaceChildren(title, ...rows);
    this.tipBox.hidden = false;
    const left = line + 14 + this.tipBox.offsetWidth > this.width ? line - 14 - this.tipBox.offsetWidth : line + 14;
    this.tipBox.style.left = `${Math.max(0, left)}px`;
  }

  leave() {
    this.tipBox.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }
}
