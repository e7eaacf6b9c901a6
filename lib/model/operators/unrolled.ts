/**
 * Networks of units that remember, step by step: in the types that native code has no step of its own for. Gates are one
 * matrix under the other, [gates, batch, hidden], so that each is dense.
 */
import type { Lowering } from '../lowering';
import type { RecurrentStep } from '../steps';
import type { Value } from '../values';
import { multiplyTyped } from './matrix';
import { apply, choose, mapped, scalar } from './typed';

/** What native/program/steps.h says of a recurrent step, without what the input adds to the gates. */
export type Direction = Omit<RecurrentStep<Value>, 'gates' | 'output'>;

export type Cell = Direction['cell'];

export const GATES: Readonly<Record<Cell, number>> = { rnn: 1, gru: 3, lstm: 4 };

/** The states of one direction: of all steps, and the last of both kinds. */
export interface Made {
  readonly all: Value;
  readonly hidden: Value;
  readonly cell: Value;
}

/** [batch, hidden] each. The cell's is an LSTM's alone. */
interface State {
  readonly hidden: Value;
  readonly cell: Value;
}

/** What a direction adds to its gates. */
interface OfInputs {
  /** [steps * batch, inputs] */
  readonly left: Value;
  /** [gates * hidden, inputs] */
  readonly right: Value;
  /** [gates * hidden] */
  readonly bias: Value | undefined;
}

export function unroll(x: Lowering, own: Direction, ofInputs: OfInputs): Made {
  const { steps, batch, hidden, reversed, lengths } = own;
  const { type } = own.recurrent;
  const size = batch * hidden;
  const gates = gatesOfInputs(x, own, ofInputs);
  const zeros = x.build.gatherStrided(scalar(x, type, 0), [batch, hidden], [0, 0]);
  const all = x.build.scratch(type, [steps, batch, hidden]);
  let state: State = { hidden: own.initialHidden ?? zeros, cell: own.initialCell ?? zeros };
  for (let s = 0; s < steps; s++) {
    // From the end a shorter sequence keeps its first state until it begins.
    const t = reversed ? steps - 1 - s : s;
    const count = GATES[own.cell];
    const next = STEPS[own.cell](
      x,
      own,
      x.build.view(gates, [count, batch, hidden], t * count * size),
      state,
    );
    const isWithin =
      lengths &&
      mapped(x, 'greater', [x.build.view(lengths, [batch, 1]), scalar(x, lengths.type, t)], 'bool');
    const made = isWithin === null ? next.hidden : choose(x, isWithin, next.hidden, zeros);
    x.build.copy(made, [size], [1], all, [1], 0, t * size);
    state = isWithin === null ? next : keep(x, isWithin, next, state);
  }
  return { all, ...state };
}

/** The states of sequences that have this step, and those from before of others. */
function keep(x: Lowering, isWithin: Value, next: State, before: State): State {
  return {
    hidden: choose(x, isWithin, next.hidden, before.hidden),
    cell: next.cell === before.cell ? before.cell : choose(x, isWithin, next.cell, before.cell),
  };
}

/** [steps, gates, batch, hidden] */
function gatesOfInputs(
  x: Lowering,
  { cell, steps, batch, hidden }: Direction,
  { left, right, bias }: OfInputs,
): Value {
  const [count, inputs] = [GATES[cell], left.dims[1]!];
  const product = multiplyTyped(x, {
    ...{ left, right, batch: [steps, count], m: batch, n: hidden, k: inputs },
    leftStrides: [batch * inputs, 0, inputs, 1],
    rightStrides: [0, hidden * inputs, 1, inputs],
  });
  return bias === undefined ? product : plus(x, product, x.build.view(bias, [count, 1, hidden]));
}

/** What states [batch, hidden] add to `count` gates from one on: [count, batch, hidden]. */
function ofStates(x: Lowering, own: Direction, states: Value, first: number, count: number): Value {
  const { batch, hidden, recurrent } = own;
  return multiplyTyped(x, {
    left: states,
    right: x.build.view(recurrent, [count * hidden, hidden], first * hidden * hidden),
    ...{ batch: [count], m: batch, n: hidden, k: hidden },
    leftStrides: [0, hidden, 1],
    rightStrides: [hidden * hidden, 1, hidden],
  });
}

const plus = (x: Lowering, a: Value, b: Value) => apply(x, 'add', [a, b]);
const times = (x: Lowering, a: Value, b: Value) => apply(x, 'multiply', [a, b]);
const rest = (x: Lowering, a: Value) => apply(x, 'affine', [a], { p: -1, q: 1 });

/** `count` of the gates, from one on. */
function gatesFrom(x: Lowering, { batch, hidden }: Direction, gates: Value, first: number, count = 1): Value {
  const dims = count === 1 ? [batch, hidden] : [count, batch, hidden];
  return x.build.view(gates, dims, first * batch * hidden);
}

/** One of the direction's functions, of what is brought within the bounds before. */
function activate(x: Lowering, own: Direction, f: number, value: Value): Value {
  const { clip } = own;
  return unclipped(x, own, f, clip > 0 ? apply(x, 'clip', [value], { p: -clip, q: clip }) : value);
}

function unclipped(x: Lowering, { functions }: Direction, f: number, value: Value): Value {
  const { operation, p, q } = functions[f]!;
  return mapped(x, operation, [value], value.type, { p, q });
}

type Step = (x: Lowering, own: Direction, gates: Value, state: State) => State;

const rnn: Step = (x, own, gates, { hidden, cell }) => {
  const sums = plus(x, gates, ofStates(x, own, hidden, 0, 1));
  return { hidden: activate(x, own, 0, gatesFrom(x, own, sums, 0)), cell };
};

const gru: Step = (x, own, gates, { hidden, cell }) => {
  const both = plus(x, gatesFrom(x, own, gates, 0, 2), ofStates(x, own, hidden, 0, 2));
  const ratios = activate(x, own, 0, both);
  const [z, r] = [gatesFrom(x, own, ratios, 0), gatesFrom(x, own, ratios, 1)];
  const product = (states: Value) => gatesFrom(x, own, ofStates(x, own, states, 2, 1), 0);
  const biased = (value: Value) => (own.productBias === null ? value : plus(x, value, own.productBias));
  const left = own.resetsProduct ? times(x, r, biased(product(hidden))) : product(times(x, r, hidden));
  const candidate = activate(x, own, 1, plus(x, gatesFrom(x, own, gates, 2), left));
  return { hidden: plus(x, times(x, rest(x, z), candidate), times(x, z, hidden)), cell };
};

const lstm: Step = (x, own, gates, { hidden, cell }) => {
  const sums = plus(x, gates, ofStates(x, own, hidden, 0, 4));
  /** A gate with the part of a cell's state that its peephole, of the order i o f, lets through. */
  const gate = (i: number, state: Value) => {
    const sum = gatesFrom(x, own, sums, i);
    const { peepholes } = own;
    const seen = peepholes && times(x, state, x.build.view(peepholes, [own.hidden], i * own.hidden));
    return activate(x, own, 0, seen === null ? sum : plus(x, sum, seen));
  };
  const i = gate(0, cell);
  const f = own.isCoupled ? rest(x, i) : gate(2, cell);
  const candidate = activate(x, own, 1, gatesFrom(x, own, sums, 3));
  const next = plus(x, times(x, f, cell), times(x, i, candidate));
  // The cell's state is not clipped.
  return { hidden: times(x, gate(1, next), unclipped(x, own, 2, next)), cell: next };
};

const STEPS: Readonly<Record<Cell, Step>> = { rnn, gru, lstm };
