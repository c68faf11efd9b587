// Which runs are shown follows which runs there are: one that was deleted or moved must not hold up the others.

import { set, state } from "./state.js";

let lost = null; // what was shown before a run vanished, and what instead

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// The list arrived: drop what is gone, take it back when it returns, open the newest where nothing is chosen.
export function followList(runs, tell) {
  const there = new Set(runs.map((run) => run.id));
  if (lost && !same(state.runs, lost.instead)) lost = null; // somebody chose something else since
  if (lost && lost.runs.every((id) => there.has(id))) {
    const back = lost.runs;
    lost = null;
    tell("");
    set({ runs: back }, { replace: true });
    return;
  }
  const missing = state.runs.filter((id) => !there.has(id));
  const rest = state.runs.filter((id) => there.has(id));
  if (missing.length) {
    const instead = rest.length ? rest : newest(runs);
    lost = { runs: state.runs, instead };
    const shown = rest.length || !instead.length ? "" : ` This is ${runs.find((run) => run.id === instead[0]).name}, the newest.`;
    const are = missing.length > 1 ? "are" : "is";
    tell(`${missing.join(", ")} ${are} no longer in this folder: moved or deleted.${shown}`);
    set({ runs: instead, step: null }, { replace: true });
  } else if (!state.runs.length && runs.length) {
    set({ runs: newest(runs) }, { replace: true });
  }
}

function newest(runs) {
  const seen = runs.filter((run) => !run.hidden);
  const first = seen.find((run) => run.state === "running") ?? seen[0] ?? runs[0];
  return first ? [first.id] : [];
}
