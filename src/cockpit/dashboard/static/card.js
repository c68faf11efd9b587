// A panel on the page: its title, what it says in numbers, its chart, and what can be done with it.

import { Chart } from "./chart.js";
import { join } from "./cursor.js";
import { button, el, icon, write } from "./dom.js";
import { query, set, state } from "./state.js";
import { theme } from "./theme.js";

const LONGEST = 56; // characters of a fact in a card's head; longer ones are for the enlarged panel
const FILES = [["png", "figure"], ["svg", "figure"], ["pdf", "figure"], ["csv", "data"], ["json", "data"]];

export class Card {
  constructor({ large = false, enlarge = true, files = true, runs = null } = {}) {
    this.runs = runs; // the runs it shows where these are not the page's
    this.title = el("button", { class: "title", type: "button", disabled: !enlarge, onclick: () => this.enlarge() });
    this.question = el("span", { class: "question" });
    this.alarm = el("span", { class: "alarm" });
    this.note = el("span", { class: "note" });
    this.reading = el("span", { class: "reading" });
    this.menu = el("details", { class: "menu" },
      el("summary", { title: "Download", "aria-label": "Download" }, icon("download")), el("div", { class: "sheet" }));
    this.menu.addEventListener("toggle", () => this.menu.open && this.offer());
    this.plot = el("div", { class: "plot" });
    this.line = el("div", { class: "cursor", hidden: true });
    this.brush = el("div", { class: "brush", hidden: true });
    this.empty = el("p", { class: "empty", hidden: true });
    this.stage = el("div", { class: "stage" }, this.plot, this.line, this.brush, this.empty);
    this.tools = el("span", { class: "tools" }, files && this.menu, enlarge && button("expand", "Enlarge", () => this.enlarge()));
    this.root = el("article", { class: large ? "card large" : "card", tabindex: enlarge ? "0" : null },
      el("header", {}, this.title, el("span", { class: "middle" }, this.question),
        el("span", { class: "says" }, this.alarm, this.note, this.reading), this.tools),
      this.stage);
    this.enlarges = enlarge;
    this.chart = new Chart(this.plot, large);
    this.leave = join(this);
  }

  show(panel) {
    this.panel = panel;
    this.root.dataset.panel = panel.id;
    this.root.dataset.group = panel.group;
    write(this.title, panel.title);
    write(this.question, panel.question);
    this.warn(panel.alarm ?? "");
    this.tell(panel.note ?? "");
    this.question.title = panel.question;
    this.empty.hidden = !panel.empty;
    write(this.empty, panel.empty ?? "");
    this.plot.hidden = Boolean(panel.empty);
    this.stage.classList.toggle("steps", panel.steps && !panel.empty);
    if (!panel.empty) this.chart.show(panel);
  }

  // The first word always has room; what follows wraps out of sight where it has none.
  warn(alarm) {
    if (this.alarm.title === alarm) return;
    this.alarm.title = alarm;
    const [word, ...rest] = alarm.split(" ");
    this.alarm.replaceChildren(...(alarm ? [el("span", { text: word }), el("span", { text: rest.join(" ") })] : []));
  }

  // The facts one by one: such as do not fit wrap out of sight, and stay in the tooltip and the enlarged panel.
  tell(note) {
    if (this.note.title === note) return;
    this.note.title = this.note.parentNode.title = note;
    const facts = note.split(" · ");
    const long = facts.findIndex((fact) => fact.length > LONGEST);
    this.note.replaceChildren(...facts.slice(0, long < 0 ? facts.length : long).map((fact) => el("span", { text: fact })));
  }

  enlarge() {
    if (this.panel && this.enlarges) set({ panel: this.panel.id, ...(this.runs ? { runs: this.runs } : {}) });
  }

  // Links are made when they are wanted: they hold the view of that moment.
  offer() {
    const [panel, runs, close] = [this.panel.id, this.runs ?? state.runs, () => { this.menu.open = false; }];
    const links = FILES.map(([format, kind]) => {
      const what = query({ panel, format, runs, theme: kind === "figure" && theme() });
      const text = `${kind === "figure" ? "Figure" : "Data"} ${format.toUpperCase()}`;
      return el("a", { href: `api/${kind}?${what}`, download: "", text, onclick: close });
    });
    this.menu.querySelector(".sheet").replaceChildren(...links);
  }

  destroy() {
    this.leave();
    this.chart.destroy();
    this.root.remove();
  }
}

// Keeps a row of cards in step with a list of panels, without rebuilding what is already there.
export class Cards {
  constructor(options = {}) {
    this.options = options;
    this.cards = new Map();
  }

  show(panels, place) {
    const there = new Set(panels.map((panel) => panel.id));
    for (const [id, card] of this.cards) {
      if (!there.has(id)) {
        card.destroy();
        this.cards.delete(id);
      }
    }
    for (const panel of panels) {
      if (!this.cards.has(panel.id)) this.cards.set(panel.id, new Card(this.options));
      const card = this.cards.get(panel.id);
      const parent = place(panel);
      if (card.root.parentNode !== parent) parent.append(card.root);
      card.show(panel);
    }
  }

  clear() {
    this.show([], () => null);
  }
}

document.addEventListener("pointerdown", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
