/* Runs before the first paint, hence not a module: a chosen theme must not flash the other one. */
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
