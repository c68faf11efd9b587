// The values of a panel at a step, read from the rows its lines were drawn from.

const tables = new WeakMap(); // datasets: series that can be searched
const [NAMED, COLOURED] = [3, 6]; // values that fit into a panel's head: with their names, or in their colours
const LETTERS = 20; // of all names together
const WORDS = { all: "all steps", last: "last steps" }; // of the distribution of Alpha
let colours = new Map();
let shown = new Map(); // run: the colour in which it is drawn now

export const colourOf = ({ id, colour }) => shown.get(id) ?? colour;

// Runs by the names that the panels give them: told apart by a number where two share one.
export function learnColours(heads) {
  const seen = new Map();
  shown = new Map(heads.map(({ id, colour }) => [id, colour]));
  colours = new Map(heads.map(({ name, colour }) => {
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return [seen.get(name) === 1 ? name : `${name} (${seen.get(name)})`, colour];
  }));
}

// Values with a name or, where several runs are shown, the first quantity of each with the run's colour.
export function valuesAt(panel, step) {
  const all = seriesOf(panel);
  const several = new Set(all.map((series) => series.run)).size > 1;
  if (!several && all.length > NAMED) return []; // whoever points at the panel itself sees them all
  const shown = several ? all.filter((series) => series.label === all[0].label).slice(0, COLOURED) : all.slice(0, NAMED);
  const letters = shown.reduce((sum, series) => sum + series.label.length, 0);
  const named = !several && all.length > 1 && letters <= LETTERS; // else the legend tells the order
  return shown.flatMap((series) => {
    const value = valueAt(series, step);
    if (value === null) return [];
    const colour = several ? colours.get(series.run) : all.length > 1 ? lineColour(panel.spec, series.label) : null;
    return [{ name: named ? series.label : "", value, colour }];
  });
}

// All series of a panel over steps: name, value at the step, colour.
export function everyAt(panel, step) {
  const all = seriesOf(panel);
  const several = new Set(all.map((series) => series.run)).size > 1;
  const labelled = new Set(all.map((series) => series.label)).size > 1;
  return all.flatMap((series) => {
    const value = valueAt(series, step);
    if (value === null) return [];
    const label = `${series.label || panel.title}${series.median ? ", median" : ""}`;
    const parts = [several ? series.run : "", labelled || !several ? label : ""];
    const colour = several ? colours.get(series.run) : all.length > 1 ? lineColour(panel.spec, series.label) : null;
    return [{ name: parts.filter(Boolean).join(" \u00b7 "), value, colour }];
  });
}

// The curves of a panel whose horizontal axis is not the step, at a place on it: bars, outlines, hills.
export function probe(panel, x, datum) {
  if (x === null) return [];
  const ridge = panel.datasets.ridges ? { ridges: panel.datasets.ridges.filter((row) => row.k === datum?.k) } : {};
  const { bars = [], lines = [], ridges = [] } = { ...panel.datasets, ...ridge };
  const curves = new Map();
  for (const row of [...bars, ...lines, ...ridges]) {
    if (typeof row.x !== "number" || typeof row.v !== "number") continue;
    const key = JSON.stringify([row.run, row.k]);
    if (!curves.has(key)) curves.set(key, { run: row.run, label: ridges.length ? "elements" : row.k, rows: [] });
    curves.get(key).rows.push(row);
  }
  const several = new Set([...curves.values()].map(({ run }) => run)).size > 1;
  return [...curves.values()].flatMap(({ run, label, rows }) => {
    const row = rows.findLast((one) => one.x <= x && (one.x2 === undefined || x < one.x2));
    if (!row || (row.x2 === undefined && x > rows.at(-1).x)) return [];
    const colour = several ? colours.get(run) ?? null : null;
    return [{ name: [several ? run : "", WORDS[label] ?? label ?? panel.title].filter(Boolean).join(" \u00b7 "), value: row.v, colour, at: row.x }];
  });
}

// The colour that the legend gives a series.
function lineColour(spec, label) {
  for (const { encoding } of spec?.layer ?? []) {
    const scale = encoding?.color?.scale;
    const place = scale?.domain?.indexOf?.(label) ?? -1;
    if (place >= 0) return scale.range[place];
  }
  return null;
}

// The last value at or before a step; null before the first and after the last: nothing was measured there.
function valueAt({ rows }, step) {
  if (!rows.length || step < rows[0].step || step > rows.at(-1).step) return null;
  return rows[search(rows, step)].v;
}

function seriesOf(panel) {
  if (!tables.has(panel.datasets)) tables.set(panel.datasets, collect(panel.datasets));
  return tables.get(panel.datasets);
}

function collect({ lines = [], dots = [], edge = [] }) {
  const all = new Map();
  const add = (row, v) => {
    const key = JSON.stringify([row.run, row.k]);
    if (!all.has(key)) all.set(key, { run: row.run, label: row.k ?? "", rows: [] });
    all.get(key).rows.push({ step: row.step, v });
    all.get(key).median ||= row.m === 1;
  };
  for (const row of dots) if (typeof row.v === "number") add(row, row.a ?? row.v);
  for (const row of lines) if (typeof row.v === "number" && typeof row.step === "number") add(row, row.v);
  for (const row of edge) if (typeof row.step === "number") add(row, row.e === "bad" ? "NaN" : 0); // not on the line
  for (const series of all.values()) series.rows.sort((a, b) => a.step - b.step);
  return [...all.values()];
}

// The last row whose step is not after this one.
function search(rows, step) {
  let [low, high] = [0, rows.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rows[middle].step <= step) low = middle;
    else high = middle - 1;
  }
  return low;
}
