// Before the first paint, so that a dark page never flashes white.
let chosen = null;
try {
  chosen = JSON.parse(localStorage.getItem("cockpit"))?.theme;
} catch { /* nothing was chosen */ }
document.documentElement.dataset.theme = chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
