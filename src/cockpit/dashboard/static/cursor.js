// One step axis for all panels: the same step under the pointer everywhere, one zoom for all.

import { byId, el, write } from "./dom.js";
import { number } from "./format.js";
import { place as placed } from "./place.js";
import { valuesAt } from "./reading.js";
import { set, state } from "./state.js";
import { hideTip, tipAtMark, tipAtStep } from "./tip.js";

const cards = new Set();
let step = null;
let due = false;

// A card takes part as long as it lives; returns how to leave.
export function join(card) {
  cards.add(card);
  card.chart.onDrawn = () => {
    if (step !== null) mark(card);
  };
  const { stage } = card;
  card.chart.onPoint = (event, value, datum) => {
    card.pointedAt = { value, datum };
    if (event?.clientX !== undefined) tell(card, event);
  };
  stage.addEventListener("pointermove", (event) => event.pointerType !== "touch" && hover(card, event));
  stage.addEventListener("pointerleave", () => {
    card.pointedAt = null;
    hideTip();
    point(null);
  });
  stage.addEventListener("pointerdown", (event) => begin(card, event));
  stage.addEventListener("dblclick", () => card.panel?.steps && resetZoom());
  return () => {
    cards.delete(card);
    if (card.stage.matches(":hover")) hideTip();
  };
}

export function resetZoom() {
  zoom(null, null);
}

export function zoom(low, high) {
  set({ lo: low, hi: high });
}

// Charts zoom at once; after a step back in the browser's history they must follow too.
export function followZoom() {
  for (const card of cards) if (card.panel?.steps) card.chart.zoom(state.lo, state.hi);
}

export const pointed = () => step;

// Show this step in all panels; null: none.
export function point(where) {
  step = where;
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    for (const card of cards) mark(card);
    write(byId("cursor-step"), step === null ? "" : placed(step));
  });
}

function hover(card, event) {
  if (!card.panel || card.panel.empty) return;
  if (card.panel.steps) {
    const at = card.chart.stepAt(event.clientX - card.stage.getBoundingClientRect().left);
    point(at === null ? null : Math.max(Math.round(at), 0));
  }
  tell(card, event);
}

// What lies under the pointer, in words.
function tell(card, event) {
  if (event.buttons || event.pointerType === "touch") return hideTip();
  const { value = null, datum = null } = card.pointedAt ?? {};
  if (!card.panel.steps) tipAtMark(card, event, value, datum);
  else if (step !== null) tipAtStep(card, step, event, value);
}

function mark(card) {
  const place = step !== null && card.panel?.steps && !card.panel.empty ? card.chart.place(step) : null;
  card.line.hidden = !place;
  card.root.classList.toggle("reads", Boolean(place));
  if (!place) return;
  card.line.style.transform = `translateX(${place.x}px)`;
  card.line.style.top = `${place.top}px`;
  card.line.style.height = `${place.height}px`;
  card.reading.replaceChildren(...valuesAt(card.panel, step).map(read));
}

function read({ name, value, colour }) {
  const item = el("span", { class: colour ? "coloured" : "", text: `${name ? `${name} ` : ""}${number(value, 3)}` });
  if (colour) item.style.setProperty("--run", colour);
  return item;
}

// A drag selects steps; a press without a drag is a click and enlarges.
function begin(card, event) {
  if (event.button !== 0 || !card.panel || card.panel.empty) return;
  const edge = card.stage.getBoundingClientRect();
  const from = event.clientX;
  const axis = card.panel.steps && event.pointerType !== "touch" && card.chart.place(card.chart.stepAt(from - edge.left));
  let dragged = false;
  const move = (now) => {
    dragged ||= Math.abs(now.clientX - from) > 4 || Math.abs(now.clientY - event.clientY) > 6;
    if (dragged && axis) paint(card, axis, from - edge.left, now.clientX - edge.left);
  };
  const end = (now) => {
    for (const [name, handler] of handlers) window.removeEventListener(name, handler);
    card.brush.hidden = true;
    if (now.type === "pointercancel") return;
    if (dragged && axis) finish(card, from - edge.left, now.clientX - edge.left);
    else if (!dragged && now.shiftKey && step !== null) set({ step });
    else if (!dragged) later(card);
  };
  const handlers = [["pointermove", move], ["pointerup", end], ["pointercancel", end]];
  for (const [name, handler] of handlers) window.addEventListener(name, handler);
}

// The second click of a double click resets the zoom instead.
let waiting = null;
function later(card) {
  if (waiting) {
    clearTimeout(waiting);
    waiting = null;
    return;
  }
  waiting = setTimeout(() => {
    waiting = null;
    card.enlarge();
  }, card.panel.steps && state.lo !== null ? 260 : 0);
}

function paint(card, axis, from, to) {
  const [left, right] = [Math.min(from, to), Math.max(from, to)];
  card.brush.hidden = false;
  const box = { left, width: right - left, top: axis.top, height: axis.height };
  for (const [key, value] of Object.entries(box)) card.brush.style[key] = `${value}px`;
}

function finish(card, from, to) {
  const [low, high] = [card.chart.stepAt(Math.min(from, to)), card.chart.stepAt(Math.max(from, to))];
  if (low === null || Math.abs(to - from) < 5) return;
  const [first, last] = [Math.max(Math.floor(low), 0), Math.ceil(high)];
  if (last - first >= 2) zoom(first, last);
}
