// What holds for all panels: step axis, smoothing, layer filter, zoom, the step of the histograms.

import { resetZoom } from "./cursor.js";
import { byId, write } from "./dom.js";
import { between, place } from "./place.js";
import { set, state } from "./state.js";

// What is chosen among a few, each in a row of buttons; another unit of the axis forgets places on the old one.
const CHOICES = {
  x: (x) => set({ x, lo: null, hi: null, step: null }),
  axis: (axis) => set({ axis }),
  y: (y) => set({ y }),
  noise: (noise) => set({ noise }),
};
let typing = null;

export function wireControls() {
  for (const [key, change] of Object.entries(CHOICES)) {
    for (const item of document.querySelectorAll(`#${key} button`)) item.addEventListener("click", () => change(item.value));
  }
  byId("smooth").addEventListener("input", (event) => set({ smooth: Number(event.target.value) }));
  byId("layer-filter").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => set({ layers: event.target.value.trim() }), 250);
  });
  byId("range").addEventListener("change", (event) => set({ range: event.target.checked ? "auto" : "fixed" }));
  byId("open-view").addEventListener("click", () => openView());
  document.addEventListener("pointerdown", (event) => byId("view-sheet").parentNode.contains(event.target) || openView(false));
  byId("zoomed").addEventListener("click", resetZoom);
  byId("pinned").addEventListener("click", () => set({ step: null }));
}

export function openView(open = byId("view-sheet").hidden) {
  byId("view-sheet").hidden = !open;
  byId("open-view").setAttribute("aria-expanded", String(open));
}

export function showControls() {
  document.querySelector(".head-bar .controls").hidden = ["bench", "table"].includes(state.tab); // without steps
  for (const key of Object.keys(CHOICES)) {
    for (const item of document.querySelectorAll(`#${key} button`)) item.setAttribute("aria-pressed", String(item.value === state[key]));
  }
  write(byId("view-said"), [{ time: "wall clock", epoch: "epochs" }[state.x] ?? "", state.axis === "auto" ? "" : `${state.axis} x`, state.y === "auto" ? "" : `${state.y} y`]
    .filter(Boolean).join(", ") || "view");
  if (document.activeElement !== byId("smooth")) byId("smooth").value = state.smooth;
  write(byId("smooth-value"), state.smooth ? state.smooth.toFixed(2) : "off");
  if (document.activeElement !== byId("layer-filter")) byId("layer-filter").value = state.layers;
  byId("range").checked = state.range === "auto";
  byId("zoomed").hidden = state.lo === null;
  write(byId("zoom-text"), state.lo === null ? "" : between(state.lo, state.hi));
  byId("pinned").hidden = state.step === null;
  write(byId("pin-text"), state.step === null ? "" : `at ${place(state.step)}`);
}

export function smoother(by) {
  set({ smooth: Math.round(Math.min(Math.max(state.smooth + by, 0), 0.95) * 20) / 20 });
}

const ORDER = ["auto", "log", "linear"];
const next = (value) => ORDER[(ORDER.indexOf(value) + 1) % ORDER.length];

export const nextAxis = () => set({ axis: next(state.axis) });
export const nextHeight = () => set({ y: next(state.y) });
export const otherClock = () => CHOICES.x(state.x === "time" ? "step" : "time");
