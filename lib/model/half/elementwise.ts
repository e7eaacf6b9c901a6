/** Elementwise functions, where an operand of the output's extents is halves already. */
import type { ElementwiseStep } from '../steps';
import { areDense, sizeOf, stridesOf, type Operand } from '../values';
import { beginOf, placed, waysThrough, type Region } from './axes';
import { firstOf, type Halving } from './halving';
import { absorbed } from './products';
import { HalfTensor } from './tensor';

type Elementwise = ElementwiseStep<Operand>;

export function halveElementwise(x: Halving, step: Elementwise): boolean {
  const { extents, output, operands, code } = step;
  const size = sizeOf(extents);
  if (!x.isWhole(output, size)) return false;
  if (absorbed(x, step)) return true;
  const like = operands
    .map((operand, i) => (areDense(step.extents, step.strides[i]!) ? x.runOf(operand, size) : undefined))
    .find((tensor) => tensor !== undefined);
  if (like === undefined) return false;
  const to = HalfTensor.of(like.n, like.channels, like.area);
  const toRegion: Region = { tensor: to, first: 0, strides: stridesOf(extents) };
  const regions = operands.map((_, i) => regionOf(x, step, i, toRegion));
  const ways = waysThrough(extents, [toRegion, ...regions])!;
  const [toWay, ...from] = ways.ways;
  x.emit(() => {
    const { extents: along, strides } = placed(ways);
    const [outputStrides, ...others] = strides;
    return {
      kind: 'elementwise',
      extents: along,
      operands: operands.map((operand, i) => (from[i]!.tensor === undefined ? operand : beginOf(from[i]!))),
      strides: others,
      code,
      types: from.map(({ tensor }) => (tensor === undefined ? 'float32' : x.type)),
      outputType: x.type,
      outputStrides: outputStrides!,
      output: beginOf(toWay!),
    };
  });
  x.made(output.storage, to);
  return true;
}

/** Constants, and what is broadcast and no halves yet, are read as they are; threads would read the others far apart. */
function regionOf(x: Halving, step: Elementwise, i: number, output: Region): Region {
  const operand = step.operands[i]!;
  const strides = step.strides[i]!;
  const fits = (region: Region) => waysThrough(step.extents, [output, region]) !== undefined;
  for (const tensor of x.halvesOf(operand.storage)) {
    const region = { tensor, first: firstOf(operand), strides };
    if (fits(region)) return region;
  }
  const { n, channels, area } = output.tensor!;
  if (operand.storage.space !== 'constant' && areDense(step.extents, step.strides[i]!) && area > 1) {
    return { tensor: x.bring(operand, n, channels, area), first: 0, strides };
  }
  x.requireFloats(operand.storage);
  return { tensor: undefined, first: 0, strides };
}
