// Layer by layer: any per-parameter quantity of one run as heat map, distribution, by type and by depth.

import { Cards } from "./card.js";
import { el } from "./dom.js";
import { Known } from "./known.js";
import { query, set, state } from "./state.js";

export class Layers {
  constructor(root) {
    this.root = root;
    this.known = new Known();
    this.cards = new Cards();
    this.choice = el("select", { "aria-label": "Quantity", onchange: () => set({ name: this.choice.value }) });
    this.of = el("span", { class: "of" });
    this.grid = el("div", { class: "grid wide" });
    this.nothing = el("div", { class: "blank", hidden: true },
      el("h2", { text: "Nothing is known layer by layer" }),
      el("p", { text: "This run holds no quantity that is measured for each parameter. To get some:" }),
      el("pre", { text: 'cockpit.watch(model, optimizer, loss_fn, quantities="economy")' }));
    const field = el("label", { class: "field" }, el("span", { text: "quantity" }), this.choice);
    root.append(el("div", { class: "bar" }, field, this.of), this.nothing, this.grid);
  }

  path() {
    if (!state.runs.length) return null;
    return `api/layers?${query({ runs: state.runs.slice(0, 1), name: state.name, known: this.known.marks })}`;
  }

  show(answer) {
    const names = answer.layered;
    this.nothing.hidden = names.length > 0;
    if (this.choice.childElementCount !== names.length || this.choice.value !== answer.name) {
      this.choice.replaceChildren(...names.map((name) => el("option", { value: name, text: name })));
      this.choice.value = answer.name;
    }
    this.of.textContent = state.runs.length > 1 ? `of ${answer.runs[0].name}, the first of the chosen runs` : "";
    const panels = this.known.merge(answer.panels);
    this.cards.show(panels, () => this.grid);
  }

  forget() {
    this.known.forget();
  }
}
