// The top bar: which run, how it is, how far it is, what watching costs, and the lamps.

import { byId, el, nameIn, write } from "./dom.js";
import { learnColours } from "./reading.js";
import { duration, whole } from "./format.js";

const WORDS = { running: "running", finished: "finished", ended: "ended without close", crashed: "crashed", stale: "stale" };
const HINTS = {
  stale: "nothing was written for a while: the training may have been killed, or a step takes very long",
  crashed: "the training ended with an error",
  ended: "the script ended without closing the run; all that was tracked is here",
};
const NAMED = 2; // overlaid runs that are named
let others = "";
let head = null;
let skew = 0;

export const judged = (heads) => heads.some(({ lamps }) => lamps !== undefined && lamps !== null);

export function showHead(heads, now) {
  head = heads[0] ?? null;
  skew = now - Date.now() / 1000;
  const bar = byId("head");
  bar.hidden = !head;
  document.title = head ? `${head.name} · cockpit` : "cockpit";
  if (!head) return;
  write(byId("run-name"), head.name);
  byId("run-name").title = `${head.name}\n${head.id}`;
  showOthers(heads);
  learnColours(heads);
  const state = byId("run-state");
  state.dataset.state = head.state;
  write(state, WORDS[head.state] ?? head.state);
  state.title = head.reason ?? HINTS[head.state] ?? "";
  const why = ["crashed", "unreadable"].includes(head.state) && head.reason ? head.reason : head.damaged ?? "";
  write(byId("run-reason"), why);
  byId("run-reason").title = why;
  write(byId("fact-step"), head.steps ? `${whole(head.step)} / ${whole(head.steps)}` : whole(head.step));
  byId("progress").value = head.steps && head.step !== null ? Math.min((head.step + 1) / head.steps, 1) : 0;
  byId("progress").hidden = !head.steps;
  write(byId("fact-cost"), head.cost.short || "–");
  byId("fact-cost").parentNode.title = `${head.cost.why || "not known yet"}: what watching adds to the training time`;
  write(byId("run-broken"), head.broken ?? "");
  byId("run-broken").hidden = !head.broken;
  showLamps(head.lamps);
  tick();
}

// The runs that are overlaid, in their colours; names that do not fit are counted.
function showOthers(heads) {
  byId("run-name").style.setProperty("--run", heads[0].colour);
  byId("run-name").classList.toggle("coloured", heads.length > 1);
  const named = heads.slice(1, 1 + NAMED).map((head) => [head.name, head.colour]);
  const rest = heads.length - 1 - named.length;
  const told = JSON.stringify([named, rest]);
  if (told === others) return;
  others = told;
  byId("more-runs").replaceChildren(...named.map(([name, colour]) => {
    const chip = el("bdi", { class: "coloured run-name" });
    nameIn(chip, name);
    chip.style.setProperty("--run", colour);
    return chip;
  }), rest > 0 ? `+ ${rest}` : "");
}

// Time goes on between two answers.
function tick() {
  if (!head) return;
  const running = head.state === "running";
  const elapsed = running && head.started ? Date.now() / 1000 + skew - head.started : head.elapsed;
  write(byId("fact-elapsed"), duration(elapsed));
  const done = head.step === null ? 0 : head.step + 1 - head.first;
  const left = running && head.steps && done > 0 ? (elapsed * Math.max(head.steps - head.step - 1, 0)) / done : null;
  byId("remaining").hidden = !running;
  write(byId("fact-remaining"), left === null ? "–" : duration(left));
}

function showLamps(lamps) {
  const row = byId("lamps");
  row.hidden = lamps === undefined || lamps === null; // nothing judges this run
  const lit = new Map((lamps ?? []).map((lamp) => [lamp.name, lamp]));
  row.title = lit.size ? "" : "no lamp is lit";
  const names = lit.size ? [...lit.keys()] : ["", "", "", "", ""];
  row.replaceChildren(...names.map((name) => el("i", { class: name ? "lamp lit" : "lamp", title: name || null })));
}

setInterval(tick, 1000);
