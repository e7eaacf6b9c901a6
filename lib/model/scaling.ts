/**
 * A convolution whose result is multiplied, or added to, by channel, as a convolution with other filters and biases. The
 * filters stay as they are: native code multiplies each by its factor when it packs them.
 */
import type { Constants, Filters } from './constants';
import type { ConvolutionStep } from './steps';
import { sizeOf, type Operand } from './values';

type Convolution = ConvolutionStep<Operand>;

/** One number for all channels, or a constant that has one for each. */
export type ByChannel = number | Operand;

export function isKnown({ storage }: Operand): boolean {
  return storage.data !== undefined;
}

/** So many floats of a constant. */
export function floatsOf({ storage, offset }: Operand, count: number): Float32Array {
  return (storage.data as Float32Array).subarray(offset / 4, offset / 4 + count);
}

/** Of a convolution whose weight is a constant */
export function filtersOf({ convolution: { weightDims }, weight }: Convolution): Filters {
  const [count] = weightDims as [number];
  const data = weight.storage.data as Float32Array;
  return { data, first: weight.offset / 4, count, size: sizeOf(weightDims) / count };
}

/** Whether a factor and a summand can go into a convolution: it does nothing behind them, and they are there before a run. */
export function isScalable({ weight, bias, residual, convolution }: Convolution): boolean {
  const isLinear = residual === null && convolution.activation.name === 'none';
  return isLinear && isKnown(weight) && (bias === null || isKnown(bias));
}

/**
 * A scalable convolution's result times `factor` plus `summand`. `undefined` where the products with the weights leave
 * float32's range, so that some inputs would give something else than before.
 */
export function scaled(
  step: Convolution,
  factor: ByChannel,
  summand: ByChannel,
  constants: Constants,
): Convolution | undefined {
  const { weight, scale, bias } = step;
  const key: (object | string | number)[] = ['scaled', step.convolution.weightDims.join()];
  let isShared = true;
  for (const part of [weight, scale, bias, factor, summand]) {
    if (part === null || typeof part === 'number') {
      key.push(part ?? 'none');
    } else {
      key.push(part.storage.data!, part.offset);
      isShared &&= part.storage.isShared === true;
    }
  }
  const make = () => scaledParts(step, factor, summand, constants, isShared);
  const parts = isShared ? constants.once(key, make) : make();
  return parts && { ...step, ...parts };
}

function scaledParts(
  step: Convolution,
  factor: ByChannel,
  summand: ByChannel,
  constants: Constants,
  isShared: boolean,
): Pick<Convolution, 'scale' | 'bias'> | undefined {
  const filters = filtersOf(step);
  const { count } = filters;
  const numbers = (part: ByChannel | null, none: number) => {
    const given = part ?? none;
    return typeof given === 'number' ? new Float32Array(count).fill(given) : floatsOf(given, count);
  };
  const [oldScale, oldBias] = [numbers(step.scale, 1), numbers(step.bias, 0)];
  const [factors, summands] = [numbers(factor, 1), numbers(summand, 0)];
  const ranges = constants.rangesOf(filters);
  const [scale, bias] = [new Float32Array(count), new Float32Array(count)];
  for (let k = 0; k < count; k++) {
    bias[k] = oldBias[k]! * factors[k]! + summands[k]!;
    if (!Number.isFinite(bias[k])) return undefined;
    if (factor === 1) continue;
    const product = oldScale[k]! * factors[k]!;
    scale[k] = product;
    if (!isFactor(product, scale[k]!)) return undefined;
    const lost = lostOf(filters, k, scale[k]!, ranges);
    if (!(lost * GREATEST_FLOAT <= Math.abs(bias[k]!) * 2 ** -24)) return undefined;
  }
  const isPlain = scale.every((one) => one === 1);
  const newScale = isPlain ? null : constantOperand(scale, isShared);
  return { scale: factor === 1 ? step.scale : newScale, bias: constantOperand(bias, isShared) };
}

const GREATEST_FLOAT = 3.4028234663852886e38;
const LEAST_NORMAL = 2 ** -126;

/** Whether a product of factors can be one: a subnormal one has lost bits, and so would all that it is multiplied with. */
function isFactor(exact: number, rounded: number): boolean {
  return exact === 0 || (Math.abs(exact) >= LEAST_NORMAL && Number.isFinite(rounded));
}

/**
 * What the products of a filter with a factor lose by underflow, the sum of their errors: that of an ordinary rounding
 * does not count. An overflow loses everything.
 */
function lostOf(filters: Filters, k: number, factor: number, ranges: Float32Array | undefined): number {
  if (ranges !== undefined) {
    const [largest, smallest] = [ranges[2 * k]!, ranges[2 * k + 1]!];
    const isInRange = factor === 0 || smallest * Math.abs(factor) >= LEAST_NORMAL;
    if (largest * Math.abs(factor) <= GREATEST_FLOAT && isInRange) return 0;
  }
  const begin = filters.first + k * filters.size;
  let lost = 0;
  for (let i = begin; i < begin + filters.size; i++) {
    const product = filters.data[i]! * factor;
    const error = Math.abs(Math.fround(product) - product);
    if (!(error <= Math.abs(product) * 2 ** -24)) lost += error;
  }
  return lost;
}

/** @param isShared - whether it lives as long as the session */
export function constantOperand(data: Float32Array, isShared: boolean): Operand {
  return { storage: { space: 'constant', bytes: data.byteLength, data, isShared }, offset: 0 };
}
