/** Windows, spectra of signals, and what weighs those. */
import { typeNumber } from '../../onnx_reference/elementwise';
import { sizeOf, type ElementType, type RefTensor } from '../../onnx_reference/tensor';
import { int, recipes, type Draw, type Recipe } from '../draw';

const scalar = (value: number, type: ElementType): RefTensor => ({
  type,
  dims: [],
  data: [type.startsWith('float') || type.startsWith('bfloat') ? value : BigInt(value)],
});

const OUTPUT_TYPES: readonly ElementType[] = [
  ...(['float32', 'float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'int8', 'int16'] as const),
  ...(['uint8', 'uint16', 'uint32', 'uint64'] as const),
];

const outputType = (draw: Draw) =>
  draw.maybe('output_datatype', () => int(typeNumber(draw.random.pick(OUTPUT_TYPES))));

const window: Recipe = (draw) => ({
  attributes: {
    ...draw.maybe('periodic', () => int(draw.random.integer(0, 1))),
    ...outputType(draw),
  },
  inputs: [scalar(draw.random.chance(0.05) ? 0 : draw.random.integer(1, 70), draw.type('I'))],
});

/** Bands that lie within the spectrum. */
const melWeightMatrix: Recipe = (draw) => {
  const { random } = draw;
  const [integer, float] = [draw.type('I'), draw.type('F')];
  const length = random.pick([8, 15, 16, 31, 64, 100, 256]);
  const rate = random.pick([8000, 8192, 16000, 44100].slice(0, integer === 'int32' ? 4 : 3));
  const lowest = random.pick([0, 0, 16, 125]);
  const highest = random.pick([0.2, 0.3, 0.45]) * rate;
  const exact = 2 ** Math.floor(Math.log2(highest));
  return {
    attributes: outputType(draw),
    inputs: [
      scalar(random.chance(0.05) ? 0 : random.integer(1, 12), integer),
      scalar(length, integer),
      scalar(rate, integer),
      scalar(lowest, float),
      scalar(exact, float),
    ],
  };
};

const dft: Recipe = (draw) => {
  const { random } = draw;
  const [isInverse, isOneSided] = [random.chance(0.4), random.chance(0.4)];
  const parts = isOneSided ? (isInverse ? 2 : 1) : random.integer(1, 2);
  const isLong = random.chance(0.1);
  // A transform is as much work as its length squared.
  const signal = draw
    .dims({ least: 1, most: 3, isEmptyAllowed: false })
    .map((extent) => Math.min(extent, isLong ? 6 : 20));
  const axis =
    draw.opset < 20 && signal.length > 1 && random.chance(0.4) ? 1 : random.integer(0, signal.length - 1);
  // A side of one element has no length of its own.
  const least = isOneSided && isInverse ? 2 : 1;
  const dims = signal.with(axis, isLong ? random.integer(50, 120) : random.integer(least, 20));
  if (random.chance(0.03) && signal.length > 1) dims[(axis + 1) % signal.length] = 0;
  const type = draw.type('T');
  const rank = dims.length + 1;
  const length = random.chance(0.5) ? scalar(random.integer(1, 24), draw.type('I')) : undefined;
  const named = scalar(Number(draw.axis(axis, rank)), 'int64');
  return {
    attributes: {
      ...(isInverse || random.chance(0.3) ? { inverse: int(Number(isInverse)) } : {}),
      ...(isOneSided || random.chance(0.3) ? { onesided: int(Number(isOneSided)) } : {}),
      ...(draw.opset < 20 && (axis !== 1 || random.chance(0.4)) ? { axis: int(draw.axis(axis, rank)) } : {}),
    },
    inputs: [
      draw.tensor([...dims, parts], type, sizeOf(dims) > 200 ? 'unit' : undefined),
      length,
      ...(draw.opset < 20 ? [] : [axis === rank - 2 && random.chance(0.4) ? undefined : named]),
    ],
  };
};

const stft: Recipe = (draw) => {
  const { random } = draw;
  const extent = random.integer(4, 60);
  const length = random.chance(0.1) ? extent : random.integer(1, Math.min(extent, 24));
  const isOneSided = random.chance(0.6);
  const parts = isOneSided ? 1 : random.integer(1, 2);
  const [type, integer] = [draw.type('T'), draw.type('I')];
  const window = random.chance(0.6) ? draw.tensor([length], type, 'unit') : undefined;
  const given = window === undefined ? length < extent || random.chance(0.5) : random.chance(0.5);
  return {
    attributes: !isOneSided || random.chance(0.3) ? { onesided: int(Number(isOneSided)) } : {},
    inputs: [
      draw.tensor([random.chance(0.03) ? 0 : random.integer(1, 2), extent, parts], type, 'unit'),
      scalar(random.integer(1, 12), integer),
      window,
      given ? scalar(length, integer) : undefined,
    ],
  };
};

export const signals: Readonly<Record<string, Recipe>> = {
  ...recipes(window, 'BlackmanWindow HammingWindow HannWindow'),
  DFT: dft,
  MelWeightMatrix: melWeightMatrix,
  STFT: stft,
};
