// Where everything meets: what is shown follows the state, data follow the events.

import { Bench } from "./bench.js";
import { followList } from "./choice.js";
import { Compare } from "./compare.js";
import { showControls, wireControls } from "./controls.js";
import { followZoom } from "./cursor.js";
import { Deck } from "./deck.js";
import { Details, Findings } from "./details.js";
import { byId, icon, write } from "./dom.js";
import { wireDivider } from "./divider.js";
import { Focus } from "./focus.js";
import { help, wireKeys } from "./keys.js";
import { Layers } from "./layers.js";
import { wireManage } from "./manage.js";
import { GONE, Poll, Stream } from "./net.js";
import { draw as drawRuns, showRuns, toggleHidden } from "./runs.js";
import { habit, remember, set, state, subscribe } from "./state.js";
import { apply, onTheme, theme, toggleTheme } from "./theme.js";
import { Table } from "./table.js";
import { judged, showHead } from "./topbar.js";
import { library } from "./library.js";

const NOTICE = 15000; // milliseconds
const LIST = 900; // milliseconds between two readings of the list
const pages = {
  deck: new Deck(byId("deck")), layers: new Layers(byId("layers")), compare: new Compare(byId("compare")),
  findings: new Findings(byId("findings")), details: new Details(byId("details")),
  table: new Table(byId("table")), bench: new Bench(byId("bench")),
};
let asked = null; // the page that the request under way is for
const data = new Poll(() => pages[(asked = state.tab)].path(), useData, fail);
const list = new Poll(() => "api/runs", useList, fail);
const focus = new Focus(fail, showHead);
const stream = new Stream(news, connection);
let listDue = null;
let noticed = null; // a notice stays for a while, whatever arrives

async function useData(answer) {
  if (asked !== state.tab) return;
  if (!noticed) hush();
  document.body.classList.remove("waiting");
  if (answer.runs) {
    showHead(answer.runs, answer.now);
    drawRuns();
    byId("tab-findings").hidden = !judged(answer.runs);
    if (state.tab === "findings" && !judged(answer.runs)) return set({ tab: "deck" }, { replace: true });
  }
  await pages[state.tab].show(answer);
}

function useList(answer) {
  showRuns(answer);
  const none = answer.runs.length === 0;
  document.body.classList.toggle("blank-slate", none && !answer.results_alone);
  document.body.classList.toggle("results-alone", answer.results_alone);
  write(byId("folder"), answer.folder);
  followList(answer.runs, notice);
  if (none) showHead([], answer.now);
  if (answer.results_alone && state.tab !== "bench") set({ tab: "bench" }, { replace: true });
}

function notice(text) {
  hush();
  if (!text) return;
  byId("trouble").hidden = false;
  byId("trouble").classList.add("notice");
  write(byId("trouble-text"), text);
  noticed = setTimeout(hush, NOTICE);
}

function hush() {
  clearTimeout(noticed);
  noticed = null;
  byId("trouble").hidden = true;
  byId("trouble").classList.remove("notice");
  write(byId("trouble-text"), "");
}

function fail(error) {
  document.body.classList.remove("waiting");
  if (error.status === 404) list.refresh(); // a run is gone: the list tells which one
  if (noticed && error.status === 404) return;
  hush();
  byId("trouble").hidden = false;
  write(byId("trouble-text"), error.message);
}

function show(changed = []) {
  for (const [name, page] of Object.entries(pages)) {
    byId(name).hidden = name !== state.tab;
    byId(`tab-${name}`).setAttribute("aria-selected", String(name === state.tab));
    byId(`tab-${name}`).tabIndex = name === state.tab ? 0 : -1;
    if (changed.includes("runs") && name !== state.tab) page.forget();
  }
  showControls();
  drawRuns();
  if (changed.includes("lo") || changed.includes("hi")) followZoom();
  if (changed.length === 1 && changed[0] === "panel" && state.panel) return focus.follow(); // else the deck catches up
  if (changed.includes("runs")) document.body.classList.add("waiting");
  focus.follow();
  data.refresh({ changed: true });
}

function news({ changed, listed }) {
  if (document.hidden) return;
  if (["bench", "table"].includes(state.tab) ? listed : changed.some((id) => state.runs.includes(id))) (focus.open ? focus.poll : data).refresh();
  if (listed) listDue ??= setTimeout(() => {
    listDue = null;
    list.refresh();
  }, LIST);
}

function connection(there) {
  const lost = document.body.classList.contains("offline");
  document.body.classList.toggle("offline", !there);
  if (lost && there) hush();
  if (there) refreshAll(); // what changed before the events began is not told by them
  else fail(new Error(GONE));
}

function refreshAll() {
  list.refresh();
  (focus.open ? focus.poll : data).refresh();
}

// The stream begins with a refresh of everything.
function watch() {
  if (document.hidden) stream.close();
  else stream.open();
}

function toggleRuns() {
  const phone = window.matchMedia("(max-width: 760px)").matches;
  if (phone) document.body.classList.toggle("drawer");
  else remember({ narrow: document.body.classList.toggle("narrow") });
}

function wire() {
  document.body.classList.toggle("narrow", habit("narrow", false));
  const buttons = [["toggle-runs", "menu", toggleRuns], ["open-help", "help", help], ["toggle-theme", "sun", toggleTheme]];
  for (const [id, name, action] of buttons) {
    byId(id).append(icon(name));
    byId(id).addEventListener("click", action);
  }
  byId("scrim").addEventListener("click", toggleRuns);
  byId("filter").addEventListener("input", drawRuns);
  byId("close-help").addEventListener("click", help);
  byId("dismiss").addEventListener("click", hush);
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.addEventListener("click", () => set({ tab: tab.value }));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const tabs = [...document.querySelectorAll("[role=tab]:not([hidden])")];
      const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  }
  wireControls();
  wireDivider();
  wireManage(fail);
  byId("hidden-runs").addEventListener("click", toggleHidden);
  wireKeys({ focus, toggleRuns });
}

function begin() {
  wire();
  apply();
  onTheme(() => {
    byId("toggle-theme").replaceChildren(icon(theme() === "dark" ? "sun" : "moon"));
    refreshAll();
  });
  byId("toggle-theme").replaceChildren(icon(theme() === "dark" ? "sun" : "moon"));
  subscribe(show);
  show();
  list.refresh();
  watch();
  document.addEventListener("visibilitychange", watch);
  window.addEventListener("cockpit-list", refreshAll);
  window.addEventListener("cockpit-refresh", () => data.refresh({ changed: true }));
}

library.catch(fail);
begin();
