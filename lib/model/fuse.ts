/**
 * Fewer steps that do the same: chains of elementwise functions become one pass over memory, or end in the epilogue of
 * the convolution or product before them.
 *
 * Every storage but those that copies join is written once, so that a step may be moved later: what it reads is there
 * still.
 */
import type { NativeActivation } from '../addon';
import { areSameDims } from '../check';
import { inSlices, isDue, type Sliced } from '../slices';
import type { PlannedStep } from './builder';
import type { Constants, Filters } from './constants';
import { filtersOf, isKnown, isScalable, scaled } from './scaling';
import {
  buffersRead,
  MOST_INSTRUCTIONS,
  MOST_OPERANDS,
  type ConvolutionStep,
  type ElementwiseStep,
  type Instruction,
  type MatmulStep,
  type Step,
} from './steps';
import { areDense, sizeOf, stridesOf, type Operand, type Storage } from './values';

type Elementwise = ElementwiseStep<Operand>;
type Convolution = ConvolutionStep<Operand>;
type Matmul = MatmulStep<Operand>;

/** The whole of it. `outputs` are read by the caller. */
export async function fuse(
  steps: readonly PlannedStep[],
  outputs: ReadonlySet<Storage>,
  constants: Constants,
): Promise<PlannedStep[]> {
  const fusion = new Fusion(steps, outputs, constants);
  await inSlices(fusion.index());
  await inSlices(fusion.mergeElementwise());
  await constants.findRanges(await inSlices(fusion.scaledFilters()));
  await inSlices(fusion.absorbElementwise());
  return fusion.steps();
}

class Fusion {
  readonly #steps: PlannedStep[];
  readonly #outputs: ReadonlySet<Storage>;
  readonly #constants: Constants;
  /** The only step that writes a storage; `undefined` where there are several */
  readonly #writers = new Map<Storage, number | undefined>();
  /** How many steps read a storage that steps write */
  readonly #readers = new Map<Storage, number>();

  constructor(steps: readonly PlannedStep[], outputs: ReadonlySet<Storage>, constants: Constants) {
    this.#steps = [...steps];
    this.#outputs = outputs;
    this.#constants = constants;
  }

  /** Those that are left. */
  steps(): PlannedStep[] {
    return this.#steps.filter((planned) => planned !== REMOVED);
  }

  /** Elementwise steps whose result only one other elementwise step reads become part of it. */
  *mergeElementwise(): Sliced<void> {
    for (let index = 0; index < this.#steps.length; index++) {
      if (isDue(index)) yield;
      const { step, nodes } = this.#steps[index]!;
      if (step.kind !== 'elementwise') continue;
      let merged = { step, nodes };
      for (let k = 0; k < merged.step.operands.length;) {
        const from = this.#soleProducer(merged.step.operands[k]!);
        const producer = from === undefined ? undefined : this.#steps[from]!;
        const both = producer?.step.kind === 'elementwise' ? merge(producer.step, merged.step, k) : undefined;
        if (both === undefined) {
          k++;
          continue;
        }
        this.#replace(from!, REMOVED);
        merged = { step: both, nodes: [...producer!.nodes, ...merged.nodes] };
        this.#replace(index, merged);
        k = 0;
      }
      const simple = simplify(merged.step);
      if (simple !== merged.step) this.#replace(index, { ...merged, step: simple });
    }
  }

  /** The filters of convolutions whose results elementwise steps may multiply by constants. */
  *scaledFilters(): Sliced<Filters[]> {
    const filters: Filters[] = [];
    for (const [index, { step }] of this.#steps.entries()) {
      if (isDue(index)) yield;
      if (step.kind !== 'elementwise' || !step.code.some(isProduct)) continue;
      for (const operand of step.operands) {
        const from = this.#soleProducer(operand);
        const producer = from === undefined ? undefined : this.#steps[from]!.step;
        if (producer?.kind === 'convolution' && isScalable(producer)) filters.push(filtersOf(producer));
      }
    }
    return filters;
  }

  /** The leading instructions on a convolution's or product's result go into its weights, bias, residual and epilogue. */
  *absorbElementwise(): Sliced<void> {
    for (let index = 0; index < this.#steps.length; index++) {
      if (isDue(index)) yield;
      const { step } = this.#steps[index]!;
      if (step.kind !== 'elementwise') continue;
      const producers = step.operands
        .map((operand) => this.#soleProducer(operand))
        .filter((from) => from !== undefined);
      // The last to run can take what the others have made as its residual.
      for (const from of [...new Set(producers)].sort((a, b) => b - a)) this.#absorb(from, index);
    }
  }

  #absorb(from: number, into: number): void {
    const [producer, consumer] = [this.#steps[from]!, this.#steps[into]!];
    if (consumer.step.kind !== 'elementwise') return;
    const absorbed = absorb(producer.step, consumer.step, this.#constants);
    if (absorbed === undefined) return;
    const both = { step: absorbed.step, nodes: [...producer.nodes, ...consumer.nodes] };
    const done = absorbed.rest === undefined;
    this.#replace(from, done ? REMOVED : both);
    this.#replace(into, done ? both : { step: absorbed.rest, nodes: consumer.nodes });
  }

  /** Once, before anything else. */
  *index(): Sliced<void> {
    for (let index = 0; index < this.#steps.length; index++) {
      if (isDue(index)) yield;
      const planned = this.#steps[index]!;
      const { storage } = planned.step.output;
      this.#writers.set(storage, this.#writers.has(storage) ? undefined : index);
      this.#count(planned, +1);
    }
  }

  #count({ step }: PlannedStep, change: number): void {
    const operands = buffersRead(step);
    for (let i = 0; i < operands.length; i++) {
      const { storage } = operands[i]!;
      if (storage.space !== 'arena' || isAmong(operands, i, storage)) continue;
      this.#readers.set(storage, (this.#readers.get(storage) ?? 0) + change);
    }
  }

  /** Of a step that writes a storage alone, or takes over another's output. */
  #replace(index: number, planned: PlannedStep): void {
    this.#count(this.#steps[index]!, -1);
    this.#steps[index] = planned;
    if (planned === REMOVED) return;
    this.#count(planned, +1);
    const { storage } = planned.step.output;
    if (this.#writers.get(storage) !== undefined) this.#writers.set(storage, index);
  }

  /** The step that writes the whole of an operand, where no other step reads it. */
  #soleProducer({ storage, offset }: Operand): number | undefined {
    if (storage.space !== 'arena' || offset !== 0) return undefined;
    if (this.#outputs.has(storage) || this.#readers.get(storage) !== 1) return undefined;
    return this.#writers.get(storage);
  }
}

/** Whether one of the first so many operands lies in a storage. */
function isAmong(operands: readonly Operand[], count: number, storage: Storage): boolean {
  for (let i = 0; i < count; i++) if (operands[i]!.storage === storage) return true;
  return false;
}

/** In place of a step that is gone, so that indices stay. It does nothing with nothing. */
const NOWHERE: Operand = { storage: { space: 'arena', bytes: 0 }, offset: 0 };
const REMOVED: PlannedStep = { step: { kind: 'fill', count: 0, value: 0, output: NOWHERE }, nodes: [] };

/** The producer's chain, and after it the consumer's, whose operand k the producer made. */
function merge(producer: Elementwise, consumer: Elementwise, k: number): Elementwise | undefined {
  if (producer.code.length + consumer.code.length > MOST_INSTRUCTIONS) return undefined;
  if (!areDense(consumer.extents, consumer.strides[k]!)) return undefined;
  if (sizeOf(producer.extents) !== sizeOf(consumer.extents)) return undefined;
  const strides = stridesIn(producer, consumer.extents);
  if (strides === undefined) return undefined;
  // Read in another order too, the result is needed as a whole.
  const made = consumer.operands[k]!.storage;
  if (consumer.operands.some(({ storage }, i) => i !== k && storage === made)) return undefined;

  const operands: Operand[] = [];
  const merged: (readonly number[])[] = [];
  const place = (operand: Operand, steps: readonly number[]) => {
    const same = operands.findIndex(
      ({ storage, offset }, i) =>
        storage === operand.storage && offset === operand.offset && areSameDims(merged[i]!, steps),
    );
    if (same >= 0) return same;
    merged.push(steps);
    return operands.push(operand) - 1;
  };
  const ofProducer = producer.operands.map((operand, i) => place(operand, strides[i]!));
  const result = producer.operands.length + producer.code.length - 1;
  const ofConsumer = consumer.operands.map((operand, i) =>
    i === k ? result : place(operand, consumer.strides[i]!),
  );
  if (operands.length > MOST_OPERANDS) return undefined;

  const inProducer = (value: number) =>
    value < producer.operands.length
      ? ofProducer[value]!
      : value - producer.operands.length + operands.length;
  const inConsumer = (value: number) => {
    if (value === k) return inProducer(result);
    if (value < consumer.operands.length) return ofConsumer[value]!;
    return value - consumer.operands.length + operands.length + producer.code.length;
  };
  const code = [
    ...producer.code.map((one) => renumbered(one, inProducer)),
    ...consumer.code.map((one) => renumbered(one, inConsumer)),
  ];
  return { ...consumer, operands, strides: merged, code };
}

function renumbered(one: Instruction, to: (value: number) => number): Instruction {
  const { operation, p, q } = one;
  const [a, b] = [to(one.a), to(one.b)];
  return a === one.a && b === one.b ? one : { operation, a, b, p, q };
}

/** A step's strides over other extents of the same elements, where it can be had: nothing may be broadcast then. */
function stridesIn(
  { extents, strides }: Elementwise,
  wanted: readonly number[],
): readonly (readonly number[])[] | undefined {
  if (areSameDims(extents, wanted)) return strides;
  if (!strides.every((list) => areDense(extents, list))) return undefined;
  return strides.map(() => stridesOf(wanted));
}

const BINARY: ReadonlySet<string> = new Set([
  'add',
  'subtract',
  'multiply',
  'divide',
  'minimum',
  'maximum',
  'power',
  'prelu',
]);

function isProduct({ operation }: Instruction): boolean {
  return operation === 'multiply' || operation === 'affine';
}

function reads({ operation, a, b }: Instruction, value: number): boolean {
  if (operation === 'constant') return false;
  return a === value || (b === value && BINARY.has(operation));
}

/** The only number of a constant of one element. */
function scalarOf({ storage, offset }: Operand): number | undefined {
  if (storage.data === undefined || storage.bytes !== 4 || offset !== 0) return undefined;
  return (storage.data as Float32Array)[0];
}

/** Operands that are one number become parameters, and formulas that have a name get it. */
function simplify(step: Elementwise): Elementwise {
  const scalars = step.operands.map(scalarOf);
  const code = step.code.map((one) => withScalar(one, scalars));
  code.forEach((_, i) => (code[i] = named(code, i, scalars)));
  return prune(code.every((one, i) => one === step.code[i]) ? step : { ...step, code });
}

function withScalar(one: Instruction, scalars: readonly (number | undefined)[]): Instruction {
  const [left, right] = [scalars[one.a], scalars[one.b]];
  const affine = (a: number, p: number, q: number): Instruction => ({ operation: 'affine', a, b: 0, p, q });
  if (one.operation === 'add' && right !== undefined) return affine(one.a, 1, right);
  if (one.operation === 'add' && left !== undefined) return affine(one.b, 1, left);
  if (one.operation === 'subtract' && right !== undefined) return affine(one.a, 1, -right);
  // A sum with -0 leaves every product as it is, one of -0 too.
  if (one.operation === 'multiply' && right !== undefined) return affine(one.a, right, -0);
  if (one.operation === 'multiply' && left !== undefined) return affine(one.b, left, -0);
  if (one.operation === 'divide' && right !== undefined && hasExactReciprocal(right)) {
    return affine(one.a, 1 / right, -0);
  }
  return one;
}

/** A product with a rounded reciprocal can differ from the quotient: 82 / 41 would be below 2. */
const hasExactReciprocal = (value: number) =>
  Number.isFinite(1 / value) && Math.fround(1 / value) === 1 / value;

/** What computes a value; an operand has no instruction. */
type Definition = (value: number) => Instruction | undefined;

/** The instruction, or what the formula that ends in it is called; each operand may be one number. */
function named(
  code: readonly Instruction[],
  i: number,
  scalars: readonly (number | undefined)[],
): Instruction {
  const one = code[i]!;
  const define: Definition = (value) => code[value - scalars.length];
  const product = factorsOf(one, define, scalars);
  if (product === undefined) return one;
  const { x, other, scale } = product;
  const normal =
    normalOf(product, define, scalars) ?? normalOf({ x: other, other: x, scale }, define, scalars);
  if (normal !== undefined) return { operation: 'gelu', a: normal, b: 0, p: 0, q: 0 };
  const gate = define(other);
  if (gate === undefined) return one;
  const as = (operation: 'silu' | 'hardSwish'): Instruction => ({ operation, a: x, b: 0, p: 0, q: 0 });
  if (scale === 1 && gate.operation === 'sigmoid' && gate.a === x) return as('silu');
  if (scale === 1 && gate.operation === 'hardSigmoid' && gate.a === x) {
    return isSixth(gate.p) && gate.q === 0.5 ? as('hardSwish') : one;
  }
  return isSixth(scale) && isRelu6OfThreeMore(gate, x, define) ? as('hardSwish') : one;
}

/** The value y of which a product is half of y * (1 + erf(y / sqrt(2))). */
function normalOf(
  { x, other, scale }: Factors,
  define: Definition,
  scalars: readonly (number | undefined)[],
): number | undefined {
  const gate = define(other);
  const erf = gate?.operation === 'affine' && gate.p === 1 && gate.q === 1 ? define(gate.a) : undefined;
  const scaled = erf?.operation === 'erf' ? define(erf.a) : undefined;
  const inside = scaled && scaleOf(scaled, scalars);
  if (inside === undefined || Math.abs(inside - Math.SQRT1_2) > 1e-6) return undefined;
  const y = scaled!.a;
  if (scale === 0.5) return y === x ? y : undefined;
  const halved = scale === 1 ? define(x) : undefined;
  return halved?.a === y && scaleOf(halved, scalars) === 0.5 ? y : undefined;
}

interface Factors {
  readonly x: number;
  readonly other: number;
  readonly scale: number;
}

/** x * gate, or x * gate * scale, or x * (gate * scale) */
function factorsOf(
  one: Instruction,
  define: Definition,
  scalars: readonly (number | undefined)[],
): Factors | undefined {
  const scale = scaleOf(one, scalars);
  if (scale !== undefined) {
    const inner = define(one.a);
    if (inner?.operation !== 'multiply') return undefined;
    const factors = factorsOf(inner, define, scalars);
    // Two scales may overflow where their product does not.
    return factors?.scale === 1 ? { ...factors, scale } : undefined;
  }
  if (one.operation !== 'multiply') return undefined;
  const [x, other] = define(one.a) === undefined || one.a < one.b ? [one.a, one.b] : [one.b, one.a];
  const scaled = define(other);
  const inside = scaled && scaleOf(scaled, scalars);
  return inside === undefined ? { x, other, scale: 1 } : { x, other: scaled!.a, scale: inside };
}

/** The number that an instruction multiplies by or, the other way round, divides by. */
function scaleOf(
  { operation, a, b, p, q }: Instruction,
  scalars: readonly (number | undefined)[],
): number | undefined {
  if (operation === 'affine' && q === 0) return p;
  const divisor = operation === 'divide' && scalars[a] === undefined ? scalars[b] : undefined;
  return divisor === undefined ? undefined : 1 / divisor;
}

const isSixth = (value: number) => Math.fround(value) === Math.fround(1 / 6);

function isRelu6OfThreeMore(gate: Instruction, x: number, define: Definition): boolean {
  const shifted = define(gate.a);
  const clips = gate.operation === 'clip' && gate.p === 0 && gate.q === 6;
  return clips && shifted?.operation === 'affine' && shifted.a === x && shifted.p === 1 && shifted.q === 3;
}

/** Whether each value but the last is read by an instruction. */
function readsAll({ operands, code }: Elementwise): boolean {
  const last = operands.length + code.length - 1;
  for (let value = 0; value < last; value++) if (!code.some((one) => reads(one, value))) return false;
  return true;
}

/** Without the operands and instructions that the result does not depend on. */
function prune(step: Elementwise): Elementwise {
  if (readsAll(step)) return step;
  const { operands, strides, code } = step;
  const count = operands.length;
  const needed = new Array<boolean>(count + code.length).fill(false);
  needed[count + code.length - 1] = true;
  for (let i = code.length - 1; i >= 0; i--) {
    const { operation, a, b } = code[i]!;
    if (!needed[count + i] || operation === 'constant') continue;
    needed[a] = true;
    if (BINARY.has(operation)) needed[b] = true;
  }
  // A chain of constants alone would have no operand to take its extents from.
  if (!needed.slice(0, count).includes(true)) needed[0] = true;
  let kept = 0;
  const places = needed.map((isNeeded) => (isNeeded ? kept++ : 0));
  const to = (value: number) => places[value]!;
  return {
    ...step,
    operands: operands.filter((_, i) => needed[i]),
    strides: strides.filter((_, i) => needed[i]),
    code: code.filter((_, i) => needed[count + i]).map((one) => renumbered(one, to)),
  };
}

interface Absorbed {
  readonly step: Step<Operand>;
  /** What is left to do afterwards */
  readonly rest: Elementwise | undefined;
}

/** As many leading instructions as the producer's epilogue can do. */
function absorb(producer: Step<Operand>, consumer: Elementwise, constants: Constants): Absorbed | undefined {
  if (producer.kind !== 'convolution' && producer.kind !== 'matmul') return undefined;
  const made = producer.output.storage;
  const k = consumer.operands.findIndex(({ storage }) => storage === made);
  if (consumer.operands.filter(({ storage }) => storage === made).length > 1) return undefined;
  const isWhole = sizeOf(consumer.extents) * 4 === producer.output.storage.bytes;
  if (!isWhole || !areDense(consumer.extents, consumer.strides[k]!)) return undefined;
  let [step, rest]: [Convolution | Matmul, Elementwise | undefined] = [producer, consumer];
  let position = k;
  for (;;) {
    const next: Taken | undefined = rest && takeFirst(step, rest, position, constants);
    if (next === undefined) break;
    step = next.step;
    rest = next.rest;
    position = next.position;
  }
  if (step === producer) return undefined;
  if (rest === undefined) return { step: { ...step, output: consumer.output }, rest };
  // The rest reads operands that may be computed between the two; the producer must not wait for its residual.
  return step.kind === 'convolution' && step.residual !== null ? undefined : { step, rest };
}

interface Taken {
  readonly step: Convolution | Matmul;
  readonly rest: Elementwise | undefined;
  /** Of the producer's result among the operands of the rest */
  readonly position: number;
}

function takeFirst(
  step: Convolution | Matmul,
  rest: Elementwise,
  k: number,
  constants: Constants,
): Taken | undefined {
  const first = rest.code.find((one) => reads(one, k));
  if (first === undefined || rest.code.some((one) => one !== first && reads(one, k))) return undefined;
  if (first.a === k && first.b === k && BINARY.has(first.operation)) return undefined;
  const taken =
    step.kind === 'convolution'
      ? intoConvolution(step, rest, first, k, constants)
      : intoMatmul(step, rest, first, k);
  return taken && { step: taken, ...without(rest, first, k) };
}

/** The step without an instruction, whose result is operand k itself from now on. */
function without(
  rest: Elementwise,
  gone: Instruction,
  k: number,
): { rest: Elementwise | undefined; position: number } {
  if (rest.code.length === 1) return { rest: undefined, position: k };
  const at = rest.operands.length + rest.code.indexOf(gone);
  const to = (value: number) => (value === at ? k : value > at ? value - 1 : value);
  const code = rest.code.filter((one) => one !== gone).map((one) => renumbered(one, to));
  const pruned = prune({ ...rest, code });
  const { storage } = rest.operands[k]!;
  return { rest: pruned, position: pruned.operands.findIndex((operand) => operand.storage === storage) };
}

/** That of an instruction, if convolutions have it. */
export function activationOf({ operation, p, q }: Instruction): NativeActivation | undefined {
  switch (operation) {
    case 'relu':
    case 'sigmoid':
    case 'silu':
    case 'hardSwish':
    case 'gelu':
      return { name: operation, parameters: [] };
    case 'leakyRelu':
      return { name: operation, parameters: [p] };
    case 'clip':
      return { name: operation, parameters: [p, q] };
    default:
      return undefined;
  }
}

function intoConvolution(
  step: Convolution,
  rest: Elementwise,
  one: Instruction,
  k: number,
  constants: Constants,
): Convolution | undefined {
  const { convolution } = step;
  if (convolution.activation.name !== 'none') return undefined;
  const activation = activationOf(one);
  if (activation !== undefined) return { ...step, convolution: { ...convolution, activation } };
  const isLinear = isScalable(step);
  if (one.operation === 'affine') return isLinear ? scaled(step, one.p, one.q, constants) : undefined;
  if (one.operation !== 'add' && one.operation !== 'multiply') return undefined;
  const other = one.a === k ? one.b : one.a;
  const operand = rest.operands[other];
  if (operand === undefined) return undefined;
  if (isLinear && isByChannel(rest, other, convolution)) {
    return one.operation === 'add'
      ? scaled(step, 1, operand, constants)
      : scaled(step, operand, 0, constants);
  }
  const isResidual = one.operation === 'add' && areDense(rest.extents, rest.strides[other]!);
  return isResidual && step.residual === null ? { ...step, residual: operand } : undefined;
}

/** Whether an operand is a constant that has one number for each channel of [N, C, …]. */
function isByChannel(
  { extents, strides, operands }: Elementwise,
  i: number,
  { inputDims, weightDims }: Convolution['convolution'],
): boolean {
  const channels = weightDims[0]!;
  // The result may have been reshaped: only behind all images is axis 1 still that of the channels.
  const isByImage = extents.length >= 2 && extents[0] === inputDims[0] && extents[1] === channels;
  if (!isKnown(operands[i]!) || !isByImage) return false;
  const steps = strides[i]!;
  const others = steps.filter((_, axis) => axis !== 1);
  return others.every((stride) => stride === 0) && (channels === 1 || steps[1] === 1);
}

function intoMatmul(step: Matmul, rest: Elementwise, one: Instruction, k: number): Matmul | undefined {
  if (step.activation.name !== 'none') return undefined;
  const activation = activationOf(one);
  if (activation !== undefined) return { ...step, activation };
  if (one.operation !== 'add' || step.bias !== null) return undefined;
  const other = one.a === k ? one.b : one.a;
  const operand = rest.operands[other];
  // Only the row that is added everywhere: its stride is 1 along the last axis, and 0 along the others.
  const steps = operand && rest.strides[other]!;
  if (steps === undefined || rest.extents.at(-1) !== step.n || !isKnown(operand!)) return undefined;
  const isRow = steps.every((stride, axis) => stride === (axis === steps.length - 1 ? 1 : 0));
  return isRow ? withRow(step, operand!) : undefined;
}

/** A product without a bias, with the same n numbers added to each of its rows. */
export function withRow(step: Matmul, row: Operand): Matmul {
  return { ...step, bias: row, beta: 1, biasStrides: [...step.batch.map(() => 0), 0, 1] };
}
