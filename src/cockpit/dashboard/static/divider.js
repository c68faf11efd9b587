// The list of runs is as wide as the reader wants it.

import { byId } from "./dom.js";
import { habit, remember } from "./state.js";

const [LEAST, MOST, USUAL, STEP] = [160, 640, 232, 24];

export function wireDivider() {
  const divider = byId("divider");
  let width = habit("list", USUAL);
  const apply = (wanted) => {
    width = Math.min(Math.max(Math.round(wanted), LEAST), Math.min(MOST, Math.max(innerWidth - 480, LEAST)));
    document.documentElement.style.setProperty("--list", `${width}px`);
    divider.setAttribute("aria-valuenow", width);
  };
  const keep = () => remember({ list: width });
  apply(width);
  divider.addEventListener("pointerdown", (event) => {
    divider.setPointerCapture(event.pointerId);
    document.body.classList.add("widening");
    const from = event.clientX - width;
    const move = (now) => apply(now.clientX - from);
    divider.addEventListener("pointermove", move);
    divider.addEventListener("lostpointercapture", () => {
      divider.removeEventListener("pointermove", move);
      document.body.classList.remove("widening");
      keep();
    }, { once: true });
  });
  divider.addEventListener("dblclick", () => { apply(USUAL); keep(); });
  divider.addEventListener("keydown", ({ key }) => {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return;
    apply(width + (key === "ArrowRight" ? STEP : -STEP));
    keep();
  });
}
