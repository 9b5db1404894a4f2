/** The operations of the stages in double precision: one function each, for pictures, checks and worked numbers. */

export function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

export function sumOfSizes(values) {
  let total = 0;
  for (const value of values) total += Math.abs(value);
  return total;
}

/** The size of the largest, and 1 where all are 0: what the bars of a picture are a share of. */
export function largestSize(values) {
  let largest = 0;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  return largest || 1;
}

/** Length of a vector. */
export function norm(values) {
  let squares = 0;
  for (const value of values) squares += value * value;
  return Math.sqrt(squares);
}

/** The products whose sum is the dot product of two vectors. */
export function products(a, b) {
  return Array.from(a, (value, index) => value * b[index]);
}

/** Cosine of the angle between two vectors, from their dot product and lengths. */
export function cosine(dot, lengthA, lengthB) {
  return dot / (lengthA * lengthB);
}

/** A score divided by the root of the number of coordinates it was added up from, or by what a model has instead. */
export function scale(score, divisor) {
  return score / divisor;
}

/** How many keys a query may look at: those before it, and itself; the last `window` of them where there is one. */
export function numAllowedKeys(position, window = null) {
  return Math.min(position + 1, window ?? Infinity);
}

/** How a gate is bent, by the name of the activation. */
export const activations = {
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu_tanh: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

/** The pair [x, y] turned by an angle and lengthened. */
export function turned([x, y], angle, magnitude) {
  const [along, across] = [magnitude * Math.cos(angle), magnitude * Math.sin(angle)];
  return [x * along - y * across, x * across + y * along];
}

/** Softmax: `{largest, exponentials, total, shares}`. Values of −∞ get exactly 0. */
export function softmax(values) {
  let largest = -Infinity;
  for (const value of values) largest = Math.max(largest, value);
  const exponentials = Array.from(values, (value) => Math.exp(value - largest));
  const total = sum(exponentials);
  return { largest, exponentials, total, shares: exponentials.map((one) => one / total) };
}

/** Entropy of a distribution in nats. */
export function entropy(shares) {
  let total = 0;
  for (const share of shares) if (share > 0) total -= share * Math.log(share);
  return total;
}

/** The terms of one coordinate of a weighted sum; `values` holds [keys, width] row by row. */
export function weightedTerms(weights, values, width, coordinate) {
  return Array.from(weights, (weight, key) => weight * values[key * width + coordinate]);
}
