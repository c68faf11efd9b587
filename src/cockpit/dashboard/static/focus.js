// One panel enlarged: more points, how to read it, and the same quantity layer by layer beside it.

import { Card } from "./card.js";
import { button, byId, el, write } from "./dom.js";
import { Known } from "./known.js";
import { Poll } from "./net.js";
import { query, set, state } from "./state.js";

const POINTS = 2500;

export class Focus {
  constructor(fail, onHead) {
    this.dialog = byId("focus");
    this.known = new Known();
    this.onHead = onHead;
    this.poll = new Poll(() => this.path(), (answer) => this.show(answer), (error) => {
      if (error.status === 400 && !this.card?.panel) set({ panel: null }, { replace: true }); // no such panel
      fail(error);
    });
    this.dialog.addEventListener("close", () => set({ panel: null }));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.card = this.beside = null;
  }

  get open() {
    return this.dialog.open;
  }

  path() {
    if (!state.panel || !state.runs.length) return null;
    return `api/panel?${query({ panel: state.panel, points: POINTS, known: this.known.marks })}`;
  }

  // Follow the address: open, change or close.
  follow() {
    if (!state.panel) {
      if (this.dialog.open) this.dialog.close();
      this.clear();
    } else {
      if (this.shown !== state.panel) this.build();
      if (!this.dialog.open) this.dialog.showModal();
      this.poll.refresh({ changed: true });
    }
  }

  build() {
    this.clear();
    this.shown = state.panel;
    this.card = new Card({ large: true, enlarge: false });
    this.beside = new Card({ enlarge: false });
    this.beside.root.hidden = true;
    this.question = el("h3", { class: "asks" });
    this.aid = el("div", { class: "aid" });
    this.note = el("p", { class: "facts" });
    const shut = button("close", "Close (Esc)", () => this.dialog.close(), { class: "icon-button shut" });
    const full = button("expand", "Full screen (F)", () => this.fill(), { class: "icon-button shut" });
    this.card.tools.append(full, shut);
    this.dialog.replaceChildren(el("div", { class: "focus", tabindex: "-1", autofocus: true }, this.card.root,
      el("aside", {}, this.question, this.aid, this.note, this.beside.root)));
  }

  show(answer) {
    this.onHead(answer.runs, answer.now);
    if (!this.card || answer.panels[0].id !== state.panel) return;
    const [panel, ...beside] = this.known.merge([...answer.panels, ...answer.beside]);
    this.card.show(panel);
    write(this.question, panel.question);
    write(this.note, panel.note ?? "");
    if (this.told !== panel.aid) {
      this.told = panel.aid;
      this.aid.replaceChildren(...panel.aid.split(/\n+/).map((line) => el("p", { text: line })));
    }
    this.beside.root.hidden = !beside.length;
    if (beside.length) this.beside.show(beside[0]);
  }

  fill() {
    this.dialog.classList.toggle("full");
  }

  clear() {
    this.card?.destroy();
    this.beside?.destroy();
    this.card = this.beside = this.shown = this.told = null;
    this.known.forget();
    this.dialog.replaceChildren();
  }
}
