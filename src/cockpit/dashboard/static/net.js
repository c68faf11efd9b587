// Talking to the server: at most one request of a kind under way, and news as they happen.

export const GONE =
  "The server does not answer. Is `cockpit ui` still running? Start it again; this page reconnects by itself.";
const BREATH = 250; // milliseconds between two readings of the same thing

export class Trouble extends Error {}

export async function ask(path, signal) {
  let answer;
  try {
    answer = await fetch(path, { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble(GONE);
  }
  if (answer.status === 401) throw new Trouble(await answer.text());
  const content = await answer.json().catch(() => ({ error: `The server answered ${answer.status}. Reload the page.` }));
  if (!answer.ok) {
    const said = content.error ?? `The server answered ${answer.status}. Reload the page.`;
    throw Object.assign(new Trouble(said), { status: answer.status });
  }
  return content;
}

// The one request that changes anything on disk.
export async function tell(action, run, more = {}) {
  const body = JSON.stringify({ action, run, ...more });
  const answer = await fetch("api/manage", { method: "POST", body, headers: { "content-type": "application/json" } })
    .catch(() => { throw new Trouble(GONE); });
  if (answer.ok) return;
  const text = await answer.text();
  let said = text;
  try {
    said = JSON.parse(text).error ?? text;
  } catch { /* the guard answers in plain words */ }
  throw new Trouble(said);
}

// Asks again only when the last answer is in; a changed question replaces the one under way.
export class Poll {
  constructor(path, use, fail) {
    Object.assign(this, { path, use, fail, busy: false, again: false, abort: null, rest: null });
  }

  refresh({ changed = false } = {}) {
    if (this.busy) {
      this.again = true;
      if (changed) this.hurry();
      return;
    }
    this.run();
  }

  // The answer under way, or the pause after it, is no longer of interest.
  hurry() {
    this.abort?.abort();
    this.rest?.();
  }

  async run() {
    this.busy = true;
    this.again = false;
    this.abort = new AbortController();
    const begin = performance.now();
    try {
      const path = this.path();
      if (path) await this.use(await ask(path, this.abort.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.fail(error);
    }
    await this.pause(Math.max((performance.now() - begin) / 2, BREATH));
    this.busy = false;
    if (this.again) this.run();
  }

  // A page that takes long to fill must still answer to the hand in between.
  pause(time) {
    return new Promise((go) => {
      const timer = setTimeout(go, Math.min(time, 500));
      this.rest = () => {
        clearTimeout(timer);
        go();
      };
    });
  }
}

// A browser keeps few connections to one server, for all its tabs together: a tab out of sight gives its one back.
export class Stream {
  constructor(onChanged, onState) {
    Object.assign(this, { onChanged, onState, events: null, again: null });
  }

  open() {
    if (this.events) return;
    const events = new EventSource("api/events");
    this.events = events;
    events.onopen = () => this.onState(true);
    events.onerror = () => {
      this.onState(false);
      if (events.readyState !== EventSource.CLOSED) return; // it tries again by itself
      this.close();
      this.again = setTimeout(() => this.open(), 2000);
    };
    events.onmessage = (message) => this.onChanged(JSON.parse(message.data));
  }

  close() {
    clearTimeout(this.again);
    this.events?.close();
    this.events = null;
  }
}
