/** Squeeze-and-excitation: maps times gates that two products make of the maps' means, in one step. */
import { areSameDims } from '../../check';
import type { NativeActivation } from '../../native_types';
import { constantOperand, floatsOf, isKnown } from '../scaling';
import type { ConvolutionStep, ElementwiseStep, SqueezeExciteStep, Step } from '../steps';
import { areDense, sizeOf, type Operand } from '../values';
import { waysThrough } from './axes';
import type { Halving } from './halving';
import { HalfTensor } from './tensor';

type Elementwise = ElementwiseStep<Operand>;
type Convolution = ConvolutionStep<Operand>;

/** That native code takes */
const MOST_CHANNELS = 4096;
const MOST_HIDDEN = 1024;

/** Of the second product, which are turned at once: some milliseconds */
const MOST_WEIGHTS = 2 ** 20;

/** A step that makes what one other alone reads. */
interface Made<S = Step<Operand>> {
  readonly step: S;
  readonly nodes: readonly string[];
  /** Among those that are emitted */
  readonly place: number;
}

/** The steps that make gates: two products of the maps' means, and behind them a hard sigmoid or nothing. */
interface Gates {
  readonly mean: Made;
  readonly first: Made<Convolution>;
  readonly second: Made<Convolution>;
  readonly bounded: Made<Elementwise> | undefined;
}

export function halveExcitation(x: Halving, step: Elementwise): boolean {
  const { operands, extents, output } = step;
  const size = sizeOf(extents);
  const places = placesIn(step);
  if (places === undefined || !x.isWhole(output, size)) return false;
  const maps = operands[places.maps]!;
  const from = x.runOf(maps, size);
  if (from === undefined || from.area === 1 || !isByChannel(step, places, from)) return false;
  const gates = gatesOf(x, operands[places.gates]!, maps, from);
  const gate = gates && gateOf(x, gates);
  if (gate === undefined) return false;
  const { mean, first, second, bounded } = gates!;
  const gone = [mean, first, second, ...(bounded === undefined ? [] : [bounded])];
  for (const { place } of gone) x.withdraw(place);
  x.nodes = [...gone.flatMap(({ nodes }) => nodes), ...x.nodes];
  const { n, channels, area } = from;
  const to = HalfTensor.of(n, channels, area);
  x.emit(() => ({
    ...{ kind: 'squeezeExcite', n, channels, area, hidden: first.step.convolution.weightDims[0]! },
    ...{ type: x.type, inputPitch: from.pitch, outputPitch: to.pitch, input: from.operand },
    hiddenActivation: first.step.convolution.activation,
    ...{ hiddenWeight: first.step.weight, hiddenBias: first.step.bias },
    ...gate,
    output: to.operand,
  }));
  x.made(output.storage, to);
  return true;
}

/** Which operands a product of maps and of what may be their gates has. */
interface Places {
  readonly maps: number;
  readonly gates: number;
}

function placesIn({ code, operands, extents, strides }: Elementwise): Places | undefined {
  const [product, ...others] = code;
  if (product!.operation !== 'multiply' || others.length > 0 || product!.a === product!.b) return undefined;
  const maps = [product!.a, product!.b].find((i) => i < operands.length && areDense(extents, strides[i]!));
  return maps === undefined ? undefined : { maps, gates: product!.a + product!.b - maps };
}

/** Whether there is a gate for each channel of each image. */
function isByChannel(
  { extents, strides }: Elementwise,
  { maps, gates }: Places,
  { n, channels, area }: HalfTensor,
): boolean {
  const all = HalfTensor.of(n, channels, area);
  const ways = waysThrough(extents, [
    { tensor: all, first: 0, strides: strides[maps]! },
    { tensor: undefined, first: 0, strides: strides[gates]! },
  ]);
  if (ways === undefined) return false;
  const [ofMaps, ofGates] = ways.ways;
  return ways.extents.every((extent, axis) => {
    if (extent === 1) return true;
    const pixels = ofMaps!.pixels[axis]!;
    const images = pixels % area === 0 ? pixels / area : 0;
    return ofGates!.channels[axis] === ofMaps!.channels[axis]! + images * channels;
  });
}

function gatesOf(
  x: Halving,
  gates: Operand,
  maps: Operand,
  { n, channels, area }: HalfTensor,
): Gates | undefined {
  const bounded = hardSigmoidOf(x, gates);
  const second = productOf(x, bounded?.step.operands[0] ?? gates);
  const first = second && productOf(x, second.step.input);
  const mean = first && madeAlone(x, first.step.input);
  if (mean?.step.kind !== 'reduce') return undefined;
  const { input, mode, outer, reduced, inner } = mean.step;
  const isOfMaps = input.storage === maps.storage && input.offset === maps.offset;
  const isMean = mode === 'mean' && outer === n * channels && reduced === area && inner === 1;
  const [hidden, ...made] = [first!, second!].map(({ step }) => step.convolution.weightDims[0]!);
  const dims = [first!, second!].map(({ step }) => step.convolution.inputDims.slice(0, 2));
  const fits = areSameDims(dims.flat(), [n, channels, n, hidden!]) && areSameDims(made, [channels]);
  const isSmall = channels <= MOST_CHANNELS && hidden! <= MOST_HIDDEN && channels * hidden! <= MOST_WEIGHTS;
  return isOfMaps && isMean && fits && isSmall
    ? { mean, first: first!, second: second!, bounded }
    : undefined;
}

function madeAlone(x: Halving, { storage, offset }: Operand): Made | undefined {
  const [writer, ...others] = x.writersOf(storage);
  const place = x.floatMakerOf(storage);
  if (writer === undefined || place === undefined || others.length > 0) return undefined;
  return offset === 0 && x.isReadOnce(storage) ? { ...x.steps[writer]!, place } : undefined;
}

function hardSigmoidOf(x: Halving, operand: Operand): Made<Elementwise> | undefined {
  const made = madeAlone(x, operand);
  if (made?.step.kind !== 'elementwise') return undefined;
  const { code, operands, extents, strides } = made.step;
  const isAlone = code.length === 1 && operands.length === 1 && areDense(extents, strides[0]!);
  return isAlone && code[0]!.operation === 'hardSigmoid' ? { ...made, step: made.step } : undefined;
}

/** That of a vector for each image and a constant matrix. */
function productOf(x: Halving, operand: Operand): Made<Convolution> | undefined {
  const made = madeAlone(x, operand);
  if (made?.step.kind !== 'convolution') return undefined;
  const { convolution, weight, scale, bias, residual } = made.step;
  const { inputDims, weightDims, groups, keepsIntegers } = convolution;
  const isOfVectors = sizeOf([...inputDims.slice(2), ...weightDims.slice(2)]) === 1 && groups === 1;
  const isPlain = scale === null && residual === null && keepsIntegers !== true;
  const isConstant = isKnown(weight) && (bias === null || isKnown(bias));
  return isOfVectors && isPlain && isConstant ? { ...made, step: made.step } : undefined;
}

type Gate = Pick<SqueezeExciteStep<Operand>, 'gateWeight' | 'gateBias' | 'gateActivation'>;

/** The second product as its step has it: a hard sigmoid is a clip of another linear function. */
function gateOf(x: Halving, { second, bounded }: Gates): Gate | undefined {
  const { convolution, weight, bias } = second.step;
  const [channels, hidden] = convolution.weightDims as [number, number];
  const { activation } = convolution;
  if (bounded !== undefined && activation.name !== 'none') return undefined;
  const { p: factor, q: summand } = bounded?.step.code[0] ?? { p: 1, q: 0 };
  const isShared = [weight, bias].every((operand) => operand === null || operand.storage.isShared === true);
  const make = () => {
    const from = floatsOf(weight, channels * hidden);
    const turned = new Float32Array(channels * hidden);
    for (let c = 0; c < channels; c++) {
      for (let j = 0; j < hidden; j++) turned[j * channels + c] = from[c * hidden + j]! * factor;
    }
    const before = bias === null ? new Float32Array(channels) : floatsOf(bias, channels);
    const biases = before.map((one) => one * factor + summand);
    return { gateWeight: constantOperand(turned, isShared), gateBias: constantOperand(biases, isShared) };
  };
  const ofBias = bias === null ? ['none'] : [bias.storage.data!, bias.offset];
  const key = ['gates', weight.storage.data!, weight.offset, channels, hidden, ...ofBias, factor, summand];
  const constants = isShared ? x.constants.once(key, make) : make();
  const gateActivation: NativeActivation =
    bounded === undefined ? activation : { name: 'clip', parameters: [0, 1] };
  return { ...constants, gateActivation };
}
