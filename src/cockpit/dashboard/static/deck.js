// The flight deck: three columns with a question each, the performance row below, a second page under the fold.

import { Cards } from "./card.js";
import { el } from "./dom.js";
import { Known } from "./known.js";
import { query, state } from "./state.js";

const ROWS = 4; // of a group that fit on one screen
const COLUMNS = ["step size", "gradients", "curvature"];

export class Deck {
  constructor(root) {
    this.root = root;
    this.known = new Known();
    this.cards = new Cards();
    this.places = {};
    this.deep = false;
  }

  path() {
    return state.runs.length ? `api/deck?${query({ known: this.known.marks, more: this.deep ? "1" : "" })}` : null;
  }

  show(answer) {
    if (!this.root.firstChild) this.build(answer.groups);
    const runs = answer.runs.map((run) => run.id).join();
    const panels = this.known.merge(answer.panels, !this.deep && runs === this.runs); // out of sight, it stays as it was
    this.runs = runs;
    const page = onePage(panels);
    this.cards.show(panels, (panel) => this.places[page.has(panel) ? panel.group : "more"]);
  }

  build(groups) {
    const column = (name) => {
      this.places[name] = el("div", { class: "column" });
      return el("section", { class: "group", data: { group: name }, "aria-label": name },
        el("h2", {}, el("span", { text: name }), el("em", { text: groups?.[name] ?? "" })), this.places[name]);
    };
    this.places.performance = el("section", { class: "performance", data: { group: "performance" }, "aria-label": "performance" });
    this.places.more = el("div", { class: "grid" });
    this.more = el("section", { class: "more", "aria-label": "more instruments" },
      el("h2", {}, el("span", { text: "more instruments" })), this.places.more);
    new IntersectionObserver((seen) => this.look(seen.at(-1).isIntersecting)).observe(this.places.more);
    this.root.append(el("div", { class: "deck" }, ...COLUMNS.map(column), this.places.performance), this.more);
  }

  // The second page is fetched and kept up to date while it is in sight.
  look(deep) {
    if (deep === this.deep) return;
    this.deep = deep;
    if (deep) window.dispatchEvent(new Event("cockpit-refresh"));
  }

  forget() {
    this.known.forget();
  }
}

// The panels of the first page.
function onePage(panels) {
  const count = {};
  return new Set(panels.filter((panel) => {
    count[panel.group] = (count[panel.group] ?? 0) + 1;
    return panel.group !== "more" && count[panel.group] <= ROWS;
  }));
}
