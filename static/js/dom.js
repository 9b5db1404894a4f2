/** Making elements. Text always goes in as text; styles only as classes and custom properties. */

/**
 * `element("td", {class: "numeric", "data-name": "norm", onclick: choose, vars: {share: 0.4}}, "0.4", node, …)`
 *
 * Attributes that are null, undefined or false are left out; `on…` takes a listener; `vars` sets custom properties;
 * children that are null, undefined or false are left out, lists are flattened.
 */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "vars") Object.entries(value).forEach(([key, one]) => node.style.setProperty(`--${key}`, one));
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A button that says what it does. */
export function button(title, onclick, attributes = {}) {
  return element("button", { type: "button", onclick, ...attributes }, title);
}

/** A form whose Enter key and submit button call `submit()`; the page stays. */
export function form(submit, attributes, ...children) {
  return element("form", {
    ...attributes,
    onsubmit(event) {
      event.preventDefault();
      submit();
    },
  }, ...children);
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** An arrow key as [right, down], which then does nothing else on the page; undefined for any other key. */
export function arrow(event) {
  const moved = ARROWS[event.key];
  if (moved) {
    event.preventDefault();
    event.stopPropagation();
  }
  return moved;
}

/** An attribute's value while it holds, else no such attribute. */
export function mark(node, name, value) {
  if (value) node.setAttribute(name, value);
  else node.removeAttribute(name);
}

/**
 * Put `nodes` in the place of what `host` holds, as one change, keeping what a reader has set in the old content: the
 * focus (by `data-focus`), opened folds (by `data-fold`) and scrolled boxes (by `data-scroll`).
 */
export function swap(host, ...nodes) {
  const focused = host.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  const open = new Set([...host.querySelectorAll("details[data-fold][open]")].map(({ dataset }) => dataset.fold));
  const scrolled = [...host.querySelectorAll("[data-scroll]")].map((box) => [
    box.dataset.scroll, box.scrollLeft, box.scrollTop,
  ]);
  host.replaceChildren(...nodes.flat(Infinity).filter((node) => node !== null && node !== undefined && node !== false));
  for (const fold of host.querySelectorAll("details[data-fold]")) if (open.has(fold.dataset.fold)) fold.open = true;
  for (const [name, left, top] of scrolled) {
    const box = host.querySelector(`[data-scroll="${CSS.escape(name)}"]`);
    if (box) Object.assign(box, { scrollLeft: left, scrollTop: top });
  }
  for (const row of host.querySelectorAll("[data-scroll] [aria-current]")) bringIntoBox(row.closest("[data-scroll]"), row);
  if (focused !== undefined) {
    host.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
}

/** Scroll the box around a row, and nothing else, until the row is seen. The box is what the row's place is counted from. */
export function bringIntoBox(box, row) {
  const above = row.offsetTop < box.scrollTop + row.offsetHeight; // a heading sticks to the top
  const below = row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight;
  if (above || below) box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

/** Show HTML that the server has sanitised: the only place where a string becomes markup. */
export function setServerHtml(node, html) {
  node.innerHTML = html;
}

/** Set the text only where it differs: an equal write would still cost a layout and disturb a selection. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The same as `element` for shapes of a picture; attributes are the shape's own. */
export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
