/** Convolutions, and products of rows with constants, which are convolutions of single pixels. */
import type { ConvolutionSpec, TensorFormat } from '../../native_types';
import type { Sliced } from '../../slices';
import { filtersOf, floatsOf, isKnown } from '../scaling';
import type { Filters } from '../constants';
import type { ConvolutionStep, HalfType, MatmulStep, Step } from '../steps';
import type { Operand } from '../values';
import type { Halving } from './halving';
import { HalfTensor, WORD } from './tensor';

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
  if (!fitsHalves(x, filtersOf(step), step.scale)) return false;
  const from = isOfImages(x, step) ? undefined : x.bringAligned(input, n, channels, h * w);
  const added = residual === null ? undefined : x.bringAligned(residual, n, filters, area);
  const to = HalfTensor.of(n, filters, area);
  convolve(x, step, from, added, to);
  x.made(output.storage, to);
  return true;
}

const PLAIN: TensorFormat = { type: 'float32', layout: 'nchw', pitch: 0 };

/** Whether it reads an image, as the first of a network does: there is an algorithm that rounds it to halves itself. */
function isOfImages(x: Halving, { convolution, input }: Convolution): boolean {
  const { weightDims, groups, dilation } = convolution;
  const [, channels] = weightDims as [number, number, number, number];
  const isFloat = x.halvesOf(input.storage).length === 0;
  return isFloat && groups === 1 && channels < WORD && dilation[1] === 1;
}

/** Emits a convolution to halves, of halves or, without `from`, of what the step reads, and returns its place among the steps. */
export function convolve(
  x: Halving,
  step: Convolution,
  from: HalfTensor | undefined,
  added: HalfTensor | undefined,
  to: HalfTensor,
): number {
  const precision = x.type === 'float16' ? 'fp16' : 'bf16';
  return x.emit(() => ({
    ...step,
    convolution: {
      ...step.convolution,
      precision,
      format: {
        input: from?.format(x.type) ?? PLAIN,
        residual: (added ?? to).format(x.type),
        output: to.format(x.type),
      },
    },
    input: from?.operand ?? step.input,
    residual: added?.operand ?? null,
    output: to.operand,
  }));
}

function isConstant({ weight, scale, bias }: Convolution): boolean {
  return [weight, scale, bias].every((operand) => operand === null || isKnown(operand));
}

/** What {@link Constants.findRanges} is to be asked for, if a step may be of halves. */
export function filtersIn(step: Step<Operand>): Filters | undefined {
  if (step.kind === 'convolution') return isKnown(step.weight) ? filtersOf(step) : undefined;
  return step.kind === 'matmul' && isProductOfRows(step) ? matrixOf(step) : undefined;
}

function matrixOf({ right, k, n }: MatmulStep<Operand>): Filters {
  return { data: right.storage.data as Float32Array, first: right.offset / 4, count: 1, size: k * n };
}

/** Whether it is a number in halves, unless it is none in float32. */
export function fitsHalf(type: HalfType, value: number): boolean {
  return type === 'bfloat16' || !(Math.abs(value) > GREATEST_HALF);
}

/** Whether filters, once they are scaled, are numbers in halves. */
function fitsHalves(x: Halving, filters: Filters, factors: Operand | null): boolean {
  if (x.type === 'bfloat16') return true;
  const ranges = x.constants.rangesOf(filters)!;
  const scale = factors && floatsOf(factors, filters.count);
  for (let k = 0; k < filters.count; k++) {
    if (!fitsHalf(x.type, ranges[2 * k]! * (scale?.[k] ?? 1))) {
      x.tooLarge.push(x.nodes);
      return false;
    }
  }
  return true;
}

/** Pixels of an image. */
export function outputArea(convolution: ConvolutionSpec): number {
  const [p, q] = outputExtents(convolution);
  return p * q;
}

/** Height and width. A compiled step has its padding as numbers. */
function outputExtents({
  inputDims,
  weightDims,
  padding,
  stride,
  dilation,
}: ConvolutionSpec): [number, number] {
  return [0, 1].map((axis) => {
    const padded = inputDims[2 + axis]! + Number(padding[axis]) + Number(padding[axis + 2]);
    const window = dilation[axis]! * (weightDims[2 + axis]! - 1) + 1;
    return Math.floor((padded - window) / stride[axis]!) + 1;
  }) as [number, number];
}

/**
 * Of rows that are halves already, as the convolution of an image whose pixels they are; of maps that follow each other in
 * a row, as one whose filters are as large as they.
 */
export function* halveMatmul(x: Halving, step: MatmulStep<Operand>): Sliced<boolean> {
  const { m, n, k, left, output } = step;
  const rows = x.runOf(left, m * k);
  if (rows === undefined || !isProductOfRows(step) || !x.isWhole(output, m * n)) return false;
  const { channels, area } = rows;
  if (rows.n !== m || channels * area !== k || !fitsHalves(x, matrixOf(step), null)) return false;
  const asConvolution: Convolution = {
    ...{ kind: 'convolution', convolution: convolutionOf(step, rows), scale: null, residual: null },
    ...{ input: left, weight: yield* filtersOfProduct(x, step), bias: step.bias, output },
  };
  const from = x.bringAligned(left, m, channels, area);
  const to = HalfTensor.of(m, n, 1);
  const index = convolve(x, asConvolution, from, undefined, to);
  x.made(output.storage, to);
  const greatest = x.type === 'float16' ? x.constants.rangesOf(matrixOf(step))![0]! : 0;
  if (area === 1)
    x.noteProduct(output.storage, { step: asConvolution, from, index, greatest, nodes: x.nodes });
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

/** Elements of a matrix that take about a millisecond */
const TURNED_AT_ONCE = 2 ** 18;

/** The right matrix, transposed unless it is already. */
function* filtersOfProduct(x: Halving, { right, rightStrides, k, n }: MatmulStep<Operand>): Sliced<Operand> {
  if (rightStrides[0] === 1 && rightStrides[1] === k) return right;
  const isShared = right.storage.isShared === true;
  const make = function* (): Sliced<Operand> {
    const from = floatsOf(right, k * n);
    const data = new Float32Array(k * n);
    for (let [j, done] = [0, 0]; j < n; j++, done += k) {
      if (done > TURNED_AT_ONCE) {
        yield;
        done = 0;
      }
      for (let i = 0; i < k; i++) data[j * k + i] = from[i * n + j]!;
    }
    return { storage: { space: 'constant', bytes: data.byteLength, data, isShared }, offset: 0 };
  };
  const { data } = right.storage;
  return isShared
    ? yield* x.constants.onceInSlices(['transposed', data!, right.offset, k, n], make)
    : yield* make();
}

/** Of a map of so many pixels whose rows do not matter: as high as it is wide, since long windows suit no kernel. */
function heightOf(area: number): number {
  let height = Math.floor(Math.sqrt(area));
  while (area % height !== 0) height--;
  return height;
}

function convolutionOf({ m, n, k, activation }: MatmulStep<Operand>, rows: HalfTensor): ConvolutionSpec {
  const { channels, area } = rows;
  const height = heightOf(area);
  return {
    inputDims: area === 1 ? [1, k, 1, m] : [m, channels, height, area / height],
    weightDims: [n, channels, height, area / height],
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
