// What lies under the pointer, in words: name, value, step, and all series of a chart.

import { el } from "./dom.js";
import { number } from "./format.js";
import { place } from "./place.js";
import { everyAt, probe } from "./reading.js";

const MOST = 14; // series that are listed
const AWAY = 14; // pixels from the pointer
const box = el("div", { class: "tip", role: "tooltip", hidden: true });

export function hideTip() {
  box.hidden = true;
}

// The series of a chart at a step, the one next to the pointer first to be seen.
export function tipAtStep(card, step, event, value) {
  const edge = card.stage.getBoundingClientRect();
  const near = card.chart.valueAt(event.clientY - edge.top);
  if (value) return fill(card, event, [place(whole(value.step) ?? step)], fields(value).filter(({ name }) => name !== "step"));
  const rows = everyAt(card.panel, step).map((row) => ({ ...row, text: number(row.value, 4) }));
  if (!rows.length) return hideTip();
  fill(card, event, [place(step)], listed(rows, near));
}

// What the chart's own marks say, or the curves over a horizontal axis that is not the step.
export function tipAtMark(card, event, value, datum) {
  const edge = card.stage.getBoundingClientRect();
  const x = card.chart.xAt(event.clientX - edge.left);
  const told = fields(value);
  const curves = told.length && !card.panel.datasets.ridges ? [] : probe(card.panel, x, datum);
  const rows = curves.map((row) => ({ ...row, text: number(row.value, 4) }));
  if (!told.length && !rows.length) return hideTip();
  const where = card.panel.id.startsWith("curves") ? `epoch ${rows[0]?.at}` : `at ${number(x, 3)}`;
  fill(card, event, rows.length && !told.length ? [where] : [], [...told, ...listed(rows, null)]);
}

// A mark's fields as the chart gives them: an object of texts, or lines of text.
function fields(value) {
  if (value === null || value === undefined || value === "") return [];
  if (typeof value !== "object") return String(value).split("\n").map((line) => ({ name: line, text: "" }));
  return Object.entries(value).map(([name, text]) => (name === "k" ? { name: String(text), text: "" } : { name, text: tidy(text) })).filter(({ text }) => text !== "undefined" && text !== "null");
}

const whole = (text) => (text === undefined ? null : Number(String(text).replaceAll(",", "")));

const tidy = (text) => {
  const value = Number(String(text).replace("\u2212", "-").replaceAll(",", ""));
  return text !== "" && Number.isFinite(value) ? number(value, 4) : String(text);
};

// Many series: those nearest to the pointer.
function listed(rows, near) {
  const finite = (row) => typeof row.value === "number";
  const away = (row) => (finite(row) && near !== null ? distance(row.value, near) : Infinity);
  const best = near === null ? null : rows.reduce((one, row) => (one === null || away(row) < away(one) ? row : one), null);
  const found = rows.map((row) => (row === best && rows.length > 1 && finite(row) ? { ...row, near: true } : row));
  if (found.length <= MOST) return found;
  const kept = [...found].sort((a, b) => away(a) - away(b)).slice(0, MOST);
  kept.sort((a, b) => (finite(b) ? b.value : -Infinity) - (finite(a) ? a.value : -Infinity));
  return [...kept, { name: `and ${found.length - MOST} more`, text: "", soft: true }];
}

const distance = (a, b) => (a > 0 && b > 0 ? Math.abs(Math.log(a / b)) : Math.abs(a - b));

function fill(card, event, heads, rows) {
  const lines = rows.map(({ name, text, colour, near, soft }) => {
    const line = el("div", { class: `line${near ? " near" : ""}${soft ? " muted" : ""}` },
      el("bdi", { class: colour ? "coloured" : "", text: name }), el("span", { text }));
    if (colour) line.style.setProperty("--run", colour);
    return line;
  });
  box.replaceChildren(...heads.map((text) => el("strong", { text })), ...lines);
  const holder = card.root.closest("dialog") ?? document.body; // an open dialog lies above all else
  if (box.parentNode !== holder) holder.append(box);
  box.hidden = false;
  const frame = holder === document.body ? { left: 0, top: 0 } : holder.getBoundingClientRect();
  const [width, height] = [box.offsetWidth, box.offsetHeight];
  const right = event.clientX + AWAY + width > innerWidth;
  const left = right ? Math.max(event.clientX - AWAY - width, 4) : event.clientX + AWAY;
  const top = Math.min(Math.max(event.clientY - height / 2, 4), innerHeight - height - 4);
  box.style.left = `${left - frame.left}px`;
  box.style.top = `${top - frame.top}px`;
}
