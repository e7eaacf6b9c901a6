/** Numbers of the types that convolutions take, and NHWC, from the definitions: nothing here is the library's. */
import { Tensor, type FloatType, type Layout } from '../../lib';
import { bitsIn } from './float16_bits';

/** Bits of the fraction, the least exponent of a normal number, and the greatest number. */
const HALVES = {
  float16: { fraction: 10, least: -14, greatest: 65504 },
  bfloat16: { fraction: 7, least: -126, greatest: (2 - 2 ** -7) * 2 ** 127 },
} as const;

// Taken out of the global object once: looking them up there, for every element, is very slow under Jest.
const { abs, floor, fround, log2, max, sign } = Math;

/** From a finite number to the next of the type, near `value`. */
export function stepOf(type: FloatType, value: number): number {
  const { fraction, least } = type === 'float32' ? { fraction: 23, least: -126 } : HALVES[type];
  return 2 ** (max(floor(log2(abs(value))), least) - fraction);
}

/** The number of the type that is nearest, of two the one with the even last bit; infinite beyond the greatest. */
export function nearest(type: FloatType, value: number): number {
  if (type === 'float32' || !Number.isFinite(value) || value === 0) return fround(value);
  const step = stepOf(type, value);
  const below = floor(value / step);
  const rest = value / step - below;
  const up = rest > 0.5 || (rest === 0.5 && below % 2 !== 0);
  const rounded = (up ? below + 1 : below) * step;
  return abs(rounded) > HALVES[type].greatest ? sign(rounded) * Infinity : rounded;
}

/** The bits of a number that the type has. */
function bitsOf(type: 'float16' | 'bfloat16', value: number): number {
  const { fraction, least } = HALVES[type];
  const negative = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const top = (2 ** (15 - fraction) - 1) * 2 ** fraction;
  if (Number.isNaN(value)) return top + 1;
  if (!Number.isFinite(value)) return negative | top;
  const magnitude = abs(value);
  const units = magnitude / stepOf(type, value);
  if (units < 2 ** fraction) return negative | units;
  return negative | ((floor(log2(magnitude)) - least) * 2 ** fraction + units);
}

function valueOf(type: 'float16' | 'bfloat16', bits: number): number {
  const { fraction, least } = HALVES[type];
  const negative = bits & 0x8000 ? -1 : 1;
  const exponent = (bits & 0x7fff) >> fraction;
  const rest = bits & (2 ** fraction - 1);
  if (exponent === 2 ** (15 - fraction) - 1) return rest === 0 ? negative * Infinity : NaN;
  const units = exponent === 0 ? rest : rest + 2 ** fraction;
  return negative * units * 2 ** (max(exponent, 1) - 1 + least - fraction);
}

/** A tensor's array of numbers that the type has. */
export function elementsOf(type: FloatType, values: ArrayLike<number>): Float32Array | Uint16Array {
  return type === 'float32'
    ? Float32Array.from(values)
    : Uint16Array.from({ length: values.length }, (_, index) => bitsOf(type, values[index]!));
}

/** The numbers in a tensor's array. */
export function valuesOf(type: FloatType, array: ArrayLike<number>): Float64Array {
  const elements = bitsIn(array);
  return Float64Array.from({ length: elements.length }, (_, index) =>
    type === 'float32' ? elements[index]! : valueOf(type, elements[index]!),
  );
}

export function dimsIn(layout: Layout, [n, c, h, w]: readonly number[]): number[] {
  return layout === 'nchw' ? [n!, c!, h!, w!] : [n!, h!, w!, c!];
}

/** Where element `index` of NCHW is in a layout. */
function placeIn(layout: Layout, [, c, h, w]: readonly number[], index: number): number {
  if (layout === 'nchw') return index;
  const area = h! * w!;
  const [image, rest] = [floor(index / (c! * area)), index % (c! * area)];
  return (image * area + (rest % area)) * c! + floor(rest / area);
}

/** A tensor of numbers that the type has, given in the order of NCHW. */
export function tensorIn<T extends FloatType>(
  form: { readonly type: T; readonly layout: Layout },
  dims: readonly number[],
  values: ArrayLike<number>,
): Tensor<T> {
  const placed = new Float64Array(values.length);
  for (let index = 0; index < values.length; index++)
    placed[placeIn(form.layout, dims, index)] = values[index]!;
  return new Tensor<T>(form.type, elementsOf(form.type, placed) as never, dimsIn(form.layout, dims));
}

/** The numbers of a tensor's elements in the order of NCHW, whose dims are given so. */
export function plainValues(
  { type, layout }: { readonly type: FloatType; readonly layout: Layout },
  dims: readonly number[],
  elements: ArrayLike<number>,
): Float64Array {
  const values = valuesOf(type, elements);
  return values.map((_, index) => values[placeIn(layout, dims, index)]!);
}
