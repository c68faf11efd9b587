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
const look = ask("api/look");

export async function chartConfig(large = false) {
  const config = structuredClone((await look).themes[theme()]);
  const more = large ? 3 : 0.5; // points that the type may be larger than on the deck of a figure
  for (const part of ["axis", "legend"]) for (const key of ["labelFontSize", "titleFontSize"]) config[part][key] += more;
  config.text.fontSize += more;
  config.axisY = { minExtent: large ? 40 : 26, ...config.axisY }; // longer numbers do not move the picture
  return { ...config, background: "transparent" };
}

dark.addEventListener("change", () => chosen === null && apply());
