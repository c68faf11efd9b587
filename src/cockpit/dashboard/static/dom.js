// Elements are made here, and text enters them as text only: names of runs and metrics are never HTML.

const PATHS = {
  menu: "M3 6h18M3 12h18M3 18h18",
  close: "M5 5l14 14M19 5L5 19",
  sun: "M12 4V2M12 22v-2M4 12H2M22 12h-2M6 6L4.6 4.6M19.4 19.4L18 18M6 18l-1.4 1.4M19.4 4.6L18 6M12 8a4 4 0 100 8 4 4 0 000-8z",
  moon: "M20 14.5A8.5 8.5 0 019.5 4a8.5 8.5 0 1010.5 10.5z",
  help: "M9 9a3 3 0 116 0c0 2-3 2.5-3 5M12 18v.5",
  expand: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  download: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  reset: "M4 12a8 8 0 108-8H6M9 1L6 4l3 3",
  layers: "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5",
};

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else if (key === "data") Object.assign(node.dataset, value);
    else if (key === "value" || key === "checked" || key === "disabled") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function icon(name) {
  const svg = svgElement("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" });
  svg.append(svgElement("path", { d: PATHS[name] }));
  return svg;
}

export function svgElement(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

export function button(name, label, action, extra = {}) {
  const props = { type: "button", class: "icon-button", title: label, "aria-label": label, onclick: action };
  return el("button", { ...props, ...extra }, icon(name));
}

// Writes only what changed, so that a selection or a screen reader is not disturbed at every update.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const byId = (id) => document.getElementById(id);

// A name that is too long loses its middle: runs of a sweep differ at the end.
const [LONG, TAIL] = [16, 9];
export function nameIn(node, name) {
  if (node.title === name && node.firstChild) return;
  node.title = name;
  const letters = [...name];
  const cut = letters.length > LONG ? letters.length - TAIL : letters.length;
  node.replaceChildren(el("span", { class: "head", text: letters.slice(0, cut).join("") }), el("span", { text: letters.slice(cut).join("") }));
}
