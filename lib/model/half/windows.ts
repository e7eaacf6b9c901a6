/** Pools, means over maps, resizes, normalised rows, and casts. */
import type { GatherStep, InterpolateStep, MapStep, NormalizeStep, PoolStep, ReduceStep } from '../steps';
import type { Operand } from '../values';
import { castOf, PLAIN, type Halving } from './halving';
import { HalfTensor, WORD } from './tensor';

export function halvePool(x: Halving, step: PoolStep<Operand>): boolean {
  const { planes, h, w, p, q, input, output } = step;
  const from = x.runOf(input, planes * h * w);
  if (from?.area !== h * w || !x.isWhole(output, planes * p * q)) return false;
  const { n, channels } = from;
  const to = HalfTensor.of(n, channels, p * q);
  x.emit(() => ({
    ...step,
    channels,
    inputFormat: from.format(x.type),
    outputFormat: to.format(x.type),
    input: from.operand,
    output: to.operand,
  }));
  x.made(output.storage, to);
  return true;
}

const OF_HALVES: ReadonlySet<string> = new Set(['sum', 'mean', 'maximum', 'minimum']);

/** Of whole maps, in float32: there are few, and what follows is a classifier, or one number for each channel. */
export function halveReduce(x: Halving, step: ReduceStep<Operand>): boolean {
  const { outer, reduced, inner, input, mode } = step;
  const from = x.runOf(input, outer * reduced * inner);
  if (from === undefined || inner !== 1 || reduced !== from.area || !OF_HALVES.has(mode)) return false;
  const { n, channels, area } = from;
  x.emitFloats(step.output.storage, () => ({
    ...step,
    outer: n,
    reduced: area,
    inner: channels,
    type: x.type,
    pitch: from.format(x.type).pitch,
    input: from.operand,
  }));
  return true;
}

/** Along the height or the width: pixels that are apart have the channels of all that lie between them next to them. */
export function halveAlong(x: Halving, step: InterpolateStep<Operand> | GatherStep<Operand>): boolean {
  const { outer, axis, count, inner, input, output } = step;
  const given = x.halvesOf(input.storage)[0];
  if (given === undefined || input.offset !== 0 || given.size !== outer * axis * inner) return false;
  if (step.kind === 'gather' && step.bytes !== 4) return false;
  const { n, channels, area } = given;
  const maps = n * channels;
  if (outer % maps !== 0 || !x.isWhole(output, outer * count * inner)) return false;
  const from = packed(x, given);
  const to = HalfTensor.packed(n, channels, (area / axis) * count);
  const along = { outer: (outer / maps) * n, inner: inner * channels };
  x.emit(() => ({
    ...step,
    ...along,
    ...(step.kind === 'gather' ? { bytes: 2 } : { type: x.type }),
    input: from.operand,
    output: to.operand,
  }));
  x.made(output.storage, to);
  return true;
}

/** Each of the rows of features. */
export function halveNormalize(x: Halving, step: NormalizeStep<Operand>): boolean {
  const { rows, count, groups, inner, input, output } = step;
  const given = x.runOf(input, rows * count);
  if (given?.is(rows, count, 1) !== true || groups !== 1 || inner !== 1) return false;
  if (count % WORD !== 0 || !x.isWhole(output, rows * count)) return false;
  const from = packed(x, given);
  const to = HalfTensor.packed(rows, count, 1);
  x.emit(() => ({ ...step, type: x.type, input: from.operand, output: to.operand }));
  x.made(output.storage, to);
  return true;
}

/** The tensor without anything between its pixels, where it stays. */
function packed(x: Halving, tensor: HalfTensor): HalfTensor {
  const { n, channels, area } = tensor;
  return tensor.pin() ? tensor : x.copied(tensor, HalfTensor.packed(n, channels, area));
}

/** To the type that it has as halves: their elements in the order of NCHW. */
export function halveCast(x: Halving, step: MapStep<Operand>): boolean {
  const cast = castOf(step);
  const from = cast?.to === x.type ? x.runOf(cast.operand, cast.size) : undefined;
  if (from === undefined) return false;
  const { n, channels, area } = from;
  x.emit(() => ({
    kind: 'format',
    ...{ n, channels, area },
    from: from.format(x.type),
    to: { ...PLAIN, type: x.type },
    input: from.operand,
    output: step.output,
  }));
  return true;
}
