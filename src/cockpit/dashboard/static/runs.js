// The list of runs: state, last loss, sparkline, check boxes to overlay, a filter; a colour stays with its run.

import { byId, el, nameIn, svgElement, write } from "./dom.js";
import { ago, number, whole } from "./format.js";
import { colourOf } from "./reading.js";
import { manages, offer } from "./manage.js";
import { habit, remember, set, state } from "./state.js";

const rows = new Map();
let runs = [];
let all = habit("hidden", false); // also those that were hidden
let now = 0;

export function showRuns(answer) {
  runs = answer.runs;
  now = answer.now;
  draw();
}

export const showsHidden = () => all;

export function toggleHidden() {
  all = !all;
  remember({ hidden: all });
  draw();
}

export function draw() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const there = new Set(runs.map((run) => run.id));
  for (const [id, row] of rows) if (!there.has(id)) {
    row.root.remove();
    rows.delete(id);
  }
  const list = byId("run-list");
  const names = new Map();
  for (const { name } of runs) names.set(name, (names.get(name) ?? 0) + 1);
  runs.forEach((run, place) => {
    if (!rows.has(run.id)) rows.set(run.id, makeRow(run.id));
    const row = rows.get(run.id);
    if (list.children[place] !== row.root) list.insertBefore(row.root, list.children[place] ?? null);
    const concealed = run.hidden && !all && !state.runs.includes(run.id);
    row.root.hidden = concealed || (wanted !== "" && !`${run.name} ${run.id} ${run.state}`.toLowerCase().includes(wanted));
    row.root.classList.toggle("concealed", run.hidden);
    fill(row, run, names.get(run.name) > 1);
  });
  const shown = runs.filter((run) => !rows.get(run.id).root.hidden).length;
  write(byId("run-count"), shown === runs.length ? `${runs.length}` : `${shown} of ${runs.length}`);
  byId("no-match").hidden = !(runs.length && !shown && wanted);
  const hidden = runs.filter((run) => run.hidden).length;
  byId("hidden-runs").hidden = !hidden;
  write(byId("hidden-runs"), all ? `leave out ${hidden} hidden run${hidden === 1 ? "" : "s"}` : `${hidden} hidden run${hidden === 1 ? "" : "s"}`);
}

function makeRow(id) {
  const row = {
    check: el("input", { type: "checkbox", onchange: () => toggleRun(id) }),
    name: el("bdi", { class: "run-name" }), where: el("bdi", { class: "where", hidden: true }), dot: el("i", { class: "dot" }), when: el("span", { class: "when" }),
    loss: el("span", { class: "loss" }), step: el("span", { class: "step" }),
    spark: svgElement("svg", { class: "spark", viewBox: "0 0 60 18", preserveAspectRatio: "none", "aria-hidden": "true" }),
    lamps: el("span", { class: "lamps" }),
  };
  row.line = svgElement("polyline", { fill: "none", "stroke-width": "1.4", "vector-effect": "non-scaling-stroke" });
  row.spark.append(row.line);
  row.pick = el("button", { type: "button", class: "pick", onclick: () => choose(id) },
    el("span", { class: "first" }, row.dot, row.name, row.lamps), row.where,
    el("span", { class: "second" }, row.loss, row.spark, row.step, row.when));
  row.more = el("button", { type: "button", class: "icon-button more-run", title: "Rename, hide, delete", "aria-label": "Rename, hide or delete", "aria-haspopup": "menu", text: "\u22ef",
    onclick: () => offer(runs.find((run) => run.id === id), row.more) });
  row.root = el("li", { class: "run", data: { run: id } }, row.check, row.pick, manages && row.more);
  return row;
}

function fill(row, run, shared) {
  const place = state.runs.indexOf(run.id);
  row.root.classList.toggle("chosen", place >= 0);
  row.root.classList.toggle("main", place === 0);
  const colour = place >= 0 ? colourOf(run) : run.colour;
  row.root.style.setProperty("--run", colour);
  row.check.checked = place >= 0;
  row.check.setAttribute("aria-label", `Show ${run.name}${shared ? `, ${run.id}` : ""}`);
  row.pick.setAttribute("aria-current", place === 0 ? "true" : "false");
  row.pick.title = `${run.name}\n${run.id}\n${run.state}${run.reason ? `: ${run.reason}` : ""}`;
  nameIn(row.name, run.name);
  row.where.hidden = !shared; // two runs of one name differ by their path
  write(row.where, shared ? run.id : "");
  row.dot.dataset.state = run.state;
  row.dot.title = run.state;
  write(row.loss, number(run.loss, 3));
  row.loss.classList.toggle("bad", typeof run.loss === "string"); // NaN or inf
  write(row.step, run.step === null ? "no step" : `${whole(run.step)}`);
  write(row.when, run.state === "running" ? "running" : run.state === "finished" ? ago(now - run.updated) : run.state);
  row.line.setAttribute("stroke", colour);
  row.line.setAttribute("points", sparkline(run.losses));
}

// Linear or, for a loss that falls by decades, logarithmic.
function sparkline(values) {
  const known = (values ?? []).filter((value) => value !== null);
  if (known.length < 2) return "";
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const log = low > 0 && high / low > 50;
  const lift = (value) => (log ? Math.log(value / low) / Math.log(high / low) : high > low ? (value - low) / (high - low) : 0.5);
  const width = 60 / (known.length - 1);
  return known.map((value, place) => `${(place * width).toFixed(1)},${(16.5 - 15 * lift(value)).toFixed(1)}`).join(" ");
}

// Choosing a run shows it alone; one that is overlaid already becomes the first.
function choose(id) {
  set({ runs: state.runs.includes(id) ? [id, ...state.runs.filter((other) => other !== id)] : [id], step: null });
  document.body.classList.remove("drawer");
}

export function toggleRun(id) {
  const rest = state.runs.filter((other) => other !== id);
  if (rest.length === state.runs.length) set({ runs: [...state.runs, id] });
  else if (rest.length) set({ runs: rest });
  else draw(); // one run is always shown
}

export function neighbour(direction) {
  const visible = runs.filter((run) => !rows.get(run.id)?.root.hidden);
  const at = visible.findIndex((run) => run.id === state.runs[0]);
  const next = visible[at + direction];
  if (next) set({ runs: [next.id], step: null });
}
