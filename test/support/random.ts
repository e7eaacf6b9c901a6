/** Seeded random problems and data: the same seed gives the same tests on every machine. */
import {
  elements,
  multiplyAdds,
  outputDims,
  type Activation,
  type Operands,
  type Pair,
  type Problem,
} from './reference';

// Taken out of the global object once: looking it up there, for every number drawn, is very slow under Jest.
const { floor } = Math;

/** sfc32 (Chris Doty-Humphrey's Small Fast Counter), seeded as its author advises. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number) {
    this.#a = seed >>> 0;
    this.#b = 0x9e3779b9;
    this.#c = 0x243f6a88;
    for (let round = 0; round < 15; round++) this.#next();
  }

  #next(): number {
    const sum = (((this.#a + this.#b) >>> 0) + this.#counter++) >>> 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) >>> 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) >>> 0;
    return sum;
  }

  /** In [0, 1), a multiple of 2^-24 and so exact in float32. */
  uniform(): number {
    return (this.#next() >>> 8) / 2 ** 24;
  }

  /** `min` and `max` included. */
  integer(min: number, max: number): number {
    return min + floor(this.uniform() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.uniform() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.integer(0, choices.length - 1)]!;
  }
}

/** A problem together with which of the optional operands it has. */
export interface FuzzProblem extends Problem {
  readonly bias: boolean;
  readonly residual: boolean;
}

/** Extents at, just below and just above the tiles of vector kernels. */
const EDGES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33];
const MOST_EXTENT = 40;
const MOST_MULTIPLY_ADDS = 200_000;
const ACTIVATIONS: readonly Activation[] = [
  'relu',
  'relu6',
  'leakyRelu',
  'sigmoid',
  'silu',
  'hardSwish',
  { clip: [-3, 5] },
  { leakyRelu: 0.25 },
];
const EXACT_ACTIVATIONS: readonly Activation[] = [
  'none',
  'relu',
  'relu6',
  { clip: [-3, 5] },
  { leakyRelu: 0.25 },
];

/** A legal convolution small enough that thousands take seconds. */
export function fuzzProblem(random: Random): FuzzProblem {
  // Drawn once: drawn again with the rest, they would come out few, large ones being refused most.
  const channels = anyChannels(random);
  const isPlain = random.chance(0.15);
  for (;;) {
    const problem = isPlain ? plainly(anyProblem(random, channels)) : anyProblem(random, channels);
    const [, , p, q] = outputDims(problem);
    if (p >= 1 && q >= 1 && multiplyAdds(problem) <= MOST_MULTIPLY_ADDS) return problem;
  }
}

interface Channels {
  readonly c: number;
  readonly k: number;
  readonly groups: number;
}

function anyProblem(random: Random, channels: Channels): FuzzProblem {
  const [r, s] = anyFilter(random);
  return {
    inputDims: [random.integer(1, 3), channels.c, anyExtent(random), anyExtent(random)],
    weightDims: [channels.k, channels.c / channels.groups, r, s],
    stride: anyStep(random, 4),
    padding: anyPadding(random, r, s),
    dilation: anyStep(random, 3),
    groups: channels.groups,
    activation: random.chance(0.4) ? 'none' : random.pick(ACTIVATIONS),
    bias: random.chance(0.5),
    residual: random.chance(0.25),
  };
}

/** With the windows that networks have most, which some algorithms are for. */
function plainly({ weightDims: [k, c], ...problem }: FuzzProblem): FuzzProblem {
  return { ...problem, weightDims: [k, c, 3, 3], stride: [1, 1], dilation: [1, 1] };
}

function anyExtent(random: Random): number {
  return random.chance(0.6) ? random.pick(EDGES) : random.integer(1, MOST_EXTENT);
}

function anyChannels(random: Random): Channels {
  const [c, k] = [anyExtent(random), anyExtent(random)];
  if (random.chance(0.5)) return { c, k, groups: 1 };
  if (random.chance(0.4)) return { c, k: c, groups: c };
  if (random.chance(0.4)) return { c, k: c * random.integer(1, Math.floor(MOST_EXTENT / c)), groups: c };
  const groups = random.integer(2, 8);
  const inGroups = (channels: number) => groups * Math.ceil(channels / groups);
  return { c: inGroups(c), k: inGroups(k), groups };
}

function anyFilter(random: Random): Pair {
  if (random.chance(0.15)) return [1, 1];
  if (random.chance(0.25)) return [3, 3];
  const extent = () => (random.chance(0.05) ? 11 : random.integer(1, 7));
  return [extent(), extent()];
}

function anyStep(random: Random, most: number): Pair {
  return random.chance(0.5) ? [1, 1] : [random.integer(1, most), random.integer(1, most)];
}

/** Up to one more than the filter on each side, so that some windows lie in padding only. */
function anyPadding(random: Random, r: number, s: number): Problem['padding'] {
  if (random.chance(0.15)) return 'same';
  if (random.chance(0.15)) return 'valid';
  if (random.chance(0.2)) return [0, 0, 0, 0];
  const [vertical, horizontal] = [() => random.integer(0, r + 1), () => random.integer(0, s + 1)];
  return [vertical(), horizontal(), vertical(), horizontal()];
}

/** The problem with an activation that maps the integers of {@link integerOperands} to exact results. */
export function withExactActivation(problem: FuzzProblem, random: Random): FuzzProblem {
  return { ...problem, activation: random.pick(EXACT_ACTIVATIONS) };
}

/** Integers of which every partial sum, in any order, stays below 2^24 and is therefore exact in float32. */
export function integerOperands(problem: FuzzProblem, random: Random): Operands {
  const [, groupInputs, r, s] = problem.weightDims;
  const share = 2 ** 22;
  const factor = Math.floor(Math.sqrt(share / (groupInputs * r * s)));
  return operands(
    problem,
    () => random.integer(-factor, factor),
    () => random.integer(-share, share),
  );
}

/** Uniform in [-1, 1). */
export function realOperands(problem: FuzzProblem, random: Random): Operands {
  const value = () => 2 * random.uniform() - 1;
  return operands(problem, value, value);
}

function fill(size: number, value: () => number): Float32Array {
  const data = new Float32Array(size);
  for (let index = 0; index < size; index++) data[index] = value();
  return data;
}

function operands(problem: FuzzProblem, factor: () => number, addend: () => number): Operands {
  return {
    input: fill(elements(problem.inputDims), factor),
    weight: fill(elements(problem.weightDims), factor),
    bias: problem.bias ? fill(problem.weightDims[0], addend) : undefined,
    residual: problem.residual ? fill(elements(outputDims(problem)), addend) : undefined,
  };
}
