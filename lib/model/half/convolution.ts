/** Convolutions, and products of rows with constants, which are convolutions of single pixels. */
import type { ConvolutionSpec } from '../../native_types';
import { filtersOf, floatsOf, isKnown } from '../scaling';
import type { ConvolutionStep, MatmulStep } from '../steps';
import type { Operand } from '../values';
import type { Halving } from './halving';
import { HalfTensor } from './tensor';

type Convolution = ConvolutionStep<Operand>;

/** Beyond it, float16 has infinity. */
const GREATEST_HALF = 65504;

/**
 * One of constant weights brings what it reads into halves, unless that is a vector an image: those stay float32, as in
 * squeeze-and-excitation.
 */
export function halveConvolution(x: Halving, step: Convolution): boolean {
  const { convolution, input, output, residual } = step;
  const [n, channels, h, w] = convolution.inputDims as [number, number, number, number];
  const [filters] = convolution.weightDims as [number];
  const area = outputArea(convolution);
  if (!isConstant(step) || convolution.keepsIntegers) return false;
  if (!x.isWhole(output, n * filters * area)) return false;
  const isMap = h * w > 1 && n * area > 1;
  if (!isMap && x.runOf(input, n * channels * h * w)?.is(n, channels, h * w) !== true) return false;
  if (!fitsHalves(x, step)) return false;
  const from = x.bringAligned(input, n, channels, h * w);
  const added = residual === null ? undefined : x.bringAligned(residual, n, filters, area);
  const to = HalfTensor.of(n, filters, area);
  convolve(x, step, from, added, to);
  x.made(output.storage, to);
  return true;
}

function convolve(
  x: Halving,
  step: Convolution,
  from: HalfTensor,
  added: HalfTensor | undefined,
  to: HalfTensor,
): void {
  const precision = x.type === 'float16' ? 'fp16' : 'bf16';
  x.emit(() => ({
    ...step,
    convolution: {
      ...step.convolution,
      precision,
      format: {
        input: from.format(x.type),
        residual: (added ?? to).format(x.type),
        output: to.format(x.type),
      },
    },
    input: from.operand,
    residual: added?.operand ?? null,
    output: to.operand,
  }));
}

function isConstant({ weight, scale, bias }: Convolution): boolean {
  return [weight, scale, bias].every((operand) => operand === null || isKnown(operand));
}

/** Whether its filters, once they are scaled, are numbers in halves. */
function fitsHalves(x: Halving, step: Convolution): boolean {
  if (x.type === 'bfloat16') return true;
  const filters = filtersOf(step);
  const ranges = x.constants.rangesOf(filters)!;
  const scale = step.scale && floatsOf(step.scale, filters.count);
  for (let k = 0; k < filters.count; k++) {
    if (Math.abs(ranges[2 * k]! * (scale?.[k] ?? 1)) > GREATEST_HALF) {
      x.tooLarge.push(x.nodes);
      return false;
    }
  }
  return true;
}

/** Pixels of an image. A compiled step has its padding as numbers. */
export function outputArea({ inputDims, weightDims, padding, stride, dilation }: ConvolutionSpec): number {
  const [p, q] = [0, 1].map((axis) => {
    const padded = inputDims[2 + axis]! + Number(padding[axis]) + Number(padding[axis + 2]);
    const window = dilation[axis]! * (weightDims[2 + axis]! - 1) + 1;
    return Math.floor((padded - window) / stride[axis]!) + 1;
  }) as [number, number];
  return p * q;
}

/** Of rows that are halves already, as the 1x1 convolution of one image. */
export function halveMatmul(x: Halving, step: MatmulStep<Operand>): boolean {
  const { m, n, k, output } = step;
  const rows = x.runOf(step.left, m * k);
  if (m === 1 || rows?.is(m, k, 1) !== true || !isProductOfRows(step)) return false;
  if (!x.isWhole(output, m * n)) return false;
  const weight = filtersOfProduct(x, step);
  const convolution = pointwiseOf(step);
  const asConvolution: Convolution = {
    ...{ kind: 'convolution', convolution, weight, scale: null },
    ...{ input: step.left, bias: step.bias, residual: null, output },
  };
  const from = x.bringAligned(step.left, m, k, 1);
  const to = HalfTensor.of(m, n, 1);
  convolve(x, asConvolution, from, undefined, to);
  x.made(output.storage, to);
  return true;
}

function isProductOfRows(step: MatmulStep<Operand>): boolean {
  const { batch, k, n, leftStrides, rightStrides, right, bias, biasStrides, alpha, beta } = step;
  const isDense = leftStrides[0] === k && leftStrides[1] === 1;
  const [down, along] = rightStrides as [number, number];
  const isMatrix = (down === n && along === 1) || (down === 1 && along === k);
  const isRow =
    bias === null || (isKnown(bias) && beta === 1 && biasStrides[0] === 0 && biasStrides[1] === 1);
  return batch.length === 0 && isDense && isKnown(right) && isMatrix && isRow && alpha === 1;
}

/** The right matrix, transposed unless it is already. */
function filtersOfProduct(x: Halving, { right, rightStrides, k, n }: MatmulStep<Operand>): Operand {
  if (rightStrides[0] === 1 && k > 1) return right;
  const { storage, offset } = right;
  const make = (): Operand => {
    const from = floatsOf(right, k * n);
    const data = new Float32Array(k * n);
    for (let j = 0; j < n; j++) for (let i = 0; i < k; i++) data[j * k + i] = from[i * n + j]!;
    const isShared = storage.isShared === true;
    return { storage: { space: 'constant', bytes: data.byteLength, data, isShared }, offset: 0 };
  };
  if (storage.isShared !== true) return make();
  return x.constants.once(['transposed', storage.data!, offset, k, n], make);
}

function pointwiseOf({ m, n, k, activation }: MatmulStep<Operand>): ConvolutionSpec {
  return {
    inputDims: [1, k, 1, m],
    weightDims: [n, k, 1, 1],
    stride: [1, 1],
    padding: [0, 0, 0, 0],
    dilation: [1, 1],
    groups: 1,
    activation,
    device: -1,
    algorithm: 'auto',
    variant: '',
    workspaceLimit: Infinity,
    sconv: { schedule: null, presentation: null, vectorPacking: true, packing: 'onDemand' },
  };
}
