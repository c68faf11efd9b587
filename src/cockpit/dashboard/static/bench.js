// Benchmark results below the folder: what was reached, how fast, with which settings, beside what was published.

import { Cards } from "./card.js";
import { el } from "./dom.js";
import { Known } from "./known.js";
import { query, set, state } from "./state.js";

export class Bench {
  constructor(root) {
    this.root = root;
    this.known = new Known();
    this.cards = new Cards({ enlarge: false, files: false });
    this.choice = el("select", { "aria-label": "Problem", onchange: () => set({ problem: this.choice.value }) });
    this.of = el("span", { class: "of" });
    this.bar = el("div", { class: "bar", hidden: true }, el("label", { class: "field" }, el("span", { text: "problem" }), this.choice), this.of);
    this.table = el("div", { class: "scroll" });
    this.grid = el("div", { class: "grid wide" });
    this.nothing = el("div", { class: "blank", hidden: true },
      el("h2", { text: "No benchmark results here yet" }),
      el("p", { text: "Train one of the standard problems; it appears here after its first epoch:" }),
      el("pre", { text: "cockpit bench run quadratic_deep --optimizer Adam --lr 1e-2 --seeds 3" }),
      el("p", { text: "Results of DeepOBS come in by `cockpit bench import`." }));
    root.append(this.bar, this.nothing, this.table, this.grid);
  }

  path() {
    return `api/bench?${query({ runs: [], problem: state.problem, known: this.known.marks })}`;
  }

  show(answer) {
    const names = answer.problems;
    this.nothing.hidden = names.length > 0;
    this.bar.hidden = names.length === 0;
    if (this.choice.childElementCount !== names.length || this.choice.value !== answer.problem) {
      this.choice.replaceChildren(...names.map((name) => el("option", { value: name, text: name })));
      this.choice.value = answer.problem;
    }
    this.of.textContent = answer.said;
    this.table.replaceChildren(...(answer.rows.length ? [sheet(answer)] : []));
    this.cards.show(this.known.merge(answer.panels), () => this.grid);
  }

  forget() {
    this.known.forget();
  }
}

function sheet({ titles, rows }) {
  const ends = (place) => place === 0 || place === titles.length - 1; // the optimizer and its settings are words
  const cell = (kind) => (text, place) => el(kind, { class: ends(place) ? null : "number", scope: kind === "th" ? "col" : null, text });
  return el("table", { class: "facts-table results" },
    el("thead", {}, el("tr", {}, ...titles.map(cell("th")))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell("td"))))));
}
