// Light and dark: the style sheet's colours, and the same ones for the charts.

import { ask } from "./net.js";
import { habit, remember } from "./state.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let chosen = habit("theme", null);

export const theme = () => chosen ?? (dark.matches ? "dark" : "light");

export function onTheme(listener) {
  listeners.push(listener);
}

export function toggleTheme() {
  chosen = theme() === "dark" ? "light" : "dark";
  remember({ theme: chosen });
  apply();
}

export function apply() {
  document.documentElement.dataset.theme = theme();
  for (const listener of listeners) listener();
}

// The charts' colours come from the same place as those of figures on paper.
let configs = {};

export async function learn() {
  configs = (await ask("/api/look")).themes;
}

export function chartConfig(large = false) {
  const config = structuredClone(configs[theme()]);
  const more = large ? 3 : 0.5; // points that the type may be larger than on the deck of a figure
  for (const part of ["axis", "legend"]) for (const key of ["labelFontSize", "titleFontSize"]) config[part][key] += more;
  config.text.fontSize += more;
  return { ...config, background: "transparent" };
}

dark.addEventListener("change", () => chosen === null && apply());
