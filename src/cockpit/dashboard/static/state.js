// What is shown and how. The address holds it, so a link reopens the same view; habits are remembered here.

const FRESH = {
  tab: "deck", runs: [], axis: "auto", lo: null, hi: null, smooth: 0, layers: "", step: null,
  range: "fixed", panel: null, name: "", mode: "overlay", problem: "", sort: "", x: "step", y: "auto", noise: "band",
};
const HABITS = ["axis", "smooth", "range", "mode", "y", "noise"];
export const TABS = ["deck", "layers", "compare", "table", "findings", "details", "bench"];
const SCALES = ["auto", "log", "linear"];
const CHOICES = {
  tab: TABS, axis: SCALES, y: SCALES, x: ["step", "time", "epoch"], range: ["fixed", "auto"], mode: ["overlay", "side"], noise: ["band", "all"],
};
const STEPS = ["runs", "tab", "panel"];
const KEY = "cockpit";

const listeners = [];
export const state = { ...FRESH, ...remembered() };
Object.assign(state, fromAddress());

export function subscribe(listener) {
  listeners.push(listener);
}

// A new entry of the browser's history for another run, tab or panel; how it is looked at belongs to the same one.
export function set(changes, { replace = false } = {}) {
  const changed = Object.keys(changes).filter((key) => JSON.stringify(state[key]) !== JSON.stringify(changes[key]));
  if (!changed.length) return;
  Object.assign(state, changes);
  remember(Object.fromEntries(HABITS.map((key) => [key, state[key]])));
  const step = !replace && changed.some((key) => STEPS.includes(key));
  history[step ? "pushState" : "replaceState"](null, "", address());
  tell(changed);
}

export function habit(key, fallback) {
  return stored()[key] ?? fallback;
}

export function remember(changes) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...stored(), ...changes }));
  } catch { /* a private window: the settings last as long as the page */ }
}

// What the server needs to know to draw the same.
export function query(extra = {}) {
  const found = new URLSearchParams();
  for (const run of extra.runs ?? state.runs) found.append("run", run);
  if (state.axis !== "auto") found.set("axis", state.axis);
  if (state.lo !== null && state.hi !== null) {
    found.set("lo", state.lo);
    found.set("hi", state.hi);
  }
  if (state.smooth) found.set("smooth", state.smooth);
  if (state.layers) found.set("layers", state.layers);
  if (state.step !== null) found.set("step", state.step);
  for (const key of ["range", "x", "y", "noise"]) if (state[key] !== FRESH[key]) found.set(key, state[key]);
  for (const [key, value] of Object.entries(extra)) if (key !== "runs" && value) found.set(key, value);
  return found.toString();
}

function address() {
  const found = new URLSearchParams();
  for (const run of state.runs) found.append("run", run);
  for (const [key, fresh] of Object.entries(FRESH)) {
    if (key !== "runs" && state[key] !== fresh && state[key] !== null) found.set(key, state[key]);
  }
  return `${location.pathname}#${found}`;
}

function fromAddress() {
  const found = new URLSearchParams(location.hash.slice(1));
  const read = {};
  if (found.has("run")) read.runs = found.getAll("run");
  for (const key of ["lo", "hi", "smooth", "step"]) {
    const value = Number(found.get(key));
    if (found.has(key) && Number.isFinite(value)) read[key] = value;
  }
  for (const key of ["layers", "panel", "name", "problem", "sort"]) if (found.has(key)) read[key] = found.get(key);
  for (const [key, known] of Object.entries(CHOICES)) if (known.includes(found.get(key))) read[key] = found.get(key);
  if (read.smooth !== undefined) read.smooth = Math.min(Math.max(read.smooth, 0), 0.99);
  return read;
}

function remembered() {
  const old = stored();
  return Object.fromEntries(HABITS.filter((key) => key in old).map((key) => [key, old[key]]));
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

function tell(changed) {
  for (const listener of listeners) listener(changed);
}

// Back and forward, or another address typed in.
window.addEventListener("popstate", () => {
  Object.assign(state, FRESH, remembered(), fromAddress());
  tell(Object.keys(FRESH));
});
