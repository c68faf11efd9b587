// One chart: embedded once, then fed. Only a changed specification, or a grown heap, makes it start again.

import { chartConfig, theme } from "./theme.js";
import { fitLegends } from "./legend.js";
import { library } from "./library.js";

const RENEW = 300; // updates after which a view is made anew: streamed data leave traces in the heap
const OPTIONS = {
  mode: "vega-lite", renderer: "canvas", actions: false, defaultStyle: false, logLevel: 1,
  ast: true, // expressions are interpreted: the page's rules forbid to make code of text
};
const queue = new Map();
let running = false;

// Charts are drawn a few per frame, so that the page stays responsive while all of them change; what everybody watches
// comes first.
function enqueue(chart) {
  queue.set(chart, true);
  if (!running) {
    running = true;
    requestAnimationFrame(drain);
  }
}

async function drain() {
  const begin = performance.now();
  while (queue.size && performance.now() - begin < 30) {
    const chart = [...queue.keys()].find(({ panel }) => panel?.group === "performance") ?? [...queue.keys()][0];
    queue.delete(chart);
    await chart.draw();
  }
  running = queue.size > 0;
  if (running) requestAnimationFrame(drain);
}

export class Chart {
  constructor(holder, large = false) {
    Object.assign(this, { holder, large, visible: false, dead: false, onDrawn: null, onPoint: () => {} });
    Object.assign(this, { view: null, panel: null, span: null, look: "", drawn: "", shown: {}, updates: 0 });
    this.watch = new ResizeObserver(() => enqueue(this));
    this.watch.observe(holder);
    this.sight = new IntersectionObserver((seen) => {
      this.visible = seen.at(-1).isIntersecting;
      if (this.visible) enqueue(this);
    }, { rootMargin: "120px" });
    this.sight.observe(holder);
  }

  show(panel) {
    this.panel = panel;
    enqueue(this);
  }

  // Zoom at once, before the server sends the finer data of the window.
  zoom(low, high) {
    this.span = low === null ? null : [low, high];
    if (this.view && this.panel.steps) enqueue(this);
  }

  async draw() {
    if (this.dead || !this.visible || !this.panel?.spec) return; // what nobody sees is drawn when it comes into sight
    const [width, height] = [this.holder.clientWidth, this.holder.clientHeight];
    if (width < 40 || height < 30) return;
    try {
      const config = await chartConfig(this.large);
      const { spec, legends } = prepared(this.panel, width, height, config);
      const look = `${this.panel.marks.split(".")[0]} ${theme()} ${sized(spec) ? legends : `${width}x${height}`} ${wording(this.panel.params)}`;
      if (!this.view || look !== this.look || this.updates > RENEW) await this.embed(look, width, height, { spec, config });
      else await this.feed(width, height);
      this.holder.dataset.points = this.shown.lines?.length ?? 0;
      [this.holder.dataset.first, this.holder.dataset.last] = this.shownSpan();
      this.onDrawn?.(this);
    } catch (error) {
      console.error(`panel ${this.panel.id}:`, error);
    }
  }

  async embed(look, width, height, { spec, config }) {
    const { panel } = this; // a newer one may arrive meanwhile, and is drawn next
    const place = document.createElement("div");
    place.className = "vega";
    const embed = await library;
    const tooltip = (handler, event, item, value) => this.onPoint(event, value, item?.datum); // the library's own would be HTML
    const { view } = await embed(place, spec, { ...OPTIONS, config, tooltip });
    if (this.dead) return view.finalize();
    this.view?.finalize();
    Object.assign(this, { view, look, width, height, updates: 0, drawn: panel.marks, shown: panel.datasets, uses: used(spec) });
    this.holder.replaceChildren(place);
    if (this.applySignals()) await view.runAsync();
  }

  async feed(width, height) {
    const { panel } = this;
    let changed = this.applySignals();
    if (sized(this.panel.spec) && (this.width !== width || this.height !== height)) {
      this.view.width(width).height(height).resize();
      [this.width, this.height] = [width, height];
      changed = true;
    }
    if (this.drawn !== panel.marks) {
      for (const [name, rows] of Object.entries(panel.datasets)) {
        if (this.shown[name] !== rows && this.uses.has(name)) this.view.data(name, rows);
      }
      this.shown = panel.datasets;
      this.drawn = panel.marks;
      this.updates += 1;
      changed = true;
    }
    if (changed) await this.view.runAsync();
  }

  applySignals() {
    const wanted = { ...this.panel.params };
    if (this.span && "lo" in wanted) [wanted.lo, wanted.hi] = this.span;
    let changed = false;
    for (const [name, value] of Object.entries(wanted)) {
      if (JSON.stringify(this.view.signal(name)) !== JSON.stringify(value)) {
        this.view.signal(name, value);
        changed = true;
      }
    }
    return changed;
  }

  // First and last step of the picture, as its axis has them.
  shownSpan() {
    const domain = this.frame()?.scale.domain() ?? ["", ""];
    return [domain[0], domain.at(-1)];
  }

  // Where a step lies inside the holder, in pixels; null outside the plot.
  place(step) {
    const frame = this.frame();
    if (!frame) return null;
    const x = frame.scale(step);
    return x >= -0.5 && x <= frame.width + 0.5 ? { x: frame.left + x, top: frame.top, height: frame.height } : null;
  }

  stepAt(x) {
    const frame = this.frame();
    if (!frame) return null;
    return frame.scale.invert(Math.min(Math.max(x - frame.left, 0), frame.width));
  }

  // The value at a height inside the holder, and the place at a width, by the chart's own axes; null where it has none.
  valueAt(y) {
    return this.inverted("y", y, 1);
  }

  xAt(x) {
    return this.inverted("x", x, 0);
  }

  inverted(name, at, side) {
    try {
      const origin = [this.view.padding().left, this.view.padding().top][side] + this.view.origin()[side];
      const found = this.view.scale(name)?.invert?.(at - origin);
      return typeof found === "number" && Number.isFinite(found) ? found : null;
    } catch {
      return null; // a composed panel
    }
  }

  frame() {
    if (!this.view || !this.panel.steps) return null;
    try {
      const [scale, pad, origin] = [this.view.scale("x"), this.view.padding(), this.view.origin()];
      if (!scale?.invert) return null;
      return { scale, left: pad.left + origin[0], top: pad.top + origin[1], width: this.view.width(), height: this.view.height() };
    } catch {
      return null; // a composed panel has no single step axis
    }
  }

  destroy() {
    this.dead = true;
    queue.delete(this);
    this.watch.disconnect();
    this.sight.disconnect();
    this.view?.finalize();
    this.view = null;
  }
}

// How long the words of a legend are: it is laid out once, so longer ones need a new chart.
const wording = (params) => Object.entries(params ?? {}).filter(([name]) => /^(label|mean)_/.test(name)).map(([, text]) => text.length).join();

// A single view takes any size; a composed one is made anew for each.
const sized = (spec) => !["hconcat", "vconcat", "concat", "facet", "repeat"].some((key) => key in spec);

// The data sets that a specification really draws; a view does not know the others.
function used(spec, found = new Set()) {
  if (spec && typeof spec === "object") {
    if (typeof spec.data?.name === "string") found.add(spec.data.name);
    for (const [key, part] of Object.entries(spec)) if (key !== "datasets") used(part, found);
  }
  return found;
}

function prepared(panel, width, height, config) {
  const spec = structuredClone(panel.spec);
  spec.datasets = panel.datasets;
  if (sized(spec)) {
    spec.width = width;
    spec.height = height;
    spec.autosize = { type: "fit", contains: "padding" };
  }
  const legends = fitLegends(spec, width, panel.params ?? {}, config);
  for (const param of spec.params ?? []) {
    if (param.name in (panel.params ?? {})) param.value = panel.params[param.name];
    if (param.name === "width") param.value = width;
    if (param.name === "height") param.value = height;
  }
  return { spec, legends };
}
