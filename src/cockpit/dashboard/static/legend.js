// Legends above a picture: as much of their words as there is room for.

const [WIDE, NARROW] = [{ dash: 14, gap: 8 }, { dash: 8, gap: 4 }];
const BESIDE = 52; // pixels of the vertical axis and the margins
const OFFSET = 4; // pixels between symbol and label
const SHORTEST = 24; // pixels of a label that is cut

const pen = document.createElement("canvas").getContext("2d");

// Fits the legends of a specification to a width; the same answer for the same look.
export function fitLegends(spec, width, words, config) {
  pen.font = `${config.legend.labelFontSize}px ${config.font}`;
  return legends(spec).map((part) => fit(part, width - BESIDE, words)).join();
}

function legends(part, found = []) {
  if (!part || typeof part !== "object") return found;
  if (part.legend?.orient === "top" && part.scale?.domain) found.push(part);
  for (const [key, inner] of Object.entries(part)) if (key !== "datasets") legends(inner, found);
  return found;
}

// First closer together, then without what follows a comma or the first word, at last cut.
function fit({ legend, scale }, room, words) {
  const told = scale.domain.map((label) => String(words[`label_${label}`] ?? `${label}${words[`mean_${label}`] ?? ""}`));
  const square = legend.symbolType === "square";
  const needed = (labels, { dash, gap }) => labels.reduce((sum, text) => sum + pen.measureText(text).width + (square ? 8 : dash) + OFFSET + gap, 0);
  if (needed(told, WIDE) <= room) return "wide";
  Object.assign(legend, { columnPadding: NARROW.gap, symbolSize: 60 });
  if (needed(told, NARROW) <= room) return "narrow";
  for (const end of legend.labelExpr ? [",", " "] : []) {
    const short = told.map((text) => text.split(end)[0]);
    if (needed(short, NARROW) > room) continue;
    legend.labelExpr = `split(${legend.labelExpr}, '${end}')[0]`;
    return `up to '${end}'`;
  }
  legend.labelLimit = Math.max(room / told.length - NARROW.dash - OFFSET - NARROW.gap, SHORTEST);
  return `cut ${Math.round(legend.labelLimit)}`;
}
