/** Networks of units that remember: RNN, GRU and LSTM. */
import { flag, float, floats, integer, string, strings } from '../attributes';
import { shapeOf } from '../builder';
import type { Lower, Lowering } from '../lowering';
import { unsupportedNode } from '../refusals';
import { mapBuffers, type MapOperation } from '../steps';
import { stridesOf, type Operand, type Value } from '../values';
import { multiplyAdd } from './matrix';
import { apply } from './typed';
import { GATES, unroll, type Cell, type Direction, type Made } from './unrolled';

type Functions = Direction['functions'];

/** Of both directions together. Each becomes some twenty steps of a program, which take a few milliseconds to compile. */
const MOST_UNROLLED_STEPS = 256;

const USUAL: Readonly<Record<Cell, readonly string[]>> = {
  rnn: ['tanh'],
  gru: ['sigmoid', 'tanh'],
  lstm: ['sigmoid', 'tanh', 'tanh'],
};

/** By ONNX's name in lower case: the function, and the usual alpha and beta where it has them. */
const FUNCTIONS: Readonly<Record<string, readonly [MapOperation, alpha?: number, beta?: number]>> = {
  affine: ['affine', 1, 0],
  elu: ['elu', 1],
  hardsigmoid: ['hardSigmoid', Math.fround(0.2), 0.5],
  leakyrelu: ['leakyRelu', Math.fround(0.01)],
  relu: ['relu'],
  scaledtanh: ['scaledTanh', 1, 1],
  sigmoid: ['sigmoid'],
  softplus: ['softplus'],
  softsign: ['softsign'],
  tanh: ['tanh'],
  thresholdedrelu: ['thresholdedRelu', 1],
};

/** What all directions have in common. Sequences are [steps, batch, inputs]. */
interface Recurrence {
  readonly cell: Cell;
  readonly sequences: Value;
  readonly steps: number;
  readonly batch: number;
  readonly hidden: number;
  readonly directions: number;
}

function recurrent(cell: Cell): Lower {
  return (x) => {
    const isBatchFirst = x.opset >= 14 && flag(x.node, 'layout', false);
    const given = x.input(0);
    const sequences = isBatchFirst ? x.build.transpose(given, [1, 0, 2]) : given;
    const [steps, batch] = sequences.dims as [number, number];
    if (steps === 0) throw unsupportedNode(x.node, 'has sequences of no steps');
    const hidden = x.input(2).dims[2]!;
    const direction = string(x.node, 'direction', ['forward', 'reverse', 'bidirectional'], 'forward');
    const directions = direction === 'bidirectional' ? 2 : 1;
    const all: Recurrence = { cell, sequences, steps, batch, hidden, directions };
    requireDims(x, all, isBatchFirst);
    if (given.type === 'float64') requireShort(x, steps * directions);
    const functions = functionsOf(x, cell, directions);
    const made = functions.map((own, d) => {
      return lowerDirection(x, all, d, direction === 'reverse' || d === 1, own, isBatchFirst);
    });
    return outputsOf(x, all, made, isBatchFirst);
  };
}

/** What is computed in float64 is written out step by step. */
function requireShort(x: Lowering, steps: number): void {
  if (steps <= MOST_UNROLLED_STEPS) return;
  throw unsupportedNode(
    x.node,
    `takes ${steps} steps in float64; here it can take ${MOST_UNROLLED_STEPS}, or any number in float32: cast its inputs`,
  );
}

function requireDims(x: Lowering, all: Recurrence, isBatchFirst: boolean): void {
  const { cell, sequences, batch, hidden, directions } = all;
  const width = GATES[cell] * hidden;
  const states = isBatchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
  const expected = [
    undefined,
    [directions, width, sequences.dims[2]!],
    [directions, width, hidden],
    [directions, 2 * width],
    [batch],
    states,
    ...(cell === 'lstm' ? [states, [directions, 3 * hidden]] : []),
  ];
  expected.forEach((dims, i) => {
    const value = x.optional(i);
    if (dims === undefined || value === undefined || value.dims.join() === dims.join()) return;
    throw x.invalid(`takes dims [${dims.join(', ')}] as its input ${i}, got ${shapeOf(value)}`);
  });
}

/** Of each direction. */
function functionsOf(x: Lowering, cell: Cell, directions: number): Functions[] {
  const usual = USUAL[cell];
  const names =
    strings(x.node, 'activations', null) ?? Array.from({ length: directions }, () => usual).flat();
  if (names.length !== usual.length * directions) {
    throw x.invalid(`has ${names.length} activations; it takes ${usual.length * directions}`);
  }
  // Only functions that have an alpha take one from the list, in their order.
  const [alphas, betas] = ['activation_alpha', 'activation_beta'].map((name) => [
    ...(floats(x.node, name, null) ?? []),
  ]) as [number[], number[]];
  const functions = names.map((name) => {
    const known = FUNCTIONS[name.toLowerCase()];
    if (known === undefined) throw x.invalid(`has the activation '${name}', which ONNX does not have`);
    const [operation, alpha, beta] = known;
    const p = alpha === undefined ? 0 : (alphas.shift() ?? alpha);
    const q = beta === undefined ? 0 : (betas.shift() ?? beta);
    return { operation, p, q };
  });
  return Array.from({ length: directions }, (_, d) =>
    functions.slice(d * usual.length, (d + 1) * usual.length),
  );
}

function lowerDirection(
  x: Lowering,
  all: Recurrence,
  direction: number,
  reversed: boolean,
  functions: Functions,
  isBatchFirst: boolean,
): Made {
  const { cell, sequences, steps, batch, hidden } = all;
  const width = GATES[cell] * hidden;
  const part = (i: number, dims: readonly number[], first = 0) => {
    const value = x.optional(i);
    return (
      value && x.build.view(value, dims, direction * value.dims.slice(1).reduce((a, b) => a * b, 1) + first)
    );
  };
  const state = (i: number) => {
    const value = x.optional(i);
    if (value === undefined || !isBatchFirst) return part(i, [batch, hidden]);
    const moved = x.build.transpose(value, [1, 0, 2]);
    return x.build.view(moved, [batch, hidden], direction * batch * hidden);
  };
  const resetsProduct = cell === 'gru' && flag(x.node, 'linear_before_reset', false);
  const inputs = sequences.dims[2]!;
  const orNull = (value: Value | undefined) => value ?? null;
  const identity = { operation: 'identity', p: 0, q: 0 } as const;
  const own: Direction = {
    kind: 'recurrent',
    ...{ cell, steps, batch, hidden, reversed, resetsProduct },
    isCoupled: cell === 'lstm' && flag(x.node, 'input_forget', false),
    clip: float(x.node, 'clip', 0),
    functions: [0, 1, 2].map((i) => functions[i] ?? identity),
    recurrent: part(2, [width, hidden])!,
    productBias: resetsProduct ? orNull(part(3, [hidden], width + 2 * hidden)) : null,
    peepholes: cell === 'lstm' ? orNull(part(7, [3 * hidden])) : null,
    initialHidden: orNull(state(5)),
    initialCell: cell === 'lstm' ? orNull(state(6)) : null,
    lengths: orNull(x.optional(4)),
  };
  const ofInputs = {
    left: x.build.view(sequences, [steps * batch, inputs]),
    right: part(1, [width, inputs])!,
    bias: biasOf(x, part, width, hidden, resetsProduct),
  };
  return sequences.type === 'float32' ? emit(x, own, ofInputs) : unroll(x, own, ofInputs);
}

/** As one step. */
function emit(x: Lowering, own: Direction, ofInputs: Parameters<typeof multiplyAdd>[1]): Made {
  const { cell, steps, batch, hidden } = own;
  const scratch = 2 * batch * GATES[cell] * hidden;
  const output = x.build.scratch('float32', [steps * batch * hidden + 2 * batch * hidden + scratch]);
  const gates = multiplyAdd(x, ofInputs);
  x.build.emit(mapBuffers<Value, Operand>({ ...own, gates, output }, ({ operand }) => operand));
  const states = steps * batch * hidden;
  return {
    all: x.build.view(output, [steps, batch, hidden]),
    hidden: x.build.view(output, [batch, hidden], states),
    cell: x.build.view(output, [batch, hidden], states + batch * hidden),
  };
}

/** The sum of both biases, but for that of a product which is multiplied before the other is added. */
function biasOf(
  x: Lowering,
  part: (i: number, dims: readonly number[], first?: number) => Value | undefined,
  width: number,
  hidden: number,
  resetsProduct: boolean,
): Value | undefined {
  const ofInput = part(3, [width]);
  if (ofInput === undefined) return undefined;
  const ofState = part(3, [width], width)!;
  if (!resetsProduct) return apply(x, 'add', [ofInput, ofState]);
  const first = 2 * hidden;
  const both = apply(x, 'add', [part(3, [first])!, part(3, [first], width)!]);
  const whole = x.build.scratch(both.type, [width]);
  x.build.copy(both, [first], [1], whole, [1]);
  x.build.copy(ofInput, [hidden], [1], whole, [1], first, first);
  return whole;
}

function outputsOf(
  x: Lowering,
  { cell, steps, batch, hidden, directions }: Recurrence,
  made: readonly Made[],
  isBatchFirst: boolean,
): Value[] {
  const joined = (parts: readonly Value[], dims: readonly number[]) => {
    if (parts.length === 1) return x.build.view(parts[0]!, dims);
    const whole = x.build.scratch(parts[0]!.type, dims);
    const axis = dims.length - 3;
    const [outer, inner] = [dims.slice(0, axis), dims.slice(axis + 1)];
    const strides = stridesOf(dims).filter((_, i) => i !== axis);
    parts.forEach((part, d) => {
      const own = [...outer, ...inner];
      x.build.copy(part, own, stridesOf(own), whole, strides, 0, d * batch * hidden);
    });
    return whole;
  };
  const all = joined(
    made.map((one) => one.all),
    [steps, directions, batch, hidden],
  );
  const last = (of: 'hidden' | 'cell') => {
    const states = joined(
      made.map((one) => one[of]),
      [directions, batch, hidden],
    );
    return isBatchFirst ? x.build.transpose(states, [1, 0, 2]) : states;
  };
  const y = isBatchFirst ? x.build.transpose(all, [2, 0, 1, 3]) : all;
  // integer() is asked so that a file that contradicts itself is told of.
  if (integer(x.node, 'hidden_size', hidden) !== hidden) {
    throw x.invalid(`has hidden_size ${integer(x.node, 'hidden_size')}, and weights of ${hidden} units`);
  }
  return [y, last('hidden'), ...(cell === 'lstm' ? [last('cell')] : [])];
}

export const recurrentOperators: Record<string, Lower> = {
  GRU: recurrent('gru'),
  LSTM: recurrent('lstm'),
  RNN: recurrent('rnn'),
};
