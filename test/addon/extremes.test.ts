/**
 * Convolutions and pools whose extents, strides, dilations, padding and groups are at and beyond every limit, in a
 * process of their own: each call ends in a right output or in an error with a code, within seconds. Every case has a
 * seed of its own; to repeat a failure, set WARPCONV_FUZZ_SEED to the one in its message, and that case comes first.
 * WARPCONV_FUZZ_CASES makes it longer.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { TEST_DEVICE } from '../support/gpu';
import { Random } from '../support/random';

const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 32);
const cases = Number(process.env.WARPCONV_FUZZ_CASES ?? 1500);
/** A case that takes so long hangs: outputs are small. */
const HANG_MS = 30_000;
/** Of an output that is computed */
const MOST_OUTPUTS = 2 ** 12;
const CODES = ['INVALID_ARGUMENT', 'INVALID_MODEL', 'UNSUPPORTED', 'OUT_OF_MEMORY'];

type Quad = [number, number, number, number];
type Pair = [number, number];

interface Convolution {
  inputDims: Quad;
  weightDims: Quad;
  stride: Pair;
  dilation: Pair;
  padding: Quad;
  groups: number;
}

/** What the child answers. */
interface Outcome {
  readonly code?: string;
  readonly message?: string;
  readonly dims?: readonly number[];
  readonly data?: readonly number[];
}

const EDGES = [0, 1, 2, 3, 2 ** 15, 2 ** 16, 2 ** 20, 2 ** 30, 2 ** 31, 2 ** 31, 2 ** 32, 2 ** 40, 2 ** 53];
const LARGEST = 2 ** 31 - 1;

function extreme(random: Random): number {
  const near = random.pick(EDGES) + random.integer(-2, 1);
  return random.chance(0.05) ? -near : Math.min(near, 2 ** 53);
}

/** Some legal extent, often a large one. */
function legalExtreme(random: Random, least: number): number {
  return Math.min(Math.max(Math.floor(extreme(random) / random.pick([1, 1, 1, 2, 3])), least), LARGEST);
}

function smallConvolution(random: Random): Convolution {
  const groups = random.pick([1, 1, 2, 3]);
  const [groupInputs, groupOutputs] = [random.pick([1, 2, 8, 9]), random.pick([1, 2, 8])];
  const filter = () => random.pick([1, 1, 2, 3]);
  const extent = () => random.pick([1, 1, 2, 5, 8]);
  const step = (): Pair => [random.pick([1, 1, 2]), random.pick([1, 1, 2])];
  return {
    inputDims: [random.integer(1, 2), groups * groupInputs, extent(), extent()],
    weightDims: [groups * groupOutputs, groupInputs, filter(), filter()],
    stride: step(),
    dilation: step(),
    padding: [0, 0, 0, 0].map(() => random.pick([0, 0, 1, 2])) as Quad,
    groups,
  };
}

/** Large paddings that a window reaches over, and strides so long that few windows fit. */
function mend(x: Convolution, axis: 0 | 1, random: Random): void {
  const extent = x.inputDims[2 + axis]!;
  const reach = x.dilation[axis] * (x.weightDims[2 + axis]! - 1) + 1;
  const missing = reach - extent - x.padding[axis]! - x.padding[2 + axis]!;
  if (missing > 0 && missing < 2 * LARGEST) {
    x.padding[axis] = Math.min(Math.max(missing, 0), LARGEST);
    x.padding[2 + axis] = missing - x.padding[axis]! + random.pick([0, 1]);
  }
  if (-missing / x.stride[axis] > 64) {
    x.stride[axis] = Math.min(
      Math.max(Math.floor(-missing / random.pick([1, 2, 3])) + random.integer(-1, 1), 1),
      LARGEST,
    );
  }
}

/** With tensors that can be made: attributes alone are extreme. */
function withExtremeAttributes(random: Random): Convolution {
  const x = smallConvolution(random);
  for (let change = random.integer(1, 4); change > 0; change--) {
    const [list, index] = random.pick([
      ...[0, 1].flatMap((axis) => [[x.stride, axis] as const, [x.dilation, axis] as const]),
      ...[0, 1, 2, 3].map((side) => [x.padding, side] as const),
    ]);
    list[index] = random.chance(0.1) ? extreme(random) : legalExtreme(random, list === x.padding ? 0 : 1);
  }
  if (random.chance(0.1)) x.groups = extreme(random);
  if (random.chance(0.8)) [0, 1].forEach((axis) => mend(x, axis as 0 | 1, random));
  return x;
}

/** For what looks at extents alone. */
function withExtremeExtents(random: Random): Convolution {
  const x = withExtremeAttributes(random);
  for (let change = random.integer(1, 3); change > 0; change--) {
    const list = random.pick([x.inputDims, x.weightDims]);
    list[random.integer(0, 3)] = random.chance(0.2) ? extreme(random) : legalExtreme(random, 1);
  }
  if (random.chance(0.7)) x.weightDims[1] = Math.max(Math.floor(x.inputDims[1] / x.groups), 1);
  return x;
}

/** Windows along an axis, none where there cannot be any; BigInt has room for every product. */
function windows(x: Convolution, axis: 0 | 1): bigint {
  const big = (number: number | undefined) => BigInt(number!);
  const reach = big(x.dilation[axis]) * (big(x.weightDims[2 + axis]) - 1n) + 1n;
  const room = big(x.inputDims[2 + axis]) + big(x.padding[axis]) + big(x.padding[2 + axis]) - reach;
  return room < 0n || x.stride[axis] < 1 ? 0n : room / big(x.stride[axis]) + 1n;
}

function isLegal(x: Convolution): boolean {
  const lies = (least: number) => (extent: number) => extent >= least && extent <= LARGEST;
  const extents = [...x.inputDims, ...x.weightDims, ...x.stride, ...x.dilation, x.groups];
  if (!extents.every(lies(1)) || !x.padding.every(lies(0))) return false;
  const [n, c, h, w] = x.inputDims;
  const [k, groupInputs, r, s] = x.weightDims;
  if (c % x.groups !== 0 || k % x.groups !== 0 || groupInputs !== c / x.groups) return false;
  const [p, q] = [windows(x, 0), windows(x, 1)];
  if (p < 1n || q < 1n || p > BigInt(LARGEST) || q > BigInt(LARGEST)) return false;
  const fits = (...dims: (number | bigint)[]) =>
    dims.reduce<bigint>((product, dim) => product * BigInt(dim), 1n) <= 2n ** 40n;
  return fits(n, c, h, w) && fits(k, groupInputs, r, s) && fits(n, k, p, q);
}

/** As the child makes them. */
const element = (index: number) => ((index * 7) % 11) - 5;

/** The taps of a window that begins at `first` which lie in [0, extent): few, however many it has. */
function inside(first: number, taps: number, dilation: number, extent: number): number[] {
  const begin = Math.max(0, Math.ceil(-first / dilation));
  const end = Math.min(taps, Math.ceil((extent - first) / dilation));
  return Array.from({ length: Math.max(0, end - begin) }, (_, i) => begin + i);
}

/** The outputs by the definition, in double: exact, since inputs and weights are small integers. */
function expected(x: Convolution, pool?: 'MaxPool' | 'AveragePool'): { dims: number[]; data: number[] } {
  const [N, C, H, W] = x.inputDims;
  const [K, groupInputs, R, S] = x.weightDims;
  const dims = [N, pool ? C : K, Number(windows(x, 0)), Number(windows(x, 1))] as Quad;
  const data: number[] = [];
  for (let n = 0; n < dims[0]; n++)
    for (let k = 0; k < dims[1]; k++)
      for (let p = 0; p < dims[2]; p++)
        for (let q = 0; q < dims[3]; q++) {
          const [top, left] = [p * x.stride[0] - x.padding[0], q * x.stride[1] - x.padding[1]];
          let [sum, most, count] = [0, -Infinity, 0];
          for (let c = 0; c < (pool ? 1 : groupInputs); c++)
            for (const r of inside(top, R, x.dilation[0], H))
              for (const s of inside(left, S, x.dilation[1], W)) {
                const [h, w] = [top + r * x.dilation[0], left + s * x.dilation[1]];
                const channel = pool ? k : Math.floor(k / (K / x.groups)) * groupInputs + c;
                const read = element(((n * C + channel) * H + h) * W + w);
                sum += read * (pool ? 1 : element(((k * groupInputs + c) * R + r) * S + s));
                most = Math.max(most, read);
                count++;
              }
          data.push(pool === 'MaxPool' ? most : pool === 'AveragePool' ? sum / count : sum);
        }
  return { dims, data };
}

const size = (dims: readonly number[]) => dims.reduce((product, extent) => product * extent, 1);

interface Case {
  readonly call: string;
  readonly request: Record<string, unknown>;
  /** Nothing where only the ending counts */
  readonly output?: { dims: readonly number[]; data: readonly number[] };
  /** Whether it must succeed, or must not; where that is known */
  readonly legal?: boolean;
}

function hasSmallOutput(x: Convolution): boolean {
  return (
    isLegal(x) &&
    size([x.inputDims[0], x.weightDims[0]]) * Number(windows(x, 0) * windows(x, 1)) <= MOST_OUTPUTS
  );
}

/** Whether a pool may have too many outputs: along an axis that a window is longer than it still has one. */
function isLargePool(x: Convolution): boolean {
  const [p, q] = ([0, 1] as const).map((axis) => Math.max(1, Number(windows(x, axis)))) as [number, number];
  return size([x.inputDims[0], x.inputDims[1]]) * p * q > MOST_OUTPUTS;
}

/** Calls of convolutions: those that compute only where the output is small, or where nothing may come of it. */
function convolutionCase(random: Random): Case {
  const call = random.pick([
    'algorithms',
    'create',
    'plan',
    'sync',
    'async',
    'sync',
    random.chance(0.05) ? 'tune' : 'plan',
  ]);
  const x = call === 'algorithms' ? withExtremeExtents(random) : withExtremeAttributes(random);
  // Of an empty batch some calls have no answer; it has tests of its own.
  const legal = x.inputDims[0] === 0 ? undefined : isLegal(x);
  const request = { problem: x, device: TEST_DEVICE };
  if (call === 'algorithms') return { call, request, legal };
  if (call === 'create' || (legal && !hasSmallOutput(x))) return { call: 'create', request, legal };
  return { call, request, legal, output: legal && call !== 'tune' ? expected(x) : undefined };
}

const ints = (...list: number[]) => list;

function modelCase(random: Random): Case {
  const type = random.pick(['Conv', 'Conv', 'MaxPool', 'AveragePool'] as const);
  const x = withExtremeAttributes(random);
  if (type !== 'Conv') {
    x.groups = 1;
    x.weightDims = [x.inputDims[1], x.inputDims[1], x.weightDims[2], x.weightDims[3]];
    if (random.chance(0.3)) x.weightDims[2 + random.integer(0, 1)] = extreme(random);
    if (type === 'AveragePool') x.dilation = [1, 1];
  }
  const attributes = {
    strides: ints(...x.stride),
    pads: ints(...x.padding),
    kernel_shape: ints(x.weightDims[2], x.weightDims[3]),
    ...(type !== 'AveragePool' && { dilations: ints(...x.dilation) }),
    ...(type === 'Conv' && { group: x.groups }),
  };
  const weights = Float32Array.from({ length: type === 'Conv' ? size(x.weightDims) : 0 }, (_, i) =>
    element(i),
  );
  const model = onnxModel({
    inputs: [value('x', x.inputDims)],
    initializers: type === 'Conv' ? [tensor('w', x.weightDims, weights)] : [],
    nodes: [node(type, type === 'Conv' ? ['x', 'w'] : ['x'], ['y'], attributes)],
    outputs: [value('y')],
  });
  const request = {
    problem: { type, ...x },
    model: [...model],
    inputDims: x.inputDims,
    device: TEST_DEVICE,
  };
  // What is too large to be computed is only created by convolutionCase. ONNX has no pool that lies in padding alone.
  if (isLegal(x) && !hasSmallOutput(x)) return convolutionCase(random);
  if (type !== 'Conv' && isLargePool(x)) return convolutionCase(random);
  if (type !== 'Conv')
    return { call: 'session', request, output: isLegal(x) ? expected(x, type) : undefined };
  return { call: 'session', request, legal: isLegal(x), output: isLegal(x) ? expected(x) : undefined };
}

let child: ChildProcess | undefined;
afterAll(() => child?.kill());

/** What the child makes of it. Fails where it ends instead, or answers nothing. */
async function outcomeOf({ call, request }: Case): Promise<Outcome> {
  child ??= fork(path.join(__dirname, 'children', 'extremes.cjs'), {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  });
  const settled = new AbortController();
  const { signal } = settled;
  let complaint = '';
  const listen = (text: Buffer) => (complaint += text.toString());
  child.stderr!.on('data', listen);
  const timer = setTimeout(() => child!.kill('SIGKILL'), HANG_MS);
  try {
    const message = once(child, 'message', { signal }).then(([outcome]) => outcome as Outcome);
    const end = once(child, 'exit', { signal }).then(([code, name]) => {
      child = undefined;
      throw new Error(`the process ended with ${String(name ?? code)}: ${complaint.slice(-500)}`);
    });
    end.catch(() => undefined);
    message.catch(() => undefined);
    child.send({ call, ...request });
    return await Promise.race([message, end]);
  } finally {
    settled.abort();
    clearTimeout(timer);
    child?.stderr?.off('data', listen);
  }
}

function check({ legal, output }: Case, { code, message, dims, data }: Outcome): string {
  if (code !== undefined) {
    const name = code.replace('ERR_WARPCONV_', '');
    if (!CODES.includes(name)) throw new Error(`${code}: ${message}`);
    if (legal) throw new Error(`legal, but refused with ${code}: ${message}`);
    return name;
  }
  if (legal === false) throw new Error('illegal, but taken');
  if (output === undefined || dims === undefined || data === undefined) return 'taken';
  if (dims.join() !== output.dims.join())
    throw new Error(`dims ${dims.join()} instead of ${output.dims.join()}`);
  for (let index = 0; index < output.data.length; index++) {
    const [is, should] = [data[index]!, output.data[index]!];
    // Sums are exact but for winograd's; a mean is rounded. Of windows in padding alone ONNX does not say what they give.
    const close = Math.abs(is - should) <= 1e-5 * (1 + Math.abs(should));
    if (!Number.isFinite(should) || close) continue;
    throw new Error(`element ${index} is ${is} instead of ${should}`);
  }
  return 'computed';
}

test(
  'extreme extents and attributes end in a right output or in a code',
  async () => {
    process.stdout.write(`extremes: WARPCONV_FUZZ_SEED=${firstSeed}, ${cases} cases\n`);
    const counts: Record<string, number> = {};
    const failures: string[] = [];
    for (let index = 0; index < cases && failures.length < 5; index++) {
      const seed = (firstSeed + index) % 2 ** 32;
      const random = new Random(seed);
      const one = random.chance(0.4) ? modelCase(random) : convolutionCase(random);
      try {
        const outcome = `${one.call} ${check(one, await outcomeOf(one))}`;
        counts[outcome] = (counts[outcome] ?? 0) + 1;
      } catch (error) {
        const what = JSON.stringify(one.request.problem);
        const repeat = `WARPCONV_FUZZ_SEED=${seed} npx jest test/addon/extremes.test.ts`;
        failures.push(`${(error as Error).message}: ${one.call} ${what}; repeat with ${repeat}`);
      }
    }
    process.stdout.write(`extremes: ${JSON.stringify(counts)}\n`);
    expect(failures).toEqual([]);
    // Were all refused, or none, the cases would be of no use.
    for (const outcome of [
      'sync computed',
      'session computed',
      'sync INVALID_ARGUMENT',
      'algorithms taken',
    ]) {
      expect([outcome, (counts[outcome] ?? 0) > 0]).toEqual([outcome, true]);
    }
  },
  600_000 + cases * 100,
);
