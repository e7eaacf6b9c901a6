/**
 * Networks of units that remember. What each number may be off by is carried along with it: errors of a step go into the
 * next one, by as much as the functions there are steep.
 */
import { sigmoid } from './functions';
import type { Operator } from './elementwise';
import type { Node } from './node';
import {
  ANYTHING,
  exact,
  OPEN,
  products,
  range,
  rest,
  sum,
  tensorOf,
  times,
  within,
  type Inexact,
} from './inexact';
import { arithmeticOf, ulp, type Arithmetic } from './precision';
import { Illegal, Unjudged, type Dims, type ElementType, type Expected, type RefTensor } from './tensor';

interface Activation {
  readonly compute: (x: number) => number;
  /** The most by which it changes for each unit that x does, where x is of that magnitude or more */
  readonly slope: (magnitude: number) => number;
  /** Its own error: in units in the last place, and beside them as part of a size */
  readonly ulps: number;
  readonly sizeOf?: (x: number) => number;
  /** Where it jumps */
  readonly jump?: number;
}

type Make = (alpha: number, beta: number) => Activation;

const tanhSlope = (magnitude: number) => 1 - Math.tanh(magnitude) ** 2;

/** Functions by how many parameters they take, with those that ONNX's operators of the same name have. */
const FUNCTIONS: Readonly<
  Record<string, readonly [make: Make, takes: 0 | 1 | 2, alpha?: number, beta?: number]>
> = {
  Affine: [
    (alpha, beta) => ({
      compute: (x) => alpha * x + beta,
      slope: () => Math.abs(alpha),
      ulps: 1,
      sizeOf: (x) => Math.abs(alpha * x) + Math.abs(beta),
    }),
    2,
  ],
  Elu: [
    (alpha) => ({
      compute: (x) => (x < 0 ? alpha * Math.expm1(x) : x),
      slope: () => Math.max(1, Math.abs(alpha)),
      ulps: 3,
    }),
    1,
    1,
  ],
  HardSigmoid: [
    (alpha, beta) => ({
      compute: (x) => Math.min(Math.max(alpha * x + beta, 0), 1),
      slope: () => Math.abs(alpha),
      ulps: 1,
      sizeOf: (x) => Math.abs(alpha * x) + Math.abs(beta),
    }),
    2,
    Math.fround(0.2),
    0.5,
  ],
  LeakyRelu: [
    (alpha) => ({
      compute: (x) => (x < 0 ? alpha * x : x),
      slope: () => Math.max(1, Math.abs(alpha)),
      ulps: 1,
    }),
    1,
    Math.fround(0.01),
  ],
  Relu: [() => ({ compute: (x) => Math.max(0, x), slope: () => 1, ulps: 0 }), 0],
  ScaledTanh: [
    (alpha, beta) => ({
      compute: (x) => alpha * Math.tanh(beta * x),
      slope: (magnitude) => Math.abs(alpha * beta) * tanhSlope(beta * magnitude),
      ulps: 4,
      // The product that the tangent is taken of is rounded.
      sizeOf: (x) => Math.abs(alpha * beta * x),
    }),
    2,
  ],
  Sigmoid: [
    () => ({ compute: sigmoid, slope: (magnitude) => sigmoid(magnitude) * sigmoid(-magnitude), ulps: 5 }),
    0,
  ],
  Softplus: [
    () => ({
      compute: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
      slope: () => 1,
      ulps: 6,
    }),
    0,
  ],
  Softsign: [
    () => ({ compute: (x) => x / (1 + Math.abs(x)), slope: (magnitude) => (1 + magnitude) ** -2, ulps: 3 }),
    0,
  ],
  Tanh: [() => ({ compute: Math.tanh, slope: tanhSlope, ulps: 4 }), 0],
  ThresholdedRelu: [
    (alpha) => ({ compute: (x) => (x > alpha ? x : 0), slope: () => 1, ulps: 0, jump: alpha }),
    1,
    1,
  ],
};

function apply(arithmetic: Arithmetic, of: Activation, { y: x, off }: Inexact): Inexact {
  const { type, unit, tiny } = arithmetic;
  const y = of.compute(x);
  if (of.jump !== undefined && Math.abs(x - of.jump) <= off) return { y, off: ANYTHING };
  const moved = of.slope(Math.max(0, Math.abs(x) - off)) * off;
  const own = of.ulps === 0 ? 0 : (of.ulps + 0.51) * ulp(type, y) + tiny;
  return within(arithmetic, y, moved + own + 2 * unit * (of.sizeOf?.(x) ?? 0));
}

interface Kind {
  readonly gates: number;
  /** The usual functions */
  readonly functions: readonly string[];
}

const KINDS = {
  RNN: { gates: 1, functions: ['Tanh'] },
  GRU: { gates: 3, functions: ['Sigmoid', 'Tanh'] },
  LSTM: { gates: 4, functions: ['Sigmoid', 'Tanh', 'Tanh'] },
} satisfies Record<string, Kind>;

type KindName = keyof typeof KINDS;

/** Of each direction. */
function activationsOf(node: Node, { functions }: Kind, directions: number): Activation[][] {
  const names = node.strings('activations') ?? range(directions).flatMap(() => functions);
  if (names.length !== functions.length * directions) throw new Illegal(`${names.length} activations`);
  const known = names.map((name) => {
    if (!Object.hasOwn(FUNCTIONS, name)) throw new Illegal(`an activation '${name}'`);
    return FUNCTIONS[name]!;
  });
  const parameters = (
    attribute: string,
    takers: readonly boolean[],
    usual: (i: number) => number | undefined,
  ) => {
    const given = node.floats(attribute) ?? [];
    const count = takers.filter(Boolean).length;
    // Whether one that takes none still has a place in the list, ONNX does not say.
    const isClear = takers.slice(0, given.length).every(Boolean) && given.length <= count;
    if (!isClear) throw new Unjudged(`${attribute} [${given}] of [${names}]`);
    return takers.map((takes, i) => (takes ? (given[i] ?? usual(i)) : 0));
  };
  const alphas = parameters(
    'activation_alpha',
    known.map(([, takes]) => takes > 0),
    (i) => known[i]![2],
  );
  const betas = parameters(
    'activation_beta',
    known.map(([, takes]) => takes > 1),
    (i) => known[i]![3],
  );
  const made = known.map(([make], i) => {
    if (alphas[i] === undefined || betas[i] === undefined)
      throw new Unjudged(`${names[i]} without parameters`);
    return make(alphas[i], betas[i]);
  });
  return range(directions).map((d) => made.slice(d * functions.length, (d + 1) * functions.length));
}

/** One direction's part of the inputs, and how it computes. */
interface Cell {
  readonly arithmetic: Arithmetic;
  readonly kind: KindName;
  readonly hidden: number;
  /** The row of a gate's unit in W and R, and both biases of it */
  readonly w: (gate: number, unit: number) => readonly number[];
  readonly r: (gate: number, unit: number) => readonly number[];
  readonly inputBias: (gate: number, unit: number) => number;
  readonly stateBias: (gate: number, unit: number) => number;
  readonly peephole: (gate: number, unit: number) => number;
  readonly functions: readonly Activation[];
  readonly clip: number;
  readonly isCoupled: boolean;
  readonly resetsProduct: boolean;
}

interface State {
  readonly h: readonly Inexact[];
  readonly c: readonly Inexact[];
}

/** Within the bound that there may be. */
function clipped({ clip }: Cell, { y, off }: Inexact): Inexact {
  if (Math.abs(y) <= clip) return { y, off };
  return { y: Math.sign(y) * clip, off: Math.max(0, off - (Math.abs(y) - clip)) };
}

function activated(cell: Cell, f: number, terms: readonly Inexact[]): Inexact {
  return apply(cell.arithmetic, cell.functions[f]!, clipped(cell, sum(cell.arithmetic, terms)));
}

/** What input and state add to a gate, before peepholes. */
function gateTerms(
  cell: Cell,
  gate: number,
  unit: number,
  x: readonly number[],
  h: readonly Inexact[],
): Inexact[] {
  return [
    ...products(x.map(exact), cell.w(gate, unit)),
    ...products(h, cell.r(gate, unit)),
    exact(cell.inputBias(gate, unit)),
    exact(cell.stateBias(gate, unit)),
  ];
}

const units = ({ hidden }: Cell) => range(hidden);

function rnnStep(cell: Cell, x: readonly number[], { h, c }: State): State {
  return { h: units(cell).map((unit) => activated(cell, 0, gateTerms(cell, 0, unit, x, h))), c };
}

function gruStep(cell: Cell, x: readonly number[], { h, c }: State): State {
  const { arithmetic } = cell;
  const [Z, R, H] = [0, 1, 2];
  const z = units(cell).map((unit) => activated(cell, 0, gateTerms(cell, Z, unit, x, h)));
  const r = units(cell).map((unit) => activated(cell, 0, gateTerms(cell, R, unit, x, h)));
  const reset = h.map((y, unit) => times(arithmetic, r[unit]!, y));
  const candidate = units(cell).map((unit) => {
    const ofInput = [...products(x.map(exact), cell.w(H, unit)), exact(cell.inputBias(H, unit))];
    if (!cell.resetsProduct) {
      const ofState = [...products(reset, cell.r(H, unit)), exact(cell.stateBias(H, unit))];
      return activated(cell, 1, [...ofInput, ...ofState]);
    }
    const ofState = sum(arithmetic, [...products(h, cell.r(H, unit)), exact(cell.stateBias(H, unit))]);
    return activated(cell, 1, [...ofInput, times(arithmetic, r[unit]!, ofState)]);
  });
  const next = h.map((before, unit) =>
    sum(arithmetic, [
      times(arithmetic, rest(arithmetic, z[unit]!), candidate[unit]!),
      times(arithmetic, z[unit]!, before),
    ]),
  );
  return { h: next, c };
}

function lstmStep(cell: Cell, x: readonly number[], { h, c }: State): State {
  const { arithmetic } = cell;
  const [I, O, F, C] = [0, 1, 2, 3];
  const gate = (number: number, unit: number, state: Inexact) =>
    activated(cell, 0, [
      ...gateTerms(cell, number, unit, x, h),
      ...products([state], [cell.peephole(number, unit)]),
    ]);
  const next = units(cell).map((unit) => {
    const before = c[unit]!;
    const i = gate(I, unit, before);
    const f = cell.isCoupled ? rest(arithmetic, i) : gate(F, unit, before);
    const candidate = activated(cell, 1, gateTerms(cell, C, unit, x, h));
    const state = sum(arithmetic, [times(arithmetic, f, before), times(arithmetic, i, candidate)]);
    const output = times(arithmetic, gate(O, unit, state), apply(arithmetic, cell.functions[2]!, state));
    // By ONNX's words the threshold is for the state, too, on its way into a function; runtimes leave it out there.
    const isOpen = Math.abs(state.y) + state.off > cell.clip;
    return { h: isOpen ? { y: output.y, off: ANYTHING } : output, c: state };
  });
  return { h: next.map((state) => state.h), c: next.map((state) => state.c) };
}

const DIRECTIONS = ['forward', 'reverse', 'bidirectional'] as const;
const STEPS = { RNN: rnnStep, GRU: gruStep, LSTM: lstmStep };

/** A tensor of three axes, by its coordinates. */
function at({ dims, data }: RefTensor, i: number, j: number, k: number): number {
  return data[(i * dims[1]! + j) * dims[2]! + k] as number;
}

interface Sizes {
  readonly steps: number;
  readonly batch: number;
  readonly inputs: number;
  readonly hidden: number;
  readonly directions: number;
  readonly isBatchFirst: boolean;
}

function sizesOf(node: Node, kind: KindName): Sizes {
  const [x, r] = [node.input(0), node.input(2)];
  if (x.dims.length !== 3 || r.dims.length !== 3) throw new Illegal(`[${x.dims}] with R of [${r.dims}]`);
  const isBatchFirst = node.flag('layout');
  const [steps, batch] = isBatchFirst ? [x.dims[1]!, x.dims[0]!] : [x.dims[0]!, x.dims[1]!];
  const [inputs, hidden] = [x.dims[2]!, r.dims[2]!];
  const directions = node.string('direction', DIRECTIONS) === 'bidirectional' ? 2 : 1;
  if (node.integer('hidden_size', hidden) !== hidden) throw new Illegal(`${hidden} hidden units`);
  const rows = KINDS[kind].gates * hidden;
  const states = isBatchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
  const wanted: Dims[] = [
    x.dims,
    [directions, rows, inputs],
    [directions, rows, hidden],
    [directions, 2 * rows],
    [batch],
    states,
    states,
    [directions, 3 * hidden],
  ];
  wanted.forEach((dims, i) => {
    const given = node.optional(i)?.dims;
    if (given !== undefined && given.join() !== dims.join()) throw new Illegal(`input ${i} of [${given}]`);
  });
  if (hidden === 0 || steps === 0) throw new Unjudged('no steps, or no units');
  return { steps, batch, inputs, hidden, directions, isBatchFirst };
}

function cellOf(node: Node, kind: KindName, direction: number, functions: readonly Activation[]): Cell {
  const [w, r, b] = [node.input(1), node.input(2), node.optional(3)];
  const peepholes = kind === 'LSTM' ? node.optional(7) : undefined;
  const hidden = r.dims[2]!;
  const width = KINDS[kind].gates * hidden;
  const row = (of: RefTensor) => (gate: number, unit: number) => {
    const first = (direction * width + gate * hidden + unit) * of.dims[2]!;
    return of.data.slice(first, first + of.dims[2]!) as number[];
  };
  const bias = (first: number) => (gate: number, unit: number) =>
    (b?.data[direction * 2 * width + first + gate * hidden + unit] as number | undefined) ?? 0;
  const clip = node.float('clip', Infinity);
  if (!(clip > 0)) throw new Unjudged(`a threshold of ${clip}`);
  return {
    arithmetic: arithmeticOf(node.input(0).type),
    ...{ kind, hidden, functions, clip },
    ...{ w: row(w), r: row(r), inputBias: bias(0), stateBias: bias(width) },
    peephole: (gate, unit) =>
      (peepholes?.data[(direction * 3 + gate) * hidden + unit] as number | undefined) ?? 0,
    isCoupled: node.flag('input_forget'),
    resetsProduct: node.flag('linear_before_reset'),
  };
}

/** A state that the node is given, for one sequence; zeros where there is none. */
function initial(
  tensor: RefTensor | undefined,
  sizes: Sizes,
  direction: number,
  sequence: number,
): Inexact[] {
  const [i, j] = sizes.isBatchFirst ? [sequence, direction] : [direction, sequence];
  return range(sizes.hidden).map((unit) => exact(tensor ? at(tensor, i, j, unit) : 0));
}

/** The states of one sequence in one direction: by the steps that they are of, and after the last one. */
interface Course {
  readonly byStep: ReadonlyMap<number, State>;
  readonly last: State;
}

function courseOf(node: Node, sizes: Sizes, cell: Cell, direction: number, sequence: number): Course {
  const { steps, inputs, isBatchFirst } = sizes;
  const x = node.input(0);
  const length = Number(node.optional(4)?.data[sequence] ?? steps);
  // What the state is after no steps, ONNX does not say.
  if (length < 1 || length > steps) throw new Unjudged(`a sequence of ${length} steps`);
  const isReversed = direction === 1 || node.string('direction', DIRECTIONS) === 'reverse';
  const start = (index: number) => initial(node.optional(index), sizes, direction, sequence);
  let last: State = { h: start(5), c: cell.kind === 'LSTM' ? start(6) : [] };
  const byStep = new Map<number, State>();
  for (let s = 0; s < length; s++) {
    const t = isReversed ? length - 1 - s : s;
    const [i, j] = isBatchFirst ? [sequence, t] : [t, sequence];
    last = STEPS[cell.kind](
      cell,
      range(inputs).map((k) => at(x, i, j, k)),
      last,
    );
    byStep.set(t, last);
  }
  return { byStep, last };
}

/** @param courses - by direction and sequence */
function outputsOf(type: ElementType, sizes: Sizes, courses: readonly (readonly Course[])[]): Expected[] {
  const { steps, batch, hidden, directions, isBatchFirst } = sizes;
  const all = isBatchFirst ? [batch, steps, directions, hidden] : [steps, directions, batch, hidden];
  const ends = isBatchFirst ? [batch, directions, hidden] : [directions, batch, hidden];
  const y = tensorOf(type, all, ([i, j, k, unit]) => {
    const [t, d, b] = isBatchFirst ? [j!, k!, i!] : [i!, j!, k!];
    // What lies behind the end of a sequence, ONNX does not say.
    return courses[d]![b]!.byStep.get(t)?.h[unit!] ?? OPEN;
  });
  const last = (of: keyof State) =>
    tensorOf(type, ends, ([i, j, unit]) => {
      const [d, b] = isBatchFirst ? [j!, i!] : [i!, j!];
      return courses[d]![b]!.last[of][unit!] ?? OPEN;
    });
  return [y, last('h'), last('c')];
}

function recurrent(kind: KindName): Operator {
  return (node) => {
    const sizes = sizesOf(node, kind);
    const functions = activationsOf(node, KINDS[kind], sizes.directions);
    const courses = functions.map((own, direction) => {
      const cell = cellOf(node, kind, direction, own);
      return range(sizes.batch).map((sequence) => courseOf(node, sizes, cell, direction, sequence));
    });
    return outputsOf(node.input(0).type, sizes, courses);
  };
}

export const recurrence: Readonly<Record<string, Operator>> = {
  GRU: recurrent('GRU'),
  LSTM: recurrent('LSTM'),
  RNN: recurrent('RNN'),
};
