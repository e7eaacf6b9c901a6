/** Spectra, windows and determinants against sums that are written out here, in doubles. */
import { InferenceSession, Tensor } from '../../lib';
import { CONSTRUCTORS, type DataType } from '../../lib/tensor/tensor';
import { bitsIn } from '../support/float16_bits';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, typedTensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';

interface Given {
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly elements: readonly number[];
  /** Brought by a run, and not in the file */
  readonly isFed?: boolean;
}

type Attributes = Parameters<typeof node>[3];

/** A session of one node, and what it makes of these inputs. */
async function compute(
  operator: string,
  opset: number,
  inputs: readonly (Given | undefined)[],
  attributes: Attributes = {},
) {
  const names = inputs.map((input, i) => (input === undefined ? '' : `x${i}`));
  const given = inputs.flatMap((input, i) => (input === undefined ? [] : [{ ...input, name: names[i]! }]));
  const bytes = onnxModel({
    opset,
    inputs: given.filter(({ isFed }) => isFed).map(({ name, dims, type }) => value(name, dims, type)),
    initializers: given
      .filter(({ isFed }) => !isFed)
      .map(({ name, dims, elements, type }) => typedTensor(name, dims, elements, type)),
    nodes: [node(operator, names, ['y'], attributes)],
    outputs: [value('y')],
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const feeds = given
    .filter(({ isFed }) => isFed)
    .map(({ name, type, dims, elements }) => {
      const Elements = CONSTRUCTORS[type] as unknown as { from(list: readonly unknown[]): Float32Array };
      const list = type === 'int64' ? elements.map(BigInt) : elements;
      return [name, new Tensor(type as 'float32', Elements.from(list), dims)] as const;
    });
  const { y } = await session.run(Object.fromEntries(feeds));
  return { type: y!.type, dims: [...y!.dims], elements: Array.from(bitsIn(y!.data), Number) };
}

const fed = (type: DataType, dims: readonly number[], elements: readonly number[]): Given => ({
  ...{ type, dims, elements, isFed: true },
});
const known = (type: DataType, dims: readonly number[], elements: readonly number[]): Given => ({
  ...{ type, dims, elements },
});
const count = (number: number) => known('int64', [], [number]);

const sizeOf = (dims: readonly number[]) => dims.reduce((product, extent) => product * extent, 1);

function anyNumbers(seed: number, type: DataType, size: number): number[] {
  const random = new Random(seed);
  return Array.from({ length: size }, () => {
    const number = 2 * random.uniform() - 1;
    return type === 'float64' ? number : Math.fround(number);
  });
}

interface Complex {
  readonly re: number;
  readonly im: number;
}

// Taken out of the global object once: looking them up there, for every element, is very slow under Jest.
const { cos, sin, min, PI } = Math;

/** Of long transforms not every element is computed: that would take minutes. */
const isJudged = (k: number, n: number) => n <= 600 || k % 61 === 0 || k > n - 3;

/** By the definition, of complex numbers; those beyond the end of the signal are 0, and NaN is not looked at. */
function transformed(signal: readonly Complex[], n: number, isInverse: boolean, wanted: number): Complex[] {
  const angles = Array.from({ length: n }, (_, i) => ((isInverse ? 2 : -2) * PI * i) / n);
  const turns = angles.map((angle): Complex => ({ re: cos(angle), im: sin(angle) }));
  return Array.from({ length: wanted }, (_, k) => {
    if (!isJudged(k, n)) return { re: NaN, im: NaN };
    let [re, im] = [0, 0];
    for (let j = 0; j < min(n, signal.length); j++) {
      const x = signal[j]!;
      const turn = turns[(j * k) % n]!;
      re += x.re * turn.re - x.im * turn.im;
      im += x.re * turn.im + x.im * turn.re;
    }
    return isInverse ? { re: re / n, im: im / n } : { re, im };
  });
}

interface Options {
  readonly isInverse: boolean;
  readonly isOneSided: boolean;
  readonly length?: number | undefined;
}

/** Along one axis of a tensor whose last has the parts. */
function spectrum({ dims, elements }: Given, axis: number, { isInverse, isOneSided, length }: Options) {
  const [extent, parts] = [dims[axis]!, dims.at(-1)!];
  const inner = sizeOf(dims.slice(axis + 1, -1));
  const outer = sizeOf(dims.slice(0, axis));
  const isReal = isInverse && isOneSided;
  const n = length ?? (isReal ? 2 * (extent - 1) : extent);
  const wanted = isOneSided && !isInverse ? Math.floor(n / 2) + 1 : n;
  const [made, out] = [[...dims.slice(0, axis), wanted, ...dims.slice(axis + 1, -1)], isReal ? 1 : 2];
  const results = new Array<number>(sizeOf(made) * out);
  for (let o = 0; o < outer; o++) {
    for (let i = 0; i < inner; i++) {
      const line = Array.from({ length: extent }, (_, j): Complex => {
        const place = ((o * extent + j) * inner + i) * parts;
        return { re: elements[place]!, im: parts === 2 ? elements[place + 1]! : 0 };
      });
      transformed(isReal ? mirrored(line, n) : line, n, isInverse, wanted).forEach(({ re, im }, k) => {
        const place = ((o * wanted + k) * inner + i) * out;
        results[place] = re;
        if (!isReal) results[place + 1] = im;
      });
    }
  }
  return { dims: [...made, out], elements: results };
}

/** The whole spectrum of a real signal, of its first half: the first element, and the middle one, are real. */
function mirrored(half: readonly Complex[], n: number): Complex[] {
  const at = (k: number) => half[k] ?? { re: 0, im: 0 };
  return Array.from({ length: n }, (_, k) => {
    if (k === 0 || 2 * k === n) return { re: at(k).re, im: 0 };
    return 2 * k < n ? at(k) : { re: at(n - k).re, im: -at(n - k).im };
  });
}

/** What docs/numerics.md has of sums in float32; of doubles a rounding for each of the terms. */
function expectClose(
  actual: { readonly type: string; readonly dims: readonly number[]; readonly elements: readonly number[] },
  expected: { readonly dims: readonly number[]; readonly elements: readonly number[] },
  type: DataType,
  magnitude: number,
  terms: number,
): void {
  expect([actual.type, ...actual.dims]).toEqual([type, ...expected.dims]);
  const unit = type === 'float64' ? 4 * (terms + 2) * 2 ** -53 : 4e-6;
  const errors = expected.elements.map((element, i) => Math.abs(element - actual.elements[i]!));
  const bound = unit * magnitude;
  const worst = errors.findIndex((error, i) => !(error <= bound) && !Number.isNaN(expected.elements[i]!));
  expect(worst === -1 ? [] : [worst, actual.elements[worst], expected.elements[worst], bound]).toEqual([]);
}

const sumOf = (elements: readonly number[]) => elements.reduce((sum, x) => sum + Math.abs(x), 0);

const WAYS = [
  { parts: 1, isInverse: false, isOneSided: false },
  { parts: 1, isInverse: false, isOneSided: true },
  { parts: 2, isInverse: false, isOneSided: false },
  { parts: 1, isInverse: true, isOneSided: false },
  { parts: 2, isInverse: true, isOneSided: false },
  { parts: 2, isInverse: true, isOneSided: true },
] as const;

describe('DFT', () => {
  // 1031 and 4099 are primes beyond a matrix of complex numbers, 2062 has one as a factor, 2048 and 3000 have many.
  const lengths = [1, 2, 3, 7, 16, 257, 400, 480, 512, 1000, 1031, 2048, 2062, 3000, 4099];

  test.each(lengths)('of length %d', async (n) => {
    for (const type of ['float32', 'float64'] as const) {
      for (const way of WAYS) {
        const extent = way.isInverse && way.isOneSided ? Math.floor(n / 2) + 1 : n;
        const dims = [1, extent, way.parts];
        const x = fed(type, dims, anyNumbers(n + way.parts, type, sizeOf(dims)));
        const attributes = { inverse: BigInt(way.isInverse), onesided: BigInt(way.isOneSided) };
        const y = await compute('DFT', 17, [x, count(n)], attributes);
        const scale = way.isInverse ? (way.isOneSided ? 2 : 1) / n : 1;
        expectClose(y, spectrum(x, 1, { ...way, length: n }), type, scale * sumOf(x.elements), n);
      }
    }
  });

  test.each([
    [[3, 4, 5, 2], 0],
    [[3, 4, 5, 2], 1],
    [[3, 4, 5, 2], -2],
    [[3, 4, 5, 2], -4],
    [[4, 2], 0],
    [[0, 4, 2], 1],
  ])('of %j along axis %d, which is an attribute and then an input', async (dims, axis) => {
    const x = fed('float32', dims, anyNumbers(7, 'float32', sizeOf(dims)));
    const counted = axis < 0 ? axis + dims.length : axis;
    const expected = spectrum(x, counted, { isInverse: false, isOneSided: false });
    const byAttribute = await compute('DFT', 17, [x], { axis: BigInt(axis) });
    expectClose(byAttribute, expected, 'float32', sumOf(x.elements), 5);
    for (const given of [known('int64', [], [axis]), fed('int64', [], [axis])]) {
      expectClose(await compute('DFT', 20, [x, undefined, given]), expected, 'float32', sumOf(x.elements), 5);
    }
  });

  test.each(WAYS)('of more elements than there are, and of fewer: %j', async (way) => {
    const dims = [2, 6, way.parts];
    const x = fed('float32', dims, anyNumbers(8, 'float32', sizeOf(dims)));
    const attributes = { inverse: BigInt(way.isInverse), onesided: BigInt(way.isOneSided) };
    for (const length of [undefined, 1, 2, 5, 6, 7, 12, 5000]) {
      const y = await compute(
        'DFT',
        20,
        [x, length === undefined ? undefined : fed('int64', [], [length])],
        attributes,
      );
      expectClose(y, spectrum(x, 1, { ...way, length }), 'float32', sumOf(x.elements), 6);
    }
  });

  test('is along the last axis but one since opset 20, and along the second before', async () => {
    const x = fed('float64', [2, 3, 4, 1], anyNumbers(9, 'float64', 24));
    const options = { isInverse: false, isOneSided: false };
    expectClose(await compute('DFT', 19, [x]), spectrum(x, 1, options), 'float64', sumOf(x.elements), 4);
    expectClose(await compute('DFT', 20, [x]), spectrum(x, 2, options), 'float64', sumOf(x.elements), 4);
  });

  test.each([
    ['float16', [0x3c00, 0x4000, 0x4200], [0x4600, 0, 0xbe00, 0x3aee, 0xbe00, 0xbaee]],
    ['bfloat16', [0x3f80, 0x4000, 0x4040], [0x40c0, 0, 0xbfc0, 0x3f5e, 0xbfc0, 0xbf5e]],
  ] as const)('rounds once: %s', async (type, x, y) => {
    // 6, -3/2 and ± the root of 3/4
    const made = await compute('DFT', 20, [fed(type, [1, 3, 1], x)]);
    expect(made).toEqual({ type, dims: [1, 3, 2], elements: y.map((bits) => bits) });
  });

  test.each([
    [[1, 4, 2], 17, { onesided: 1n }, undefined, /takes real elements for one side/],
    [[1, 4, 1], 17, { onesided: 1n, inverse: 1n }, undefined, /takes complex elements for one side/],
    [[1, 4, 3], 17, {}, undefined, /the last of extent 1 or 2/],
    [[1, 4, 1], 17, { axis: 2n }, undefined, /axis 2 of float32\[1,4,1\], which is that of the parts/],
    [[1, 4, 1], 17, {}, 0, /a transform of 0 elements/],
    [[1, 1, 2], 17, { onesided: 1n, inverse: 1n }, undefined, /a transform of 0 elements/],
    [[1, 4, 1], 17, {}, 2 ** 22 + 1, /4194305 elements; here it can of 4194304/],
  ])(
    'of %j in opset %d is refused with %p and length %p',
    async (dims, opset, attributes, length, message) => {
      const x = fed('float32', dims, anyNumbers(1, 'float32', sizeOf(dims)));
      const inputs = length === undefined ? [x] : [x, count(length)];
      await expect(compute('DFT', opset, inputs, attributes)).rejects.toThrow(message);
    },
  );
});

describe('STFT', () => {
  function frames({ dims, elements }: Given, step: number, length: number, window?: readonly number[]) {
    const [batch, extent, parts = 1] = dims as [number, number, number?];
    const number = Math.floor((extent - length) / step) + 1;
    const cut = Array.from({ length: batch * number * length * parts }, (_, i) => {
      const [part, j] = [i % parts, Math.floor(i / parts) % length];
      const frame = Math.floor(i / parts / length) % number;
      const b = Math.floor(i / parts / length / number);
      return elements[(b * extent + frame * step + j) * parts + part]! * (window?.[j] ?? 1);
    });
    return { type: 'float64' as const, dims: [batch, number, length, parts], elements: cut };
  }

  test.each([
    [[2, 1000, 1], 160, 400, true],
    [[1, 700, 1], 128, 512, true],
    [[1, 700], 100, 257, false],
    [[1, 60, 2], 7, 16, false],
    [[3, 16, 2], 1, 16, false],
    [[1, 2500, 1], 219, 2062, true],
  ])('of %j by steps of %d and frames of %d, one side %p', async (dims, step, length, isOneSided) => {
    const attributes = { onesided: BigInt(isOneSided) };
    for (const type of ['float32', 'float64'] as const) {
      const x = fed(type, dims, anyNumbers(length, type, sizeOf(dims)));
      const window = anyNumbers(length + 1, type, length);
      for (const [w, n] of [
        [known(type, [length], window), undefined],
        [fed(type, [length], window), undefined],
        [known(type, [length], window), count(length)],
        [undefined, fed('int64', [], [length])],
      ]) {
        const y = await compute('STFT', 17, [x, count(step), w, n], attributes);
        const cut = frames(x, step, length, w && window);
        const magnitude = cut.dims.at(-1)! * length;
        expectClose(y, spectrum(cut, 2, { isInverse: false, isOneSided }), type, magnitude, length);
      }
    }
  });

  test('of a whole signal has one frame', async () => {
    const x = fed('float32', [2, 9, 1], anyNumbers(2, 'float32', 18));
    const y = await compute('STFT', 17, [x, count(100)]);
    const expected = spectrum(frames(x, 100, 9), 2, { isInverse: false, isOneSided: true });
    expectClose(y, expected, 'float32', 9, 9);
  });

  const window = known('float32', [4], [1, 2, 2, 1]);
  test.each([
    [[1, 9, 2], 1, window, undefined, /takes real elements for one side/],
    [[1, 9, 1], 0, window, undefined, /a frame_step of 0/],
    [[1, 3, 1], 1, window, undefined, /takes frames of 4 elements from float32\[1,3,1\]/],
    [[1, 9, 1], 1, window, count(5), /a window of 4 elements for frames of 5/],
    [[9], 1, window, undefined, /2 or 3 axes/],
  ])('of %j by steps of %d is refused', async (dims, step, w, n, message) => {
    const x = fed('float32', dims, anyNumbers(3, 'float32', sizeOf(dims)));
    await expect(compute('STFT', 17, [x, count(step), w, n])).rejects.toThrow(message);
  });
});

describe.each([
  ['HannWindow', [0.5, 0.5, 0]],
  ['HammingWindow', [25 / 46, 21 / 46, 0]],
  ['BlackmanWindow', [0.42, 0.5, 0.08]],
] as const)('%s', (operator, [a, b, c]) => {
  test.each([0, 2, 3, 10, 400])('of %d elements', async (size) => {
    for (const isPeriodic of [true, false]) {
      const n = isPeriodic ? size : size - 1;
      const expected = Array.from({ length: size }, (_, i) => {
        const angle = (2 * Math.PI * i) / n;
        return a - b * Math.cos(angle) + c * Math.cos(2 * angle);
      });
      for (const given of [known('int32', [], [size]), fed('int64', [], [size])]) {
        const attributes = { periodic: BigInt(isPeriodic), output_datatype: 11n };
        const y = await compute(operator, 17, [given], attributes);
        expect([y.type, y.dims]).toEqual(['float64', [size]]);
        y.elements.forEach((element, i) => expect(element).toBeCloseTo(expected[i]!, 14));
      }
    }
  });

  test('of one element that has no period is no number', async () => {
    expect((await compute(operator, 17, [count(1)], { periodic: 0n })).elements).toEqual([NaN]);
  });

  test('of halves and of integers', async () => {
    const half = await compute(operator, 17, [count(5)], { output_datatype: 10n, periodic: 0n });
    expect([half.type, half.elements[2]]).toEqual(['float16', 0x3c00]);
    // A sum in doubles may be below 1, which is cut off.
    const whole = await compute(operator, 17, [count(4)], { output_datatype: 7n });
    expect([whole.type, whole.elements.slice(0, 2)]).toEqual(['int64', [0, 0]]);
  });

  test.each([
    [-1, 1, /the size -1/],
    [2 ** 22 + 1, 1, /makes \[4194305\]/],
    [4, 9, /output_datatype 9, bool; it takes integers of 8 bits or more, or floats of 16 or more/],
    [4, 8, /output_datatype 8, string;/],
    [4, 17, /output_datatype 17, float8e4m3fn;/],
    [4, 20, /output_datatype 20, float8e5m2fnuz;/],
    [4, 21, /output_datatype 21, uint4;/],
    [4, 23, /output_datatype 23, float4e2m1;/],
    [4, 24, /output_datatype 24, float8e8m0;/],
    [4, 26, /output_datatype 26, int2;/],
    [4, 99, /output_datatype 99, no type;/],
  ])('of %d elements of type %d is refused', async (size, type, message) => {
    const attributes = { output_datatype: BigInt(type) };
    await expect(compute(operator, 17, [count(size)], attributes)).rejects.toThrow(message);
  });
});

describe('MelWeightMatrix', () => {
  const inputs = ([bands, length, rate, low, high]: readonly number[]) => [
    ...[bands!, length!, rate!].map(count),
    ...[low!, high!].map((edge) => known('float32', [], [edge])),
  ];

  /** The bins that the edges of triangles lie in, an edge more on both sides. */
  function binsOf([bands, length, rate, low, high]: readonly [number, number, number, number, number]) {
    const mel = (hertz: number) => 2595 * Math.log10(1 + hertz / 700);
    return Array.from({ length: bands + 2 }, (_, i) => {
      const place = mel(low) + (i * (mel(high) - mel(low))) / (bands + 2);
      return Math.floor(((length + 1) * (700 * (10 ** (place / 2595) - 1))) / rate);
    });
  }

  test.each([
    // The example of ONNX: triangles without sides, two of them in one bin.
    [8, 16, 8192, 0, 4096],
    [20, 512, 16000, 20, 7600],
    [80, 400, 16000, 10, 7990],
    [3, 1, 100, 5, 40],
    [0, 16, 100, 5, 40],
  ])('of %d bands, a transform of %d at %d hertz, from %d to %d', async (...given) => {
    const [bands, length] = given;
    const bins = binsOf(given);
    const rows = Math.floor(length / 2) + 1;
    const expected = Array.from({ length: rows * bands }, (_, i) => {
      const [bin, band] = [Math.floor(i / bands), i % bands];
      const [low, middle, high] = bins.slice(band, band + 3) as [number, number, number];
      if (bin === middle) return 1;
      const side = bin < middle ? (bin - low) / (middle - low) : (high - bin) / (high - middle);
      return Math.fround(Math.max(0, side));
    });
    const y = await compute('MelWeightMatrix', 17, inputs(given));
    expect(y).toEqual({ type: 'float32', dims: [rows, bands], elements: expected });
  });

  test.each([
    [[8, 16, 4096, 0, 4096], /has bands up to bin 13, and a spectrum of 9 bins/],
    [[8, 16, 0, 0, 4096], /at a sample rate of 0/],
    [[-1, 16, 8192, 0, 4096], /makes -1 bands/],
    [[8, 16, 8192, 4096, 0], /goes from 4096 to 0 hertz/],
    [[8, 16, 8192, -1, 40], /goes from -1 to 40 hertz/],
  ] as const)('of %j is refused', async (given, message) => {
    await expect(compute('MelWeightMatrix', 17, inputs(given))).rejects.toThrow(message);
  });

  test('of floats of 8 bits is refused', async () => {
    const made = compute('MelWeightMatrix', 17, inputs([8, 16, 8192, 0, 4096]), { output_datatype: 17n });
    await expect(made).rejects.toThrow(/output_datatype 17, float8e4m3fn;/);
  });
});

describe('Det', () => {
  /** The sum over all ways to take an element of each row, no two of one column. */
  function determinant(matrix: readonly (readonly number[])[]): number {
    const [first, ...rest] = matrix;
    if (first === undefined) return 1;
    return first.reduce((sum, element, column) => {
      const minor = rest.map((row) => row.filter((_, i) => i !== column));
      return sum + (column % 2 === 0 ? 1 : -1) * element * determinant(minor);
    }, 0);
  }

  const matrices: readonly (readonly (readonly number[])[])[] = [
    [],
    [[3]],
    [[0]],
    [
      [0, 2],
      [4, 1],
    ],
    [
      [1, 2],
      [2, 4],
    ],
    // The first two pivots lie further down.
    [
      [0, 0, 2, 1],
      [0, 3, 1, 1],
      [4, 1, 0, 2],
      [0, 6, 0, 1],
    ],
    // Of rank 2
    [
      [1, 2, 4],
      [2, 4, 8],
      [4, 2, 1],
    ],
    [
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
    ],
    [
      [0, 1, 0, 0, 0],
      [0, 0, 0, 1, 0],
      [1, 0, 0, 0, 0],
      [0, 0, 0, 0, 1],
      [0, 0, 1, 0, 0],
    ],
  ];

  test.each(matrices.map((matrix) => [matrix]))('of %j', async (matrix) => {
    const n = matrix.length;
    for (const type of ['float32', 'float64'] as const) {
      const y = await compute('Det', 11, [fed(type, [n, n], matrix.flat())]);
      expect([y.type, y.dims]).toEqual([type, []]);
      expect(y.elements[0]).toBeCloseTo(determinant(matrix), 5);
      if (determinant(matrix) === 0) expect(y.elements[0]! + 0).toBe(0);
    }
  });

  test('of a batch', async () => {
    const x = fed('float64', [2, 3, 4, 4], anyNumbers(4, 'float64', 96));
    const y = await compute('Det', 22, [x]);
    expect(y.dims).toEqual([2, 3]);
    y.elements.forEach((element, i) => {
      const rows = Array.from({ length: 4 }, (_, row) => {
        return x.elements.slice(16 * i + 4 * row, 16 * i + 4 * row + 4);
      });
      expect(element).toBeCloseTo(determinant(rows), 12);
    });
  });

  test('is infinite where it is beyond its type', async () => {
    const x = fed('float16', [2, 2], [0x7bff, 0, 0, 0x7bff]);
    expect(await compute('Det', 22, [x])).toEqual({ type: 'float16', dims: [], elements: [0x7c00] });
  });

  test.each([
    [[2, 3], /takes square matrices, got float32\[2,3\]/],
    [[4], /takes square matrices/],
    [[129, 129], /matrices of 129 rows; here it can of 128/],
  ])('of %j is refused', async (dims, message) => {
    const x = fed('float32', dims, new Array<number>(sizeOf(dims)).fill(1));
    await expect(compute('Det', 11, [x])).rejects.toThrow(message);
  });
});
