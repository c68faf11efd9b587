// What holds for all panels: step axis, smoothing, layer filter, zoom, the step of the histograms.

import { resetZoom } from "./cursor.js";
import { byId, write } from "./dom.js";
import { whole } from "./format.js";
import { set, state } from "./state.js";

let typing = null;

export function wireControls() {
  for (const item of document.querySelectorAll("#axis button")) item.addEventListener("click", () => set({ axis: item.value }));
  byId("smooth").addEventListener("input", (event) => set({ smooth: Number(event.target.value) }));
  byId("layer-filter").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => set({ layers: event.target.value.trim() }), 250);
  });
  byId("range").addEventListener("change", (event) => set({ range: event.target.checked ? "auto" : "fixed" }));
  byId("zoomed").addEventListener("click", resetZoom);
  byId("pinned").addEventListener("click", () => set({ step: null }));
}

export function showControls() {
  document.querySelector(".head-bar .controls").hidden = state.tab === "bench"; // its axes count epochs
  for (const item of document.querySelectorAll("#axis button")) {
    item.setAttribute("aria-pressed", String(item.value === state.axis));
  }
  if (document.activeElement !== byId("smooth")) byId("smooth").value = state.smooth;
  write(byId("smooth-value"), state.smooth ? state.smooth.toFixed(2) : "off");
  if (document.activeElement !== byId("layer-filter")) byId("layer-filter").value = state.layers;
  byId("range").checked = state.range === "auto";
  byId("zoomed").hidden = state.lo === null;
  write(byId("zoom-text"), state.lo === null ? "" : `steps ${whole(state.lo)} to ${whole(state.hi)}`);
  byId("pinned").hidden = state.step === null;
  write(byId("pin-text"), state.step === null ? "" : `at step ${whole(state.step)}`);
}

export function smoother(by) {
  set({ smooth: Math.round(Math.min(Math.max(state.smooth + by, 0), 0.95) * 20) / 20 });
}

export function nextAxis() {
  const order = ["auto", "log", "linear"];
  set({ axis: order[(order.indexOf(state.axis) + 1) % order.length] });
}
