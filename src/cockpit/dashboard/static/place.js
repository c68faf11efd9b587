// A place on the common horizontal axis in words: a step, a time since the run began, or an epoch.

import { whole } from "./format.js";
import { state } from "./state.js";

const SECOND = 1e6; // of the wall clock's axis, and an epoch of the epochs'

const WORDS = { step: ["step ", "steps ", whole], time: ["", "", clock], epoch: ["epoch ", "epochs ", epoch] };

export function place(at) {
  const [one, , said] = WORDS[state.x];
  return one + said(at);
}

export function between(low, high) {
  const [, several, said] = WORDS[state.x];
  return `${several}${said(low)} to ${said(high)}`;
}

function epoch(at) {
  return String(Number((at / SECOND).toPrecision(3)));
}

function clock(at) {
  const seconds = at / SECOND;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const total = Math.round(seconds);
  if (total < 3600) return `${Math.floor(total / 60)} min ${String(total % 60).padStart(2, "0")} s`;
  return `${Math.floor(total / 3600)} h ${String(Math.floor(total / 60) % 60).padStart(2, "0")} min`;
}
