// The keyboard. What is listed here is what the help shows.

import { nextAxis, nextHeight, openView, otherClock, smoother } from "./controls.js";
import { pointed, resetZoom } from "./cursor.js";
import { byId, el } from "./dom.js";
import { neighbour } from "./runs.js";
import { set, state } from "./state.js";
import { toggleTheme } from "./theme.js";

const LARGE = ["f", "l", "y", "w", "s", "S", "r", "p", "t", "?"]; // what an enlarged panel answers to

export function wireKeys({ focus, toggleRuns }) {
  const keys = [
    ["1 – 9", "the views, from left to right", null],
    ["[  ]", "previous, next run", null],
    ["/", "filter the runs", () => { document.body.classList.remove("narrow"); byId("filter").focus(); }],
    ["b", "show or hide the list of runs", toggleRuns],
    ["v", "axes, noise, histograms", () => openView()],
    ["l", "step axis: auto, log, linear", nextAxis],
    ["y", "vertical axes: auto, log, linear", nextHeight],
    ["w", "over steps or over the wall clock", otherClock],
    ["s  S", "more, less smoothing", null],
    ["g", "filter the layers", () => byId("layer-filter").focus()],
    ["r", "reset the zoom", resetZoom],
    ["p", "histograms and gauges at the step under the pointer; again: at the last", () => set({ step: state.step === null ? pointed() : null })],
    ["f", "enlarge the panel under the pointer; again: fill the screen", () => enlarge(focus)],
    ["Esc", "close", null],
    ["t", "light or dark", toggleTheme],
    ["?", "this help", help],
  ];
  const actions = new Map(keys.filter(([, , action]) => action).map(([key, , action]) => [key, action]));
  for (let place = 0; place < 9; place += 1) actions.set(String(place + 1), () => openTab(place));
  actions.set("[", () => neighbour(-1)).set("]", () => neighbour(1)).set("s", () => smoother(0.1)).set("S", () => smoother(-0.1));
  const row = ([key, meaning]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text: meaning })];
  byId("key-list").replaceChildren(...keys.flatMap(row));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    const action = actions.get(event.key);
    if (!action || behind(event.key)) return;
    event.preventDefault();
    action();
  });
}

function openTab(place) {
  const tab = document.querySelectorAll("[role=tab]:not([hidden])")[place];
  if (tab) set({ tab: tab.value });
}

// What a key would do out of sight, behind an open dialog.
function behind(key) {
  if (byId("help").open) return key !== "?";
  return byId("focus").open && !LARGE.includes(key);
}

export function help() {
  const dialog = byId("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

function typing(target) {
  return target.matches("input:not([type=checkbox]):not([type=range]), textarea, select");
}

function enlarge(focus) {
  if (focus.open) return focus.fill();
  const card = document.querySelector(".card:focus-within, .card:hover");
  if (card && card.dataset.panel && !state.panel) set({ panel: card.dataset.panel });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.matches("input")) event.target.blur();
  if (event.key === "Escape") openView(false);
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (menu) {
    event.preventDefault(); // the dialog around it stays
    menu.open = false;
    menu.querySelector("summary").focus();
  }
  if (event.key === "Enter" && event.target.matches(".card[data-panel]")) set({ panel: event.target.dataset.panel });
});
