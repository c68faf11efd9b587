// A place on the common horizontal axis in words: a step, or a time since the run began.

import { whole } from "./format.js";
import { state } from "./state.js";

const SECOND = 1e6; // of the wall clock's axis

export const place = (at) => (state.x === "time" ? clock(at) : `step ${whole(at)}`);

export const between = (low, high) => (state.x === "time" ? `${clock(low)} to ${clock(high)}` : `steps ${whole(low)} to ${whole(high)}`);

function clock(at) {
  const seconds = at / SECOND;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const total = Math.round(seconds);
  if (total < 3600) return `${Math.floor(total / 60)} min ${String(total % 60).padStart(2, "0")} s`;
  return `${Math.floor(total / 3600)} h ${String(Math.floor(total / 60) % 60).padStart(2, "0")} min`;
}
