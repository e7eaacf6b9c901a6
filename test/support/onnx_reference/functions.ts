/** Functions of real numbers that JavaScript lacks, to some fifteen digits. */

export function erf(x: number): number {
  if (Number.isNaN(x)) return x;
  const magnitude = Math.abs(x);
  if (magnitude > 6) return Math.sign(x);
  return magnitude < 2 ? erfBySeries(x) : Math.sign(x) * (1 - erfcByFraction(magnitude));
}

/** 1 - erf(x), without cancellation for large x. */
export function erfc(x: number): number {
  if (x < 2) return 1 - erf(x);
  return x > 28 ? 0 : erfcByFraction(x);
}

/** Whose terms are all positive: 2 / sqrt(pi) e^(-x^2) sum of x (2 x^2)^n / (1 3 5 … (2 n + 1)). */
function erfBySeries(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** Laplace's continued fraction, from its end. */
function erfcByFraction(x: number): number {
  let rest = 0;
  for (let n = 200; n > 0; n--) rest = n / 2 / (x + rest);
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + rest);
}

/** By whichever power does not overflow. */
export function sigmoid(x: number): number {
  const power = Math.exp(-Math.abs(x));
  return (x < 0 ? power : 1) / (1 + power);
}

/** Of two equally near integers the even one. */
export function roundHalfToEven(x: number): number {
  const floor = Math.floor(x);
  const rest = x - floor;
  if (rest === 0.5) return floor % 2 === 0 ? floor : floor + 1;
  return rest < 0.5 ? floor : floor + 1;
}

/** As IEEE 754 and C have it, which JavaScript has not for a base of ±1. */
export function power(x: number, y: number): number {
  if (x === 1) return 1;
  if (x === -1 && Math.abs(y) === Infinity) return 1;
  return x ** y;
}
