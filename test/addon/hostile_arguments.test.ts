/**
 * Every public function with hostile values in the place of each argument and of each of its parts: an error with a code, or
 * the result that the call has without them.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import {
  algorithms,
  allocPinned,
  compareWithCudnn,
  Conv2d,
  conv2d,
  conv2dSync,
  InferenceSession,
  setThreads,
  Tensor,
  threads,
  tune,
  WarpconvError,
} from '../../lib';
import { backend } from '../../lib/onnxruntime';
import { HONEST, HOSTILE, pathsOf, withValue, type Path } from '../support/hostile';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';

const SEED = Number(process.env.WARPCONV_FUZZ_SEED ?? 20_261);
const PAIRS = 3000;

const cache = mkdtempSync(path.join(tmpdir(), 'warpconv-hostile-'));
const before = { threads: threads(), cache: process.env.WARPCONV_CACHE_DIR };
beforeAll(() => (process.env.WARPCONV_CACHE_DIR = cache));
afterAll(() => {
  setThreads(before.threads);
  if (before.cache === undefined) delete process.env.WARPCONV_CACHE_DIR;
  else process.env.WARPCONV_CACHE_DIR = before.cache;
  rmSync(cache, { recursive: true });
});

const counting = (length: number) => Float32Array.from({ length }, (_, i) => (i % 5) - 2);
const image = () => ({ type: 'float32', dims: [1, 4, 5, 5], data: counting(100), location: 'cpu' });
const filters = () => ({ type: 'float32', dims: [6, 4, 3, 3], data: counting(216), location: 'cpu' });
const output = () => ({ type: 'float32', dims: [1, 6, 3, 3], data: counting(54), location: 'cpu' });
const bias = () => ({ type: 'float32', dims: [6], data: new Float32Array(6), location: 'cpu' });

/** All by their defaults, so that one that is left out changes nothing. */
const method = () => ({
  stride: [1, 1],
  padding: [0, 0, 0, 0],
  dilation: 1,
  groups: 1,
  layout: 'nchw',
  algorithm: 'auto',
  variant: '',
  workspaceLimit: Infinity,
  sconv: { schedule: undefined, vectorPacking: true, packing: 'onDemand' },
});
const options = () => ({
  ...method(),
  activation: { clip: [-Infinity, Infinity] },
  bias: bias(),
  residual: null,
  device: 'cpu',
  precision: 'fp32',
  deterministic: false,
  signal: undefined,
});

const model = onnxModel({
  inputs: [value('x', ['n', 4, 5, 5])],
  initializers: [tensor('w', [6, 4, 3, 3], [...counting(216)])],
  nodes: [node('Conv', ['x', 'w'], ['y'])],
  outputs: [value('y')],
});
const sessionOptions = () => ({
  device: 'cpu',
  precision: 'fp32',
  algorithm: 'auto',
  cachedShapes: 4,
  memoryLimit: Infinity,
  freeDimensionOverrides: { n: 1 },
});

let plan: Conv2d;
let session: InferenceSession;
beforeAll(async () => {
  plan = await Conv2d.create(filters(), { inputDims: [1, 4, 5, 5], device: 'cpu' });
  session = await InferenceSession.create(model, { device: 'cpu', freeDimensionOverrides: { n: 1 } });
});
afterAll(async () => {
  plan.dispose();
  await session.release();
});

interface Target {
  readonly arguments: () => unknown[];
  readonly call: (...args: never[]) => unknown;
  /** Places where nearly everything is legal */
  readonly except?: RegExp;
}

const NewConv2d = Conv2d as unknown as new (...args: unknown[]) => Conv2d;
const NewSession = InferenceSession as unknown as new (...args: unknown[]) => InferenceSession;

const TARGETS: Readonly<Record<string, Target>> = {
  conv2d: { arguments: () => [image(), filters(), options()], call: conv2d },
  conv2dSync: { arguments: () => [image(), filters(), options()], call: conv2dSync },
  'Conv2d.create': {
    arguments: () => [filters(), { inputDims: [1, 4, 5, 5], ...options() }],
    call: async (...args: Parameters<typeof Conv2d.create>) => {
      const made = await Conv2d.create(...args);
      const result = made.runSync(image());
      made.dispose();
      return result;
    },
  },
  'new Conv2d': { arguments: () => [{}], call: (...args) => new NewConv2d(...args) },
  'Conv2d.run': {
    arguments: () => [image(), { output: output(), residual: null, signal: undefined }],
    call: async (...args: Parameters<Conv2d['run']>) => valuesOf(await plan.run(...args)),
  },
  'Conv2d.runSync': {
    arguments: () => [image(), { output: output(), residual: null, signal: undefined }],
    call: (...args: Parameters<Conv2d['run']>) => valuesOf(plan.runSync(...args)),
  },
  'InferenceSession.create': {
    arguments: () => [model, sessionOptions()],
    call: async (...args: Parameters<typeof InferenceSession.create>) => {
      const made = await InferenceSession.create(...args);
      const result = valuesOf((await made.run({ x: image() })).y!);
      await made.release();
      return result;
    },
  },
  'new InferenceSession': { arguments: () => [{}, 'cpu', {}], call: (...args) => new NewSession(...args) },
  'InferenceSession.run': {
    arguments: () => [{ x: image() }, ['y'], { signal: undefined }],
    call: async (...args: Parameters<InferenceSession['run']>) => valuesOf((await session.run(...args)).y!),
  },
  'InferenceSession.run into': {
    arguments: () => [{ x: image() }, { y: output() }, { signal: undefined }],
    call: async (...args: Parameters<InferenceSession['run']>) => valuesOf((await session.run(...args)).y!),
  },
  'InferenceSession.runSync': {
    arguments: () => [{ x: image() }, ['y'], { signal: undefined }],
    call: (...args: Parameters<InferenceSession['runSync']>) => valuesOf(session.runSync(...args).y!),
  },
  'InferenceSession.explain': {
    arguments: () => [{ x: [1, 4, 5, 5] }],
    call: async (...args: Parameters<InferenceSession['explain']>) =>
      (await session.explain(...args)).outputs,
  },
  'InferenceSession.profile': {
    arguments: () => [{ x: image() }, { runs: 1 }],
    call: async (...args: Parameters<InferenceSession['profile']>) =>
      (await session.profile(...args)).outputs,
  },
  'new Tensor': {
    arguments: () => ['float32', [1, 2, 3, 4, 5, 6], [6]],
    except: /^1\.\d$/,
    call: (...args: [never, never, never]) => valuesOf(new Tensor(...args)),
  },
  'new Tensor of an array': {
    arguments: () => [counting(6), [6]],
    call: (...args: [never, never]) => valuesOf(new Tensor(...args)),
  },
  'Tensor.reshape': {
    arguments: () => [[6]],
    call: (dims: never) => valuesOf(new Tensor(counting(6), [2, 3]).reshape(dims)),
  },
  'Tensor.to': {
    arguments: () => ['cpu'],
    call: async (device: never) => valuesOf(await new Tensor(counting(6), [2, 3]).to(device)),
  },
  'Tensor.getData': {
    arguments: () => [false],
    call: (release: never) => new Tensor(counting(6), [2, 3]).getData(release),
  },
  allocPinned: {
    arguments: () => ['float32', [2, 3]],
    call: (...args: Parameters<typeof allocPinned>) => valuesOf(allocPinned(...args)),
  },
  algorithms: {
    arguments: () => [{ ...method(), inputDims: [1, 4, 5, 5], weightDims: [6, 4, 3, 3] }, 'cpu'],
    call: (...args: Parameters<typeof algorithms>) => algorithms(...args).map(({ algorithm }) => algorithm),
  },
  compareWithCudnn: {
    arguments: () => [image(), filters(), { ...method(), device: 'cuda', precision: 'fp32' }],
    call: async (...args: Parameters<typeof compareWithCudnn>) =>
      (await compareWithCudnn(...args)).withinTolerance,
  },
  tune: {
    arguments: () => [
      [{ inputDims: [1, 4, 5, 5], weightDims: [6, 4, 3, 3], algorithm: 'tune' }],
      { device: 'cpu', precision: 'fp32', deterministic: false, signal: undefined, onProgress: () => {} },
    ],
    // What the caller's own function throws is the caller's.
    except: /onProgress/,
    call: async (...args: Parameters<typeof tune>) =>
      (await tune(...args)).map(({ outputDims, chosenBy }) => ({ outputDims, chosenBy })),
  },
  setThreads: {
    arguments: () => [1],
    call: (count: never) => {
      setThreads(count);
      return threads();
    },
  },
  "onnxruntime's backend": {
    arguments: () => [model, { executionProviders: ['cpu', { name: 'warpconv', device: 'cpu' }] }],
    call: async (...args: Parameters<typeof backend.createInferenceSessionHandler>) => {
      const made = await backend.createInferenceSessionHandler(...args);
      const result = valuesOf((await made.run({ x: image() as never }, { y: null }, {})).y!);
      await made.dispose();
      return result;
    },
  },
};

/** What a tensor is, past whatever the caller's own object says. */
function valuesOf({ type, dims, data }: { type: unknown; dims: unknown; data: unknown }): unknown {
  return { type, dims: [...(dims as number[])], data: Float32Array.prototype.slice.call(data) };
}

const placesIn = ({ arguments: make, except }: Target) =>
  pathsOf(make()).filter((place) => !except?.test(place.join('.')));

type Outcome = { readonly result: unknown } | { readonly error: unknown };

async function outcomeOf(target: Target, args: readonly unknown[]): Promise<Outcome> {
  try {
    return { result: await target.call(...(args as never[])) };
  } catch (error) {
    return { error };
  }
}

const CODES =
  /^ERR_WARPCONV_(INVALID_ARGUMENT|INVALID_MODEL|UNSUPPORTED|NO_DEVICE|OUT_OF_MEMORY|DISPOSED|ABORTED)$/;
const LONGEST_MESSAGE = 1000;

/** What is wrong with what became of a call; nothing where nothing is. */
function complaint(outcome: Outcome, expected: Outcome): string | undefined {
  if ('error' in outcome) {
    const { error } = outcome;
    if (!(error instanceof WarpconvError)) return `threw ${(error as Error)?.stack}`;
    if (!CODES.test(error.code)) return `threw ${error.code}: ${error.message}`;
    return error.message.length > LONGEST_MESSAGE ? `wrote ${error.message.length} characters` : undefined;
  }
  if ('error' in expected) return 'succeeded';
  try {
    expect(outcome.result).toEqual(expected.result);
    return undefined;
  } catch {
    return `gave ${JSON.stringify(outcome.result)}`;
  }
}

describe.each(Object.entries(TARGETS))('%s', (_name, target) => {
  let expected: Outcome;
  let paths: Path[];
  beforeAll(async () => {
    expected = await outcomeOf(target, target.arguments());
    paths = placesIn(target);
  });

  it('works, or is refused, as it is', () => {
    expect(complaint(expected, expected)).toBeUndefined();
  });

  it.each(Object.keys(HOSTILE))('takes or refuses %s', async (kind) => {
    const complaints: string[] = [];
    for (const place of paths) {
      const outcome = await outcomeOf(target, withValue(target.arguments(), place, HOSTILE[kind]!()));
      const honest = HONEST[kind] && withValue(target.arguments(), place, HONEST[kind]());
      const found = complaint(outcome, honest ? await outcomeOf(target, honest) : expected);
      if (found !== undefined) complaints.push(`at ${place.join('.')}: ${found}`);
    }
    expect(complaints).toEqual([]);
  });

  it('takes or refuses no arguments, fewer and more', async () => {
    const all = target.arguments();
    for (let count = 0; count <= all.length; count++) {
      expect(complaint(await outcomeOf(target, all.slice(0, count)), expected)).toBeUndefined();
    }
    expect(complaint(await outcomeOf(target, [...all, ...Object.values(HOSTILE)]), expected)).toBeUndefined();
  });
});

it(`any two of them together, from seed ${SEED}`, async () => {
  const random = new Random(SEED);
  const kinds = Object.keys(HOSTILE).filter((kind) => !kind.includes('ten million'));
  for (let pair = 0; pair < PAIRS; pair++) {
    const [name, target] = random.pick(Object.entries(TARGETS));
    let [args, honest] = [target.arguments(), target.arguments()];
    const changes: string[] = [];
    const replaced: string[] = [];
    for (const place of [random.pick(placesIn(target)), random.pick(placesIn(target))]) {
      // One may be in what takes the place of the other.
      const at = `${place.join('.')}.`;
      if (replaced.some((earlier) => at.startsWith(earlier) || earlier.startsWith(at))) continue;
      replaced.push(at);
      const kind = random.pick(kinds);
      args = withValue(args, place, HOSTILE[kind]!());
      if (HONEST[kind]) honest = withValue(honest, place, HONEST[kind]());
      changes.push(`${kind} at ${place.join('.')}`);
    }
    const found = complaint(await outcomeOf(target, args), await outcomeOf(target, honest));
    expect(found && `${name} with ${changes.join(' and ')}: ${found}`).toBeUndefined();
  }
});

describe('what somebody put on Object.prototype', () => {
  const prototype = Object.prototype as unknown as Record<string, unknown>;
  const POLLUTION: Readonly<Record<string, unknown>> = {
    stride: 2,
    padding: 1,
    dilation: 2,
    groups: 2,
    activation: 'relu',
    algorithm: 'direct',
    variant: 'wide',
    workspaceLimit: 0,
    sconv: { packing: 'ahead' },
    schedule: 'weightStationary',
    bias: { type: 'float32', dims: [6], data: counting(6) },
    residual: output(),
    output: output(),
    device: 'cuda:99',
    precision: 'bf16',
    deterministic: 'yes',
    signal: AbortSignal.abort(),
    inputDims: [2, 4, 5, 5],
    location: 'gpu-buffer',
    cachedShapes: 0,
    memoryLimit: 1,
    freeDimensionOverrides: { n: 2 },
    executionProviders: 5,
    runs: 0,
    n: 2,
    x: image(),
    y: output(),
    onProgress: 5,
  };
  const like = ({ type, dims, data }: ReturnType<typeof image>) => ({ type, dims, data });
  /** The optional arguments are left out as far as can be. */
  const SPARE: Readonly<Record<string, () => unknown>> = {
    conv2dSync: () => valuesOf(conv2dSync(like(image()), like(filters()), { device: 'cpu' })),
    conv2d: async () => valuesOf(await conv2d(like(image()), like(filters()), { device: 'cpu' })),
    'Conv2d.create': async () => {
      const made = await Conv2d.create(like(filters()), { inputDims: [1, 4, 5, 5], device: 'cpu' });
      return [
        valuesOf(await made.run(like(image()))),
        valuesOf(made.runSync(like(image()), {})),
        made.dispose(),
      ];
    },
    'InferenceSession.create': async () => {
      const made = await InferenceSession.create(model, { device: 'cpu' });
      const results = [await made.run({ x: like(image()) }), await made.run({ x: like(image()) }, {})];
      const { outputs } = await made.profile({ x: like(image()) });
      await made.release();
      return [results.map(({ y }) => valuesOf(y!)), outputs];
    },
    'a feed that is missing': () => session.run({}).catch(({ code }: WarpconvError) => code),
    "onnxruntime's backend": async () => {
      const made = await backend.createInferenceSessionHandler(model, {
        executionProviders: [{ name: 'warpconv', device: 'cpu' }],
      });
      const results = await made.run({ x: like(image()) as never }, { y: null }, {});
      return [valuesOf(results.y!), await made.dispose()];
    },
  };

  it.each(Object.entries(SPARE))('changes nothing for %s', async (_, call) => {
    const expected = await call();
    for (const [key, wrong] of Object.entries(POLLUTION)) {
      let result: unknown;
      prototype[key] = wrong;
      try {
        result = await call();
      } catch (error) {
        result = error;
      } finally {
        delete prototype[key];
      }
      expect([key, result]).toEqual([key, expected]);
    }
  });
});
