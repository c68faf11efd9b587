// What the page knows of each panel, so that the server sends only what changed.

export class Known {
  constructor() {
    this.panels = new Map();
  }

  // What to tell the server.
  get marks() {
    return [...this.panels].map(([id, panel]) => `${id}:${panel.marks}`).join(",");
  }

  // Complete an answer's panels with what is known of them.
  merge(panels) {
    const whole = panels.map((panel) => {
      const old = this.panels.get(panel.id);
      const datasets = panel.datasets ?? old?.datasets ?? {};
      return { ...panel, spec: panel.spec ?? old?.spec, datasets };
    });
    this.panels = new Map(whole.map((panel) => [panel.id, panel]));
    return whole;
  }

  forget() {
    this.panels.clear();
  }
}
