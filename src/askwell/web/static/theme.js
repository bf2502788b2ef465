// Light or dark: the system's choice until the person makes another. Runs before the first paint.
(() => {
  const kept = (() => { try { return localStorage.getItem("askwell-theme"); } catch { return null; } })();
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
