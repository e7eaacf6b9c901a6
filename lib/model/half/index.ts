/**
 * Networks in halves: tensors between layers are float16 or bfloat16 in NHWC, where convolutions are fastest. Each kind of
 * step has a function that emits it for halves, or says that it stays float32; then what it reads is brought there. Inputs
 * and outputs of the network stay as they are.
 */
import { isDue, inSlices, type Sliced } from '../../slices';
import type { PlannedStep } from '../builder';
import type { Constants } from '../constants';
import { buffersRead, type HalfType, type Step } from '../steps';
import type { Operand, Storage } from '../values';
import { filtersIn, halveConvolution, halveMatmul } from './convolution';
import { Copies } from './copy';
import { halveElementwise } from './elementwise';
import { halveExcitation } from './excitation';
import { Halving } from './halving';
import { withoutShuffles } from './shuffles';

import { halveAlong, halveCast, halveNormalize, halvePool, halveReduce } from './windows';

export interface Halved {
  readonly steps: PlannedStep[];
  /** The nodes of convolutions that stay float32, as halves have not the numbers of their filters */
  readonly tooLarge: readonly (readonly string[])[];
}

/** Steps after `fuse`, before their tensors are joined. `outputs` are read by the caller. */
export async function halve(
  steps: readonly PlannedStep[],
  outputs: ReadonlySet<Storage>,
  constants: Constants,
  type: HalfType,
): Promise<Halved> {
  const plain = await inSlices(withoutShuffles(steps, outputs, constants));
  if (type === 'float16') await constants.findRanges(await inSlices(filtersOfAll(plain)));
  const x = new Halving(plain, outputs, constants, type);
  await inSlices(halveAll(x));
  return { steps: x.finish(), tooLarge: x.tooLarge };
}

function* filtersOfAll(steps: readonly PlannedStep[]) {
  const all = [];
  for (const [index, { step }] of steps.entries()) {
    if (isDue(index)) yield;
    const filters = filtersIn(step);
    if (filters !== undefined) all.push(filters);
  }
  return all;
}

function* halveAll(x: Halving): Sliced<void> {
  const copies = new Copies(x);
  for (const [index, planned] of x.steps.entries()) {
    if (isDue(index)) yield;
    x.nodes = planned.nodes;
    const { step } = planned;
    const isHalved = step.kind === 'matmul' ? yield* halveMatmul(x, step) : halveStep(x, copies, step);
    if (isHalved) continue;
    for (const { storage } of buffersRead(step)) x.requireFloats(storage);
    x.emitFloats(step.output.storage, () => step);
  }
}

function halveStep(x: Halving, copies: Copies, step: Step<Operand>): boolean {
  switch (step.kind) {
    case 'convolution':
      return halveConvolution(x, step);
    case 'elementwise':
      return halveExcitation(x, step) || halveElementwise(x, step);
    case 'pool':
      return halvePool(x, step);
    case 'reduce':
      return halveReduce(x, step);
    case 'normalize':
      return halveNormalize(x, step);
    case 'interpolate':
    case 'gather':
      return halveAlong(x, step);
    case 'copy':
      return copies.copy(step);
    case 'fill':
      return copies.fill(step);
    case 'map':
      return halveCast(x, step);
    default:
      return false;
  }
}
