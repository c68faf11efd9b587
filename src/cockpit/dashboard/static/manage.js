// Hide, rename and delete runs: asked back, and only in a browser on the machine that serves the page.

import { byId, el } from "./dom.js";
import { tell } from "./net.js";

export const manages = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

let open = null; // the menu that is open
let fail = () => {};

export function wireManage(onTrouble) {
  fail = onTrouble;
  document.addEventListener("pointerdown", (event) => open && !open.contains(event.target) && shut());
  document.addEventListener("keydown", (event) => event.key === "Escape" && shut());
}

function shut() {
  open?.remove();
  open = null;
}

// The menu of a run, at the button that was pressed.
export function offer(run, at) {
  shut();
  const item = (text, action, kind = "") => el("button", { type: "button", role: "menuitem", class: kind, text, onclick: () => { shut(); action(); } });
  open = el("div", { class: "sheet run-menu", role: "menu" }, item("Rename \u2026", () => rename(run)),
    item(run.hidden ? "Show again" : "Hide", () => change(run.hidden ? "show" : "hide", [run])), item("Delete \u2026", () => remove([run]), "danger"));
  const edge = at.getBoundingClientRect();
  document.body.append(open);
  open.style.left = `${Math.min(edge.left, innerWidth - open.offsetWidth - 6)}px`;
  open.style.top = `${Math.min(edge.bottom + 2, innerHeight - open.offsetHeight - 6)}px`;
  open.querySelector("button").focus();
}

export async function change(action, runs, more = {}) {
  for (const run of runs) {
    try {
      await tell(action, run.id, more);
    } catch (error) {
      fail(new Error(`${run.name}: ${error.message}`));
    }
  }
  window.dispatchEvent(new Event("cockpit-list"));
}

export function remove(runs) {
  const [first] = runs;
  const which = runs.length === 1 ? `the run ${first.name}` : `${runs.length} runs`;
  const folders = el("ul", { class: "folders" }, ...runs.slice(0, 12).map((run) => el("li", { text: run.id })), runs.length > 12 && el("li", { text: `and ${runs.length - 12} more` }));
  ask(`Delete ${which}?`, [el("p", { text: "What was recorded is removed from the disk; this cannot be undone. To only clear the list, hide instead." }), folders],
    "Delete", "danger", () => change("delete", runs));
}

function rename(run) {
  const name = el("input", { type: "text", value: run.name, maxlength: "200", "aria-label": "Name", autocomplete: "off", spellcheck: "false" });
  ask(`Rename ${run.name}`, [name], "Rename", "", () => name.value.trim() && name.value !== run.name && change("rename", [run], { name: name.value }));
  name.select();
}

function ask(title, content, word, kind, action) {
  const dialog = byId("sure");
  const go = (event) => { event.preventDefault(); dialog.close(); action(); };
  const form = el("form", { method: "dialog", onsubmit: go }, el("h2", { text: title }), ...content,
    el("div", { class: "choices" }, el("button", { type: "button", class: "plain", text: "Cancel", onclick: () => dialog.close() }), el("button", { type: "submit", class: `plain ${kind}`, text: word })));
  dialog.replaceChildren(form);
  dialog.showModal();
  (form.querySelector("input") ?? form.querySelector("button")).focus();
}
