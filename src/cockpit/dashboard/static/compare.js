// Runs against each other: what differs between them, their lines in one picture, or each in a column of its own.

import { Cards } from "./card.js";
import { el, nameIn, write } from "./dom.js";
import { number } from "./format.js";
import { Known } from "./known.js";
import { ask } from "./net.js";
import { query, set, state } from "./state.js";

const NOT_FINITE = ["NaN", "inf", "-inf"];
const COLUMNS = 6; // runs that fit beside each other

export class Compare {
  constructor(root) {
    this.overlay = { known: new Known(), cards: new Cards() };
    this.columns = new Map(); // run: its column
    this.modes = [["overlay", "overlay"], ["side", "side by side"]].map(([value, text]) =>
      el("button", { type: "button", value, text, onclick: () => set({ mode: value }) }));
    this.which = el("select", { "aria-label": "Panels", onchange: () => this.filter() }, everything());
    this.hint = el("p", { class: "hint" });
    this.table = el("table", { class: "facts-table" });
    this.grid = el("div", { class: "grid" });
    this.sides = el("div", { class: "sides" });
    const modes = el("div", { class: "segments", role: "group", "aria-label": "How to compare" }, ...this.modes);
    const differ = el("details", { class: "differ", open: true },
      el("summary", { text: "what differs" }), el("div", { class: "scroll" }, this.table));
    root.append(el("div", { class: "bar" }, modes, this.which, this.hint), differ, this.grid, this.sides);
  }

  path() {
    return state.runs.length ? `api/compare?${query()}` : null;
  }

  async show(answer, signal) {
    for (const mode of this.modes) mode.setAttribute("aria-pressed", String(mode.value === state.mode));
    write(this.hint, hint(state.runs.length));
    this.fillTable(answer);
    this.grid.hidden = state.mode !== "overlay";
    this.sides.hidden = state.mode === "overlay";
    if (state.mode === "overlay") await this.showOverlay(signal);
    else await this.showSides(answer.runs.slice(0, COLUMNS), signal);
  }

  async showOverlay(signal) {
    const { known, cards } = this.overlay;
    const panels = known.merge((await ask(`api/deck?${query({ known: known.marks })}`, signal)).panels);
    this.offer(panels);
    cards.show(this.wanted(panels), () => this.grid);
  }

  async showSides(heads, signal) {
    for (const [id, column] of this.columns) if (!heads.some((head) => head.id === id)) this.drop(id, column);
    const columns = heads.map((head) => this.column(head, heads));
    const known = columns.map((column, place) => column.known.marksOf(place)).filter(Boolean).join(",");
    const answer = await ask(`api/sides?${query({ runs: heads.map((head) => head.id), known })}`, signal);
    const all = columns.map((column, place) => [column, column.known.merge(answer.columns[place].panels)]);
    this.offer(all[0]?.[1] ?? []);
    const limits = common(all.map(([, panels]) => panels));
    for (const [column, panels] of all) {
      const same = this.wanted(panels).map((panel) => ({ ...panel, params: { ...panel.params, ...limits.get(panel.id) } }));
      this.sides.append(column.root);
      column.cards.show(same, () => column.body);
    }
  }

  column(head, heads) {
    if (!this.columns.has(head.id)) {
      const body = el("div", { class: "column" });
      const title = el("h2");
      const root = el("section", { class: "side" }, title, body);
      this.columns.set(head.id, { known: new Known(), cards: new Cards({ runs: [head.id] }), body, title, root });
    }
    const column = this.columns.get(head.id);
    write(column.title, shared(heads, head) ? `${head.name} (${head.id})` : head.name);
    column.root.style.setProperty("--run", head.colour);
    return column;
  }

  drop(id, column) {
    column.cards.clear();
    column.root.remove();
    this.columns.delete(id);
  }

  offer(panels) {
    this.panels = panels;
    if (this.which.childElementCount === panels.length + 1) return;
    const chosen = this.which.value;
    this.which.replaceChildren(everything(), ...panels.map(({ id, title }) => el("option", { value: id, text: title })));
    this.which.value = panels.some((panel) => panel.id === chosen) ? chosen : "";
  }

  // What everybody watches comes first.
  wanted(panels) {
    const found = panels.filter((panel) => (this.which.value ? panel.id === this.which.value : !panel.empty));
    const later = (panel) => Number(panel.group !== "performance");
    return found.sort((one, other) => later(one) - later(other));
  }

  filter() {
    window.dispatchEvent(new Event("cockpit-refresh"));
  }

  fillTable(answer) {
    const head = el("tr", {}, el("th"), ...answer.runs.map((run) => {
      const name = el("bdi", { class: "run-name" });
      nameIn(name, run.name);
      const title = el("th", { scope: "col" }, name, shared(answer.runs, run) && el("bdi", { class: "where", text: run.id }));
      title.style.setProperty("--run", run.colour);
      return title;
    }));
    const rows = answer.rows.map((row) => el("tr", {}, el("th", { scope: "row", text: row.key }),
      ...row.values.map((value) => cell(value))));
    this.table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
  }

  forget() {
    this.overlay.known.forget();
    for (const column of this.columns.values()) column.known.forget();
  }
}

// Whether another run has the same name.
const shared = (heads, { name }) => heads.filter((other) => other.name === name).length > 1;

const cell = (value) => (typeof value === "number"
  ? el("td", { class: "whole", text: number(value) }) : el("td", { class: NOT_FINITE.includes(value) ? "whole bad" : "", text: value ?? "–" }));

const everything = () => el("option", { value: "", text: "all panels" });

function hint(count) {
  if (count < 2) return "Check two or more runs in the list to compare them.";
  return state.mode === "side" && count > COLUMNS ? `The first ${COLUMNS} of ${count} chosen runs.` : "";
}

// Charts of one instrument get the same vertical axis, else the eye compares the wrong thing.
function common(columns) {
  const limits = new Map();
  for (const panel of columns.flat()) {
    if (panel.params?.ylo === undefined) continue;
    const { ylo, yhi, yticks } = panel.params;
    const kind = panel.marks.split(".")[0];
    const old = limits.get(panel.id);
    if (old && old.kind !== kind) limits.set(panel.id, { kind, broken: true });
    else if (!old) limits.set(panel.id, { kind, ylo, yhi, yticks });
    else if (!old.broken) {
      const wider = yhi - ylo > old.yhi - old.ylo ? yticks : old.yticks;
      limits.set(panel.id, { kind, ylo: Math.min(ylo, old.ylo), yhi: Math.max(yhi, old.yhi), yticks: wider });
    }
  }
  return new Map([...limits].filter(([, found]) => !found.broken).map(([id, { ylo, yhi, yticks }]) => [id, { ylo, yhi, yticks }]));
}
