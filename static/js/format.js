/** Numbers, units, durations and sizes as text: at most six significant digits, commas in long numbers. */

const SPACE = "\u202f"; // narrow no-break space: between a number and its unit
const MINUS = "\u2212";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Words for what is not a finite number, else null. */
function words(value) {
  if (value === null || value === undefined) return "none";
  if (Number.isNaN(value)) return "not a number";
  if (value === Infinity) return "infinity";
  if (value === -Infinity) return "minus infinity";
  return null;
}

function group(digits) {
  return digits.replace(/\B(?=(\d{3})+$)/g, ",");
}

function superscript(exponent) {
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPTS[digit]).join("");
  return exponent < 0 ? `⁻${digits}` : digits;
}

/** A whole number with its digits grouped; exact, however long. */
export function count(value) {
  return words(value) ?? `${value < 0 ? MINUS : ""}${group(String(Math.abs(Math.round(value))))}`;
}

/** A real number with at most `digits` significant digits; very large and very small ones as a × 10ⁿ. */
export function number(value, digits = 6) {
  const special = words(value);
  if (special !== null) return special;
  if (value === 0) return "0";
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  const [mantissa, exponent] = size.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power < -4 || power >= digits + 3) return `${sign}${trimmed(mantissa)}${SPACE}×${SPACE}10${superscript(power)}`;
  const plain = trimmed(Number(size.toPrecision(digits)).toFixed(Math.max(0, digits - 1 - power)));
  const [whole, fraction] = plain.split(".");
  return `${sign}${group(whole)}${fraction ? `.${fraction}` : ""}`;
}

/** Three significant digits: for prose, where the table beside it has the rest. */
export function short(value) {
  return number(value, 3);
}

/** A share of one as a percentage. */
export function percent(share, digits = 3) {
  const special = words(share);
  return special ?? `${number(share * 100, digits)}${SPACE}%`;
}

/** Bytes in decimal units; exact below ten thousand. */
export function bytes(value) {
  const special = words(value);
  if (special !== null) return special;
  if (value < 10_000) return plural(value, "byte");
  const units = ["kB", "MB", "GB", "TB"];
  const power = Math.min(units.length, Math.floor(Math.log10(value) / 3));
  return `${number(value / 1000 ** power, 3)}${SPACE}${units[power - 1]}`;
}

/** A duration given in milliseconds. */
export function duration(ms) {
  const special = words(ms);
  if (special !== null) return ms === null || ms === undefined ? "not measured" : special;
  if (ms < 1) return `${number(ms * 1000, 3)}${SPACE}µs`;
  if (ms < 1000) return `${number(ms, 3)}${SPACE}ms`;
  if (ms < 120_000) return `${number(ms / 1000, 3)}${SPACE}s`;
  return `${number(ms / 60_000, 3)}${SPACE}min`;
}

/** "1 token", "35 tokens". */
export function plural(value, noun, many = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** A tensor's shape: [49152, 576]. Ungrouped: commas stand between the sizes. */
export function shape(sizes) {
  return `[${sizes.join(", ")}]`;
}

/** A moment given as ISO 8601, in UTC to the millisecond. */
export function moment(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? iso : `${date.toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

/** Seconds until something, in words a person waits by. */
export function wait(seconds) {
  if (seconds < 90) return plural(Math.ceil(seconds), "second");
  if (seconds < 5400) return plural(Math.ceil(seconds / 60), "minute");
  return plural(Math.ceil(seconds / 3600), "hour");
}
