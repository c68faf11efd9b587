// What is known about a run: metadata, what is covered, what each instrument costs.

import { el } from "./dom.js";
import { number, whole } from "./format.js";
import { query, state } from "./state.js";

export class Details {
  constructor(root) {
    this.root = root;
    this.told = "";
  }

  path() {
    return state.runs.length ? `/api/details?${query({ runs: state.runs.slice(0, 1) })}` : null;
  }

  show(answer) {
    const { now, runs, ...rest } = answer;
    const told = JSON.stringify(rest);
    if (told === this.told) return; // a selection in the text survives what does not change it
    this.told = told;
    this.root.replaceChildren(
      el("div", { class: "columns" },
        el("section", { class: "sheet-card" }, el("h2", { text: "run" }), facts(answer)),
        el("section", { class: "sheet-card" }, el("h2", { text: "what is covered" }), coverage(answer)),
        el("section", { class: "sheet-card span" }, el("h2", { text: "instruments and what they cost" }), instruments(answer.instruments))));
  }

  forget() {
    this.told = "";
  }
}

function facts(answer) {
  const { metadata } = answer;
  const list = el("dl");
  const add = (name, value) => value !== null && value !== undefined && value !== "" && list.append(el("dt", { text: name }), el("dd", { text: String(value) }));
  add("folder", answer.path);
  if (answer.damaged) add("damaged", answer.damaged);
  for (const [key, value] of Object.entries(metadata)) {
    if (key === "started") add("began", new Date(value * 1000).toLocaleString());
    else if (key === "quantities") add(key, value.map((one) => one.name ?? one).join(", "));
    else if (key === "attempts") add("started", `${value.length === 1 ? "once" : `${value.length} times, the last at step ${whole(value.at(-1).first_step)}`}`);
    else if (key === "lost") add("records lost", value || null);
    else if (key === "model" && value) add(key, `${value.class ?? "model"}, ${whole(value.elements)} elements, ${value.layers?.length ?? "?"} layers`);
    else if (key === "optimizers") for (const one of value ?? []) add("optimizer", optimizer(one));
    else if (value && typeof value === "object") add(key, Object.entries(value).map(([name, part]) => `${name} ${text(part)}`).join(", "));
    else add(key, typeof value === "boolean" ? (value ? "yes" : "no") : value);
  }
  return list;
}

const text = (value) => (value && typeof value === "object" ? JSON.stringify(value) : String(value));

function optimizer(one) {
  const groups = (one.groups ?? []).map((group) => Object.entries(group).map(([key, value]) => `${key} ${text(value)}`).join(", "));
  return `${one.class ?? "?"} (${groups.join("; ")})`;
}

function coverage(answer) {
  return answer.coverage ? el("pre", { text: answer.coverage }) : el("p", { class: "muted", text: "The run does not say what it covers." });
}

function instruments(list) {
  if (!list.length) return el("p", { class: "muted", text: "Nothing was recorded yet." });
  const most = Math.max(...list.map((one) => one.milliseconds ?? 0)) || 1;
  const head = el("tr", {}, ...["instrument", "kind", "level", "values", "last step", "ms per tracked step", "undefined"].map((title) => el("th", { scope: "col", text: title })));
  const rows = list.map((one) => {
    const bar = el("meter", { max: most, min: 0, "aria-hidden": "true", value: one.milliseconds ?? 0 });
    const cost = one.milliseconds === null ? el("td", { class: "muted", text: "–" }) : el("td", { class: "cost" }, bar, el("span", { text: number(one.milliseconds, 3) }));
    const why = one.undefined.map((found) => `${whole(found.count)}: ${found.reason}`).join("; ");
    return el("tr", {}, el("th", { scope: "row", text: one.name }), el("td", { text: one.kind.replace("_", " ") }), el("td", { text: one.level ?? "–" }),
      el("td", { class: "number", text: whole(one.values) }), el("td", { class: "number", text: whole(one.last) }), cost, el("td", { class: why ? "why" : "muted", text: why || "none" }));
  });
  return el("div", { class: "scroll" }, el("table", { class: "facts-table" }, el("thead", {}, head), el("tbody", {}, ...rows)));
}

// An honest empty page until there is something to say.
export class Findings {
  constructor(root) {
    root.append(el("div", { class: "blank" }, el("h2", { text: "No automatic diagnosis yet" }),
      el("p", { text: "This version measures and shows; it does not judge. Nothing has looked for faults in this run, so an empty page here does not mean that the run is healthy." }),
      el("p", { text: "To judge for yourself, click a panel: its reading aid says what healthy looks like and what to do when it does not." })));
  }

  path() {
    return null;
  }

  show() {}

  forget() {}
}
