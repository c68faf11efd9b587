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
  }

  path() {
    return state.runs.length ? `/api/deck?${query({ known: this.known.marks })}` : null;
  }

  show(answer) {
    if (!this.root.firstChild) this.build(answer.groups);
    const panels = this.known.merge(answer.panels);
    const page = onePage(panels);
    this.cards.show(panels, (panel) => this.places[page.has(panel) ? panel.group : "more"]);
    this.more.hidden = !page.size === panels.length;
  }

  build(groups) {
    const column = (name) => {
      this.places[name] = el("div", { class: "column" });
      return el("section", { class: "group", data: { group: name }, "aria-label": name },
        el("h2", {}, el("span", { text: name }), el("em", { text: groups?.[name] ?? "" })), this.places[name]);
    };
    this.places.performance = el("section", { class: "performance", data: { group: "performance" }, "aria-label": "performance" });
    this.places.more = el("div", { class: "grid" });
    this.more = el("section", { class: "more", "aria-label": "more instruments" }, el("h2", {}, el("span", { text: "more instruments" })), this.places.more);
    this.root.append(el("div", { class: "deck" }, ...COLUMNS.map(column), this.places.performance), this.more);
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
