// All runs in a table that can be sorted: how they ended, what was logged, what they were started with.

import { byId, el, nameIn, write } from "./dom.js";
import { ago, duration, number, whole } from "./format.js";
import { colourOf } from "./reading.js";
import { change, manages, remove } from "./manage.js";
import { showsHidden, toggleRun } from "./runs.js";
import { set, state } from "./state.js";

const SHOWN = 400; // rows; more are sorted, and found by the filter
const FIXED = [
  { key: "name", title: "run", text: true, of: (row) => row.name },
  { key: "state", title: "state", text: true, of: (row) => row.state, cell: stateCell },
  { key: "started", title: "started", of: (row) => row.started, cell: (row, now) => said(row.started === null ? "" : ago(now - row.started), row.started && new Date(row.started * 1000).toLocaleString()) },
  { key: "duration", title: "duration", of: (row) => row.duration, cell: (row) => said(duration(row.duration)) },
  { key: "step", title: "steps", of: (row) => row.step, cell: (row) => said(row.steps ? `${whole(row.step)} / ${whole(row.steps)}` : whole(row.step)) },
];

export class Table {
  constructor(root) {
    this.root = root;
    this.every = el("input", { type: "checkbox", onchange: () => this.draw() });
    this.said = el("span", { class: "of" });
    const chosen = () => this.rows.filter((row) => state.runs.includes(row.id));
    this.hides = el("button", { type: "button", class: "plain", onclick: () => change("hide", chosen()) });
    this.tools = el("span", { class: "choices" }, this.hides, el("button", { type: "button", class: "plain danger", text: "Delete \u2026", onclick: () => remove(chosen()) }));
    this.body = el("div", { class: "scroll table-scroll", tabindex: "0" });
    root.append(el("div", { class: "bar" },
      el("label", { class: "field", title: "Also what is the same in all runs" }, this.every, el("span", { text: "all settings" })), this.said, manages && this.tools), this.body);
    byId("filter").addEventListener("input", () => state.tab === "table" && this.draw());
    this.rows = [];
  }

  path() {
    return "api/table";
  }

  show(answer) {
    [this.rows, this.now, this.waiting] = [answer.rows, answer.now, answer.waiting];
    this.draw();
    if (answer.waiting) setTimeout(() => window.dispatchEvent(new Event("cockpit-refresh")), 50);
  }

  draw() {
    const wanted = byId("filter").value.trim().toLowerCase();
    const rows = this.rows.filter((row) => (!row.hidden || showsHidden()) && `${row.name} ${row.id} ${row.state}`.toLowerCase().includes(wanted));
    const columns = [...FIXED, ...metrics(this.rows), ...settings(this.rows, this.every.checked)];
    const sort = columns.find((column) => column.key === state.sort.replace(/^-/, "")) ?? FIXED[2];
    const down = state.sort === "" || state.sort.startsWith("-");
    const sorted = rows.toSorted((one, other) => order(sort.of(one), sort.of(other), down));
    write(this.said, [`${rows.length} run${rows.length === 1 ? "" : "s"}`, this.waiting ? `${this.waiting} still being read` : "",
      sorted.length > SHOWN ? `the first ${SHOWN} are shown: filter to find others` : ""].filter(Boolean).join(" \u00b7 "));
    const checked = this.rows.filter((row) => state.runs.includes(row.id)).length;
    this.tools.hidden = !checked;
    write(this.hides, `Hide ${checked === 1 ? "the checked run" : `${checked} checked runs`}`);
    const head = el("tr", {}, el("th", { class: "check" }), ...columns.map((column) => this.heading(column, column.key === sort.key, down)));
    const [top, left] = [this.body.scrollTop, this.body.scrollLeft];
    this.body.replaceChildren(el("table", { class: "facts-table runs-table" },
      el("thead", {}, head), el("tbody", {}, ...sorted.slice(0, SHOWN).map((row) => this.row(row, columns)))));
    [this.body.scrollTop, this.body.scrollLeft] = [top, left];
  }

  heading(column, chosen, down) {
    const sign = chosen ? (down ? " \u2193" : " \u2191") : "";
    const click = () => set({ sort: chosen && down ? column.key : chosen ? `-${column.key}` : column.text || column.falls ? column.key : `-${column.key}` });
    return el("th", { scope: "col", class: column.text ? column.key : "number", "aria-sort": chosen ? (down ? "descending" : "ascending") : null },
      el("button", { type: "button", onclick: click, title: column.hint ?? `Sort by ${column.title}` },
        column.over && el("small", { text: column.over }), el("span", { text: column.title + sign })));
  }

  row(row, columns) {
    const check = el("input", { type: "checkbox", checked: state.runs.includes(row.id), "aria-label": `Show ${row.name}`, onchange: () => toggleRun(row.id) });
    const open = el("button", { type: "button", class: "open-run", title: row.id, onclick: () => set({ runs: [row.id], tab: "deck", step: null }) }, named(row.name));
    const root = el("tr", { class: state.runs.includes(row.id) ? "chosen" : null, data: { run: row.id } }, el("td", { class: "check" }, check),
      el("th", { scope: "row", class: "name" }, open), ...columns.slice(1).map((column) => column.cell?.(row, this.now) ?? plain(column.of(row))));
    root.style.setProperty("--run", state.runs.includes(row.id) ? colourOf(row) : row.colour);
    return root;
  }

  forget() {}
}

function named(name) {
  const node = el("bdi", { class: "run-name" });
  nameIn(node, name);
  return node;
}

const said = (text, title = null) => el("td", { class: "number", text, title });

function plain(value) {
  if (typeof value === "number") return said(number(value));
  const odd = ["NaN", "inf", "-inf"].includes(value);
  return el("td", { class: odd ? "number bad" : "", text: value === null || value === undefined ? "" : String(value), title: typeof value === "string" && value.length > 24 ? value : null });
}

function stateCell(row) {
  if (row.broken) return el("td", { class: "bad", text: row.broken, title: `${row.state}; ${row.broken}` });
  return el("td", { class: row.state === "crashed" ? "bad" : "", text: row.problem ? "unreadable" : row.state, title: row.problem ?? null });
}

// Last and best of everything that was logged, the loss first.
function metrics(rows) {
  const found = new Map();
  for (const row of rows) for (const [name, { falls }] of Object.entries(row.metrics ?? {})) found.set(name, falls);
  return [...found].flatMap(([name, falls]) => [
    { key: `${name}.last`, over: name, title: "last", falls, of: (row) => row.metrics?.[name]?.last },
    { key: `${name}.best`, over: name, title: falls ? "lowest" : "highest", falls, of: (row) => row.metrics?.[name]?.best,
      cell: (row) => el("td", { class: "number", text: number(row.metrics?.[name]?.best), title: row.metrics?.[name]?.at === undefined || row.metrics?.[name]?.at === null ? null : `at step ${whole(row.metrics[name].at)}` }) },
  ]);
}

// What the runs were started with: what differs between them, or all of it.
function settings(rows, every) {
  const found = new Map();
  for (const row of rows) for (const [key, value] of Object.entries(row.settings ?? {})) {
    if (!found.has(key)) found.set(key, { values: new Set(), count: 0, text: false });
    const one = found.get(key);
    one.values.add(String(value));
    one.count += 1;
    one.text ||= typeof value !== "number";
  }
  const read = rows.filter((row) => row.settings).length;
  return [...found].filter(([, { values, count }]) => every || values.size > 1 || (count < read && read > 1))
    .map(([key, { text }]) => ({ key: `set.${key}`, title: key, text, of: (row) => row.settings?.[key] }));
}

// Numbers by size, texts by the alphabet; what is not there, or is no number, comes last.
function order(one, other, down) {
  const [a, b] = [rank(one), rank(other)];
  if (a !== b) return a - b;
  if (a === 2) return 0;
  const way = typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), undefined, { numeric: true });
  return down ? -way : way;
}

const rank = (value) => (value === null || value === undefined || value === "" ? 2 : ["NaN", "inf", "-inf"].includes(value) ? 1 : 0);
