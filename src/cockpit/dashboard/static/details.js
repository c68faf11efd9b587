// What is known about a run: metadata, what is covered, what each instrument costs.

import { el } from "./dom.js";
import { number, percent, whole } from "./format.js";
import { query, state } from "./state.js";

export class Details {
  constructor(root) {
    this.root = root;
    this.told = "";
  }

  path() {
    return state.runs.length ? `api/details?${query({ runs: state.runs.slice(0, 1) })}` : null;
  }

  show(answer) {
    const { now, runs, ...rest } = answer;
    const told = JSON.stringify(rest);
    if (told === this.told) return; // a selection in the text survives what does not change it
    this.told = told;
    this.root.replaceChildren(el("div", { class: "columns" },
      sheet("run", facts(answer)),
      sheet("what is covered", coverage(answer)),
      sheet("what watching costs", costs(answer.cost, runs[0].state === "running"), " span"),
      sheet("instruments and what they cost", instruments(answer.instruments, answer.shared, runs[0].state === "running"), " span")));
  }

  forget() {
    this.told = "";
  }
}

const sheet = (title, content, more = "") => el("section", { class: `sheet-card${more}` }, el("h2", { text: title }), content);

const text = (value) => (value && typeof value === "object" ? JSON.stringify(value) : String(value));

const pairs = (object) => Object.entries(object ?? {}).map(([key, value]) => `${key} ${text(value)}`).join(", ");

const WHOLE = "tracked steps"; // the cost of all together

const list = (value) => (Array.isArray(value) ? value : []);

// What has a better form than its bare value; null: left out.
const WORDS = {
  started: (value) => ["began", new Date(value * 1000).toLocaleString()],
  quantities: (value) => ["quantities", list(value).map((one) => one?.name ?? one).join(", ")],
  attempts: (value) => ["started", list(value).length < 2 ? null : `${value.length} times, the last at step ${whole(value.at(-1).first_step)}`],
  lost: (value) => ["records lost", value || null],
  model: (value) => ["model", value && `${value.class ?? "?"}, ${whole(value.elements)} elements, ${list(value.layers).length} layer${list(value.layers).length === 1 ? "" : "s"}`],
  optimizers: (value) => ["optimizer", list(value).map((one) => `${one.class} (${list(one.groups).map(pairs).join("; ")})`).join("; ")],
};

function facts(answer) {
  const found = [["folder", answer.path], ["ended with", answer.reason], ["damaged", answer.damaged]];
  for (const [key, value] of Object.entries(answer.metadata)) {
    if (key in WORDS) found.push(WORDS[key](value));
    else found.push([key, value && typeof value === "object" ? pairs(value) : value]);
  }
  const rows = found.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {}, ...rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: String(value) })]));
}

function coverage(answer) {
  if (answer.coverage) return el("pre", { text: answer.coverage });
  return el("p", { class: "muted", text: "The run does not say what it covers." });
}

// What was allowed and used, and what each tier of cost was tracked for.
function costs(spent, running) {
  if (!spent.tiers.length) {
    return el("p", { class: "muted", text: running ? "No tracked step was timed yet." : "The run does not say what its tracked steps cost beside plain ones: only a budget compares them. What each instrument takes by itself is below." });
  }
  const part = "of the cost";
  const titles = ["tier", "tracked steps", "now every", "ms more than a plain step", "the first", part];
  const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col", class: title === "tier" || title === part ? null : "number", text: title })));
  const most = Math.max(...spent.tiers.map((one) => one.share ?? 0)) || 1;
  const body = el("tbody", {}, ...spent.tiers.map((one) => tier(one, most)));
  return el("div", {}, account(spent), el("div", { class: "scroll" }, el("table", { class: "facts-table" }, el("thead", {}, head), body)));
}

function account(spent) {
  const words = [];
  if (spent.spent !== null) words.push(`${number(spent.spent, 3)} s in all${spent.free ? `, ${number(spent.free, 3)} s of them free` : ""}`);
  if (spent.plain !== null) words.push(`a plain step takes ${number(spent.plain, 3)} ms`);
  if (spent.estimated) words.push("by the tracker's own clock, until a plain step is seen");
  const line = el("p", { class: "spent" });
  if (spent.allowed !== null && spent.used !== null) {
    const over = spent.used > 1.2 * spent.allowed ? "why" : null;
    const label = spent.said.replace(/^tracking /, "");
    line.append(el("meter", { min: 0, max: Math.max(spent.allowed, spent.used), "aria-label": label, value: spent.used }),
      el("strong", { class: over, text: label }));
  } else if (spent.said) {
    line.append(el("strong", { text: spent.said }));
  }
  line.append(el("span", { text: words.join(" \u00b7 ") }));
  return line;
}

function tier(one, most) {
  return el("tr", {},
    el("th", { scope: "row", text: one.name }),
    el("td", { class: "number", text: whole(one.tracked) }),
    el("td", { class: "number", text: one.interval === null ? "–" : `${number(Math.round(one.interval))} steps` }),
    el("td", { class: "number", text: number(one.milliseconds, 3) }),
    el("td", { class: "number", text: number(one.first, 3) }),
    share(one.share, most));
}

function share(value, most) {
  if (value === null) return el("td", { class: "muted", text: "–" });
  const bar = el("meter", { max: most, min: 0, "aria-hidden": "true", value });
  return el("td", { class: "cost" }, bar, el("span", { text: percent(value) }));
}

function instruments(all, shared, running) {
  if (!all.length && !shared.length) return el("p", { class: "muted", text: running ? "Nothing was recorded yet." : "Nothing was recorded." });
  const titles = ["instrument", "kind", "level", "values", "last step", "ms each time", "undefined"];
  const most = Math.max(...[...all, ...shared].map((one) => one.milliseconds ?? 0)) || 1;
  const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col", text: title })));
  const body = el("tbody", {}, ...shared.map((one) => together(one, most)), ...all.map((one) => instrument(one, most)));
  return el("div", { class: "scroll" }, el("table", { class: "facts-table" }, el("thead", {}, head), body));
}

function instrument(one, most) {
  const why = one.undefined.map((found) => `${whole(found.count)}: ${found.reason}`).join("; ");
  return el("tr", {},
    el("th", { scope: "row", text: one.name }),
    el("td", { text: one.kind.replace("_", " ") }),
    el("td", { text: one.level ?? "–" }),
    el("td", { class: "number", text: whole(one.values) }),
    el("td", { class: "number", text: whole(one.last) }),
    cost(one.milliseconds, most),
    el("td", { class: why ? "why" : "muted", text: why || "none" }));
}

// What is computed once for several instruments.
function together(one, most) {
  return el("tr", { class: "shared" }, el("th", { scope: "row", text: one.name }),
    el("td", { class: "muted", colspan: "4", text: one.name === WHOLE ? "everything below" : "for several instruments" }),
    cost(one.milliseconds, most), el("td"));
}

function cost(milliseconds, most) {
  if (milliseconds === null) return el("td", { class: "muted", text: "–" });
  const bar = el("meter", { max: most, min: 0, "aria-hidden": "true", value: milliseconds });
  return el("td", { class: "cost" }, bar, el("span", { text: number(milliseconds, 3) }));
}

const SILENCE = [
  "This version measures and shows; it does not judge. Nothing has looked for faults in this run, "
    + "so an empty page here does not mean that the run is healthy.",
  "To judge for yourself, click a panel: its reading aid says what healthy looks like, and what to do when it does not.",
];

// An honest empty page until there is something to say.
export class Findings {
  constructor(root) {
    root.append(el("div", { class: "blank" }, el("h2", { text: "No automatic diagnosis yet" }),
      ...SILENCE.map((line) => el("p", { text: line }))));
  }

  // Nothing to show yet; what it is asked for tells whether something judges.
  path() {
    return state.runs.length ? `api/details?${query({ runs: state.runs.slice(0, 1) })}` : null;
  }

  show() {}

  forget() {}
}
