/**
 * Discrete Fourier transforms as products with constant matrices. Where such a matrix would be large, Cooley and Tukey's
 * step makes two transforms of the length's factors of it; a length that has none becomes a convolution, as Bluestein has
 * it, whose own length is a power of 2.
 *
 * A signal is [rows, length, parts]: the real parts alone, or each followed by the imaginary one.
 */
import type { Sliced } from '../../slices';
import type { ConstantTensor } from '../graph';
import type { Lowering } from '../lowering';
import { sizeOf, type Value } from '../values';
import { along, join, padWith } from './layout';
import { multiply } from './matrix';
import { apply } from './typed';

/** Of a transform: its constants, and the time that it takes to make them, grow with it. */
export const MOST_LENGTH = 2 ** 22;

/** Elements of a matrix: 16 MiB of float32. Beyond, smaller ones and what goes between them take less time, too. */
const MOST_OF_MATRIX = 2 ** 22;

/** They take a tenth of a millisecond to one. */
const ELEMENTS_AT_ONCE = 2 ** 12;

export interface Transform {
  readonly x: Lowering;
  /** What the length follows from: constants of it are made once a session where these are the same for all dims. */
  readonly from: readonly Value[];
  readonly isInverse: boolean;
}

/**
 * The first `count` elements of the transform of the signal's first n, complex: [rows, count, 2]. Those that it has not
 * are 0.
 */
export function* transform(t: Transform, whole: Value, n: number, count = n): Sliced<Value> {
  const signal = firstOf(t.x, whole, n);
  const [, given, parts] = signal.dims as [number, number, number];
  if (given * parts * count * 2 <= MOST_OF_MATRIX) {
    return yield* direct(t, signal, { n, given, parts, count, wanted: 2, isMirrored: false });
  }
  const factor = factorOf(n);
  return firstOf(
    t.x,
    yield* factor === 1 ? byConvolution(t, signal, n) : byFactors(t, signal, n, factor),
    count,
  );
}

/**
 * The real signal [rows, n, 1] whose transform begins with these elements, and goes on with the conjugates of those in
 * front; elements beyond the middle are not looked at.
 */
export function* realSignal(t: Transform, spectrum: Value, n: number): Sliced<Value> {
  const half = Math.floor(n / 2) + 1;
  const first = firstOf(t.x, spectrum, half);
  const given = first.dims[1]!;
  if (given * 2 * n <= MOST_OF_MATRIX) {
    return yield* direct(t, first, { n, given, parts: 2, count: n, wanted: 1, isMirrored: true });
  }
  const front = padded(t.x, first, half);
  // Element k is the conjugate of element n - k.
  const back = along(t.x, front, [{ axis: 1, start: n - half, step: -1, count: n - half }]);
  const conjugate = yield* constantOf(t, spectrum, 'conjugate', [2], (data) => data.set([1, -1]));
  const whole = join(t.x, [front, apply(t.x, 'multiply', [back, conjugate])], 1);
  const signal = yield* transform(t, whole, n);
  return along(t.x, signal, [{ axis: 2, start: 0, step: 1, count: 1 }]);
}

/** The nearest factor to the root from below, 1 of a prime. */
function factorOf(n: number): number {
  let factor = Math.floor(Math.sqrt(n));
  while (n % factor !== 0) factor--;
  return factor;
}

interface Matrix {
  readonly n: number;
  /** Elements of the signal, and of the result, and what each has: real parts alone or both */
  readonly given: number;
  readonly parts: number;
  readonly count: number;
  readonly wanted: number;
  /** Whether each element stands for its conjugate on the other side of the middle, too */
  readonly isMirrored: boolean;
}

function* direct(t: Transform, signal: Value, matrix: Matrix): Sliced<Value> {
  const { n, given, parts, count, wanted, isMirrored } = matrix;
  const rows = signal.dims[0]!;
  const dims = [given * parts, count * wanted];
  const what = `transform of ${n} to ${wanted} parts${isMirrored ? ', mirrored' : ''}`;
  const right = yield* constantOf(t, signal, what, dims, (data) => fillMatrix(data, t.isInverse, matrix));
  const product = multiply(t.x, t.x.build.view(signal, [rows, given * parts]), right);
  return t.x.build.view(product, [rows, count, wanted]);
}

/**
 * Element j times e^(±2πi jk / n), the minus being that of the forward transform, is what it adds to element k:
 *   (a + bi) (cos ± i sin) = a cos ∓ b sin + (±a sin + b cos) i
 */
function* fillMatrix(
  data: Floats,
  isInverse: boolean,
  { n, given, parts, count, wanted, isMirrored }: Matrix,
): Sliced<void> {
  const circle = yield* circleOf(n);
  const sign = isInverse ? 1 : -1;
  let place = 0;
  for (let j = 0; j < given; j++) {
    const isAlone = !isMirrored || j === 0 || 2 * j === n;
    const weight = (isAlone ? 1 : 2) / (isInverse ? n : 1);
    for (let part = 0; part < parts; part++) {
      // j * k mod n
      let angle = 0;
      for (let k = 0; k < count; k++) {
        if (place % ELEMENTS_AT_ONCE === 0) yield;
        const [cos, sin] = [weight * circle[2 * angle]!, weight * sign * circle[2 * angle + 1]!];
        data[place++] = part === 0 ? cos : -sin;
        if (wanted === 2) data[place++] = part === 0 ? sin : cos;
        angle += j;
        if (angle >= n) angle -= n;
      }
    }
  }
}

type Floats = Float32Array | Float64Array;

/** Cosine and sine of k / n of a turn, for each k below n. */
function* circleOf(n: number): Sliced<Float64Array> {
  const circle = new Float64Array(2 * n);
  for (let k = 0; k < n; k++) {
    if (k % ELEMENTS_AT_ONCE === 0) yield;
    const [cos, sin] = turn(k, n);
    circle[2 * k] = cos;
    circle[2 * k + 1] = sin;
  }
  return circle;
}

/**
 * Cosine and sine of k / n of a turn, 0 <= k < n. Whole quarters are taken off as integers, so that what should be 0 or 1
 * is, and what is left is brought below an eighth.
 */
export function turn(k: number, n: number): readonly [cos: number, sin: number] {
  const quarters = Math.floor((4 * k) / n);
  const rest = 4 * k - quarters * n;
  const isFar = 2 * rest > n;
  const angle = ((isFar ? n - rest : rest) / n) * (Math.PI / 2);
  const [near, far] = [Math.cos(angle), Math.sin(angle)];
  const [cos, sin] = isFar ? [far, near] : [near, far];
  switch (quarters) {
    case 0:
      return [cos, sin];
    case 1:
      return [-sin, cos];
    case 2:
      return [-cos, -sin];
    default:
      return [sin, -cos];
  }
}

/**
 * With n = f s, element s p + q of the signal, and k + f l of the result:
 *   the sum over q of e^(ql / s) e^(qk / n) times the sum over p of e^(pk / f)
 * where e^y is the turn by y. The inner sum is a transform of length f for each q, the outer one of length s for each k.
 */
function* byFactors(t: Transform, signal: Value, n: number, first: number): Sliced<Value> {
  const { build } = t.x;
  const [rows, , parts] = signal.dims as [number, number, number];
  const second = n / first;
  const grid = build.view(padded(t.x, signal, n), [rows, first, second, parts]);
  const columns = build.view(build.transpose(grid, [0, 2, 1, 3]), [rows * second, first, parts]);
  const inner = build.view(yield* transform(t, columns, first), [rows, second, first, 2]);
  const turned = yield* multiplyByTurns(t, inner, `factors of ${n}`, [second, first], function* (set) {
    const sign = t.isInverse ? 1 : -1;
    for (let q = 0, place = 0; q < second; q++) {
      for (let k = 0; k < first; k++, place++) {
        if (place % ELEMENTS_AT_ONCE === 0) yield;
        const [cos, sin] = turn(q * k, n);
        set(place, cos, sign * sin);
      }
    }
  });
  const lines = build.view(build.transpose(turned, [0, 2, 1, 3]), [rows * first, second, 2]);
  const outer = build.view(yield* transform(t, lines, second), [rows, first, second, 2]);
  return build.view(build.transpose(outer, [0, 2, 1, 3]), [rows, n, 2]);
}

/**
 * As jk = (j² + k² - (k - j)²) / 2, the transform is a convolution with turns by half the squares, between two products
 * with them; and a convolution is a product of transforms, of any length in which it does not overlap itself.
 */
function* byConvolution(t: Transform, signal: Value, n: number): Sliced<Value> {
  const length = 2 ** Math.ceil(Math.log2(2 * n - 1));
  const sign = t.isInverse ? 1 : -1;
  const squares = function* (scale: number, set: SetTurn): Sliced<void> {
    for (let k = 0; k < n; k++) {
      if (k % ELEMENTS_AT_ONCE === 0) yield;
      const [cos, sin] = halfSquare(k, n);
      set(k, scale * cos, scale * sign * sin);
    }
  };
  const whole = padded(t.x, signal, n);
  const given = yield* multiplyByTurns(t, whole, `squares of ${n}`, [n], (set) => squares(1, set));
  const spectrum = yield* transform({ ...t, isInverse: false }, given, length);
  const filter = `spectrum of the squares of ${n}`;
  const filtered = yield* multiplyByTurns(t, spectrum, filter, [length], function* (set) {
    const turns = new Float64Array(2 * length);
    for (let k = 0; k < n; k++) {
      if (k % ELEMENTS_AT_ONCE === 0) yield;
      const [cos, sin] = halfSquare(k, n);
      for (const place of [k, (length - k) % length]) {
        turns[2 * place] = cos;
        turns[2 * place + 1] = -sign * sin;
      }
    }
    const transformed = yield* spectrumOf(turns);
    for (let k = 0; k < length; k++) set(k, transformed[2 * k]!, transformed[2 * k + 1]!);
  });
  const convolved = yield* transform({ ...t, isInverse: true }, filtered, length, n);
  const scale = t.isInverse ? 1 / n : 1;
  return yield* multiplyByTurns(t, convolved, `last squares of ${n}`, [n], (set) => squares(scale, set));
}

/** The turn by k² / 2n */
function halfSquare(k: number, n: number) {
  return turn((k * k) % (2 * n), 2 * n);
}

/** The transform of complex numbers, real and imaginary parts in turns, whose number is a power of 2. */
function* spectrumOf(given: Float64Array): Sliced<Float64Array> {
  const n = given.length / 2;
  if (n === 1) return given;
  const half = n / 2;
  const [even, odd] = [new Float64Array(n), new Float64Array(n)];
  for (let k = 0; k < half; k++) {
    for (const part of [0, 1]) {
      even[2 * k + part] = given[4 * k + part]!;
      odd[2 * k + part] = given[4 * k + 2 + part]!;
    }
  }
  const [a, b] = [yield* spectrumOf(even), yield* spectrumOf(odd)];
  const result = new Float64Array(2 * n);
  for (let k = 0; k < half; k++) {
    if (k % ELEMENTS_AT_ONCE === 0) yield;
    const [cos, sin] = turn(k, n);
    const [real, imaginary] = [b[2 * k]!, b[2 * k + 1]!];
    const [x, y] = [real * cos + imaginary * sin, imaginary * cos - real * sin];
    result[2 * k] = a[2 * k]! + x;
    result[2 * k + 1] = a[2 * k + 1]! + y;
    result[2 * k + n] = a[2 * k]! - x;
    result[2 * k + n + 1] = a[2 * k + 1]! - y;
  }
  return result;
}

type SetTurn = (place: number, cos: number, sin: number) => void;

/**
 * Each element of a signal times a complex number of its own, the numbers being of `dims` and broadcast:
 *   (a + bi) (c + di) = ac + (-bd) + (bc + ad) i
 */
function* multiplyByTurns(
  t: Transform,
  signal: Value,
  what: string,
  dims: readonly number[],
  fill: (set: SetTurn) => Sliced<void>,
): Sliced<Value> {
  const { x } = t;
  const last = signal.dims.length - 1;
  if (signal.dims[last] === 1) {
    const turns = yield* constantOf(t, signal, what, [...dims, 2], (data) =>
      fill((place, cos, sin) => {
        data[2 * place] = cos;
        data[2 * place + 1] = sin;
      }),
    );
    return apply(x, 'multiply', [signal, turns]);
  }
  const size = 2 * sizeOf(dims);
  // c and c, and behind all of these -d and d
  const pairs = yield* constantOf(t, signal, `pairs of ${what}`, [2, ...dims, 2], (data) =>
    fill((place, cos, sin) => {
      data[2 * place] = data[2 * place + 1] = cos;
      data[size + 2 * place] = -sin;
      data[size + 2 * place + 1] = sin;
    }),
  );
  const swapped = along(x, signal, [{ axis: last, start: 1, step: -1, count: 2 }]);
  return apply(x, 'add', [
    apply(x, 'multiply', [signal, x.build.view(pairs, [...dims, 2])]),
    apply(x, 'multiply', [swapped, x.build.view(pairs, [...dims, 2], size)]),
  ]);
}

/** A constant of the signal's type. */
function* constantOf(
  t: Transform,
  { type }: Value,
  what: string,
  dims: readonly number[],
  fill: (data: Floats) => Sliced<void> | void,
): Sliced<Value> {
  const key = `${type} [${dims.join()}] ${t.isInverse ? 'back' : 'forth'}: ${what}`;
  return yield* t.x.deriveInSlices(key, t.from, function* () {
    const data = type === 'float64' ? new Float64Array(sizeOf(dims)) : new Float32Array(sizeOf(dims));
    const filled = fill(data);
    if (filled !== undefined) yield* filled;
    return { type, dims, data } as ConstantTensor;
  });
}

/** The first `count` elements, or all if there are fewer. */
function firstOf(x: Lowering, signal: Value, count: number): Value {
  return along(x, signal, [{ axis: 1, start: 0, step: 1, count: Math.min(count, signal.dims[1]!) }]);
}

/** With zeros behind up to that length. */
function padded(x: Lowering, signal: Value, length: number): Value {
  const more = length - signal.dims[1]!;
  return more === 0 ? signal : padWith(x, signal, [0, 0, 0], [0, more, 0]);
}
