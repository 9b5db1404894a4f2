/** Line icons of 16 units that take the colour of the text around them. */

import { button, shape } from "./dom.js";

const ICONS = {
  back: "M10 3 5 8l5 5",
  bad: "M4 3h8v6H7l2 4-2 1-3-5z",
  copy: "M5 5h8v8H5zM3 11V3h8",
  edit: "M3 13l1-3 7-7 2 2-7 7z",
  forward: "M6 3l5 5-5 5",
  good: "M4 13h8V7H9l-2-4-2 1 2 3-3 6z",
  hold: "M8 2a6 6 0 1 0 .01 0M6.5 5.5v5M9.5 5.5v5",
  menu: "M2 4h12M2 8h12M2 12h12",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  again: "M13 8a5 5 0 1 1-2-4l2 1V2",
  pause: "M5 3v10M11 3v10",
  play: "M5 3l8 5-8 5z",
  plus: "M8 3v10M3 8h10",
  send: "M8 13V3M4 7l4-4 4 4",
  settings: "M2 5h7M13 5h1M2 11h1M7 11h7M9 3v4M5 9v4",
  share: "M8 10V2M5 5l3-3 3 3M4 8H3v6h10V8h-1",
  stop: "M4 4h8v8H4z",
  theme: "M8 2a6 6 0 1 0 0 12zM8 2v12a6 6 0 0 0 0-12",
};

/** The button around an icon carries its name; the icon itself is not read out. */
export function icon(name) {
  return shape("svg", { viewBox: "0 0 16 16", class: `icon icon-${name}`, "aria-hidden": "true" }, shape("path", { d: ICONS[name] }));
}

/** A button that shows an icon and is named for those who do not see it. */
export function iconButton(name, label, properties = {}) {
  const { class: more = "", ...rest } = properties;
  return button(icon(name), null, { class: `icon-button ${more}`.trim(), "aria-label": label, title: label, ...rest });
}
