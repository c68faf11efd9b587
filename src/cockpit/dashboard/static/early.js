// Before the first paint, so that a dark page never flashes white.
try {
  const chosen = JSON.parse(localStorage.getItem("cockpit"))?.theme;
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch { /* nothing was chosen */ }
