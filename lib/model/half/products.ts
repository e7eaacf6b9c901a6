/** What follows a product of rows, in the epilogue of the convolution that it is. Of other convolutions `fuse` did so before. */
import { activationOf } from '../fuse';
import { floatsOf, isKnown } from '../scaling';
import type { ConvolutionStep, ElementwiseStep, Instruction } from '../steps';
import { areDense, sizeOf, stridesOf, type Operand } from '../values';
import { waysThrough } from './axes';
import { convolve, fitsHalf } from './convolution';
import type { Halving, Product } from './halving';
import { HalfTensor } from './tensor';

type Convolution = ConvolutionStep<Operand>;
type Elementwise = ElementwiseStep<Operand>;

/** In the order in which an epilogue does it */
interface Epilogue {
  factor?: Operand;
  residual?: Operand;
  activation?: Convolution['convolution']['activation'];
}

/** Whether all of the step is a factor for each feature, a residual and an activation, of what a product alone made for it. */
export function absorbed(x: Halving, step: Elementwise): boolean {
  const { operands, extents, output } = step;
  const size = sizeOf(extents);
  for (const [k, operand] of operands.entries()) {
    const product = x.products.get(operand.storage);
    const rows = product && x.runOf(operand, size);
    if (rows === undefined || !areDense(step.extents, step.strides[k]!)) continue;
    const epilogue = epilogueOf(step, k, rows);
    const absorbing = epilogue && withEpilogue(x, product!, epilogue);
    if (absorbing === undefined) continue;
    const { n, channels, area } = rows;
    x.withdraw(product!.index);
    x.nodes = [...product!.nodes, ...x.nodes];
    const { residual } = epilogue!;
    const added = residual && x.bringAligned(residual, n, channels, area);
    const to = HalfTensor.of(n, channels, area);
    convolve(x, absorbing, product!.from, added, to);
    x.made(output.storage, to);
    return true;
  }
  return false;
}

function epilogueOf(step: Elementwise, k: number, rows: HalfTensor): Epilogue | undefined {
  const epilogue: Epilogue = {};
  let value = k;
  for (const [i, one] of step.code.entries()) {
    if (epilogue.activation !== undefined || !addTo(epilogue, step, one, value, rows)) return undefined;
    value = step.operands.length + i;
  }
  return epilogue;
}

function addTo(
  epilogue: Epilogue,
  step: Elementwise,
  one: Instruction,
  value: number,
  rows: HalfTensor,
): boolean {
  if (one.operation !== 'add' && one.operation !== 'multiply') {
    const activation = one.a === value ? activationOf(one) : undefined;
    if (activation === undefined) return false;
    epilogue.activation = activation;
    return true;
  }
  if ((one.a === value) === (one.b === value) || epilogue.residual !== undefined) return false;
  const other = one.a === value ? one.b : one.a;
  const operand = step.operands[other];
  if (operand === undefined) return false;
  if (one.operation === 'multiply') {
    if (epilogue.factor !== undefined || !isByChannel(step, other, rows)) return false;
    epilogue.factor = operand;
  } else {
    if (isKnown(operand) || !areDense(step.extents, step.strides[other]!)) return false;
    epilogue.residual = operand;
  }
  return true;
}

/** Whether an operand is a constant that has a number for each channel. */
function isByChannel({ extents, operands, strides }: Elementwise, i: number, rows: HalfTensor): boolean {
  if (!isKnown(operands[i]!)) return false;
  const ways = waysThrough(extents, [
    { tensor: rows, first: 0, strides: stridesOf(extents) },
    { tensor: undefined, first: 0, strides: strides[i]! },
  ]);
  if (ways === undefined) return false;
  const [tensor, operand] = ways.ways;
  return ways.extents.every(
    (extent, axis) => extent === 1 || operand!.channels[axis] === tensor!.channels[axis],
  );
}

/** `undefined` where halves have not the numbers of the filters times the factors. */
function withEpilogue(
  x: Halving,
  { step, greatest }: Product,
  { factor, activation = step.convolution.activation }: Epilogue,
): Convolution | undefined {
  if (step.convolution.activation.name !== 'none') return undefined;
  const after = { ...step, convolution: { ...step.convolution, activation } };
  if (factor === undefined) return after;
  const [count] = step.convolution.weightDims as [number];
  const factors = floatsOf(factor, count);
  if (!factors.every((one) => fitsHalf(x.type, one * greatest))) return undefined;
  const { bias } = step;
  const isShared = [factor, bias].every((operand) => operand === null || operand.storage.isShared === true);
  const make = (): Operand => {
    const data = floatsOf(bias!, count).map((one, i) => one * factors[i]!);
    return { storage: { space: 'constant', bytes: data.byteLength, data, isShared }, offset: 0 };
  };
  const key = () => [bias!.storage.data!, bias!.offset, factor.storage.data!, factor.offset, count];
  const scaled = bias && (isShared ? x.constants.once(['scaled bias', ...key()], make) : make());
  return { ...after, scale: factor, bias: scaled };
}
