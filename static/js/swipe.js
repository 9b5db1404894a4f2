/** Swiping sideways with a finger, away from everything that itself moves or scrolls sideways. */

const FAR_PX = 70;
const TAKEN = "input, canvas, .js-plotly-plot, [role='slider']";

/** Calls `go(1)` for a swipe towards the start of the line, `go(-1)` for one back. */
export function onSwipe(host, go) {
  let from = null;
  host.addEventListener("touchstart", ({ touches, target }) => {
    const [touch] = touches;
    from = touches.length === 1 && !isTaken(target, host) ? { x: touch.clientX, y: touch.clientY } : null;
  }, { passive: true });
  host.addEventListener("touchend", ({ changedTouches: [touch] }) => {
    if (from === null) return;
    const [x, y] = [touch.clientX - from.x, touch.clientY - from.y];
    from = null;
    if (Math.abs(x) > FAR_PX && Math.abs(x) > 2 * Math.abs(y)) go(x < 0 ? 1 : -1);
  }, { passive: true });
}

function isTaken(target, host) {
  if (target.closest(TAKEN) !== null) return true;
  for (let node = target; node !== host && node !== null; node = node.parentElement) {
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).overflowX !== "visible") return true;
  }
  return false;
}
