// What the page knows of each panel, so that the server sends only what changed.

export class Known {
  constructor() {
    this.panels = new Map();
  }

  // What to tell the server.
  get marks() {
    return this.marksOf();
  }

  // Of one column among several.
  marksOf(place = null) {
    const before = place === null ? "" : `${place}~`;
    return [...this.panels].map(([id, panel]) => `${before}${id}:${panel.marks}`).join(",");
  }

  // Complete an answer's panels with what is known of them; keep those that it does not mention, or drop them.
  merge(panels, keep = false) {
    const whole = panels.map((panel) => {
      const old = this.panels.get(panel.id);
      const datasets = panel.datasets ?? old?.datasets ?? {};
      return { ...panel, spec: panel.spec ?? old?.spec, datasets };
    });
    this.panels = new Map([...(keep ? this.panels : []), ...whole.map((panel) => [panel.id, panel])]);
    return [...this.panels.values()];
  }

  forget() {
    this.panels.clear();
  }
}
