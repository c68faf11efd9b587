// The values of a panel at a step, read from the rows its lines were drawn from.

const tables = new WeakMap(); // datasets: series that can be searched
const NAMED = 3; // series whose values fit into a panel's head

export function nearest(panel, step) {
  const found = [];
  for (const series of seriesOf(panel)) {
    const row = series.rows[search(series.rows, step)];
    if (row) found.push([series.name, row.v]);
  }
  return found.slice(0, NAMED);
}

function seriesOf(panel) {
  if (!tables.has(panel.datasets)) tables.set(panel.datasets, collect(panel.datasets.lines ?? []));
  return tables.get(panel.datasets);
}

function collect(lines) {
  const all = new Map();
  for (const row of lines) {
    if (typeof row.v !== "number" || typeof row.step !== "number") continue;
    const key = JSON.stringify([row.run, row.k]);
    if (!all.has(key)) all.set(key, { run: row.run, label: row.k, rows: [] });
    all.get(key).rows.push(row);
  }
  const found = [...all.values()];
  const [runs, labels] = [new Set(found.map((one) => one.run)), new Set(found.map((one) => one.label))];
  for (const series of found) {
    series.rows.sort((a, b) => a.step - b.step);
    series.name = [runs.size > 1 && series.run, labels.size > 1 && series.label].filter(Boolean).join(" ");
  }
  return found;
}

function search(rows, step) {
  let [low, high] = [0, rows.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle].step < step) low = middle + 1;
    else high = middle;
  }
  return low > 0 && step - rows[low - 1].step < rows[low].step - step ? low - 1 : low;
}
