/**
 * Thousands of damaged model files: each is loaded, or refused with a code, and what of it can be folded is. Every file has
 * a seed of its own; to repeat a failure, set WARPCONV_FUZZ_SEED to the one in its message, and that file comes first.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import vm from 'node:vm';

import { evaluate } from '../../../lib/model/fold';
import type { Graph } from '../../../lib/model/graph';
import { loadOnnx, parseOnnx } from '../../../lib/model/onnx/load';
import { atOnce } from '../../../lib/slices';
import fixtures from '../../fixtures/onnx_folding.json';
import {
  externalTensor,
  float,
  node,
  onnxModel,
  type OnnxModel,
  rawBytes,
  subgraph,
  tensor,
  typedTensor,
  value,
} from '../../support/onnx_builder';
import { damage } from '../../support/damage';
import { Random } from '../../support/random';

const FILES = 6000;
const FILES_WITH_EXTERNAL_DATA = 500;
/** A hang would take the test run with it; what is no hang takes a few milliseconds. */
const HANG_MS = 20_000;
const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 32);

const ramp = (count: number) => Array.from({ length: count }, (_, index) => index / 8 - 1);

/** A small residual network as exporters write it: batch normalisation, and a reshape to a computed shape. */
const CNN = onnxModel({
  inputs: [value('image', ['batch', 3, 8, 8])],
  initializers: [
    tensor('w1', [4, 3, 3, 3], ramp(108)),
    tensor('b1', [4], ramp(4)),
    ...['scale', 'shift', 'mean', 'variance'].map((name) => typedTensor(name, [4], [1, 2, 3, 4])),
    tensor('w2', [4, 1, 3, 3], ramp(36)),
    tensor('zero', [], [0], 'int64'),
    typedTensor('minus_one', [1], [-1], 'int64'),
    tensor('wf', [10, 64], ramp(640)),
  ],
  nodes: [
    node('Conv', ['image', 'w1', 'b1'], ['c1'], {
      kernel_shape: [3, 3],
      pads: [1, 1, 1, 1],
      strides: [1, 1],
    }),
    node('BatchNormalization', ['c1', 'scale', 'shift', 'mean', 'variance'], ['n1'], {
      epsilon: float(1e-5),
    }),
    node('Clip', ['n1', '', 'six'], ['r1'], {}, { name: 'relu6' }),
    node('Constant', [], ['six'], { value: tensor('', [], [6]) }),
    node('Conv', ['r1', 'w2'], ['c2'], { group: 4, auto_pad: 'SAME_UPPER' }),
    node('Add', ['c2', 'r1'], ['sum']),
    node('MaxPool', ['sum'], ['pooled'], { kernel_shape: [2, 2], strides: [2, 2] }),
    node('Shape', ['pooled'], ['dims']),
    node('Gather', ['dims', 'zero'], ['n']),
    node('Unsqueeze', ['n', 'zero_list'], ['n_list']),
    node('Cast', ['zero_cast'], ['zero_list'], { to: 7 }),
    node('ConstantOfShape', ['one_list'], ['zero_cast'], { value: tensor('', [1], [0], 'int32') }),
    node('Constant', [], ['one_list'], { value_ints: [1] }),
    node('Concat', ['n_list', 'minus_one'], ['flat_dims'], { axis: 0 }),
    node('Reshape', ['pooled', 'flat_dims'], ['flat']),
    node('Gemm', ['flat', 'wf'], ['logits'], { transB: 1, alpha: float(1) }),
    node('Softmax', ['logits'], ['probabilities'], { axis: -1 }),
  ],
  outputs: [value('probabilities', ['batch', 10])],
});

const BRANCH: OnnxModel = {
  initializers: [tensor('half', [], [0.5])],
  nodes: [node('Mul', ['x', 'half'], ['scaled'])],
  outputs: [value('scaled')],
};

/** Everything else that a file may hold. */
const ODDITIES = onnxModel({
  irVersion: 3,
  opset: 7,
  domains: { 'com.microsoft': 1 },
  functions: [['own', 'Function']],
  inputs: [value('x', [1, null, 'W']), value('flags', undefined, 'bool'), value('i8', [2], 'int8')],
  sparse: ['sparse'],
  initializers: [
    typedTensor('i8', [2], [-1, 1], 'int8'),
    typedTensor('f16', [2], [1, 2], 'float16'),
    typedTensor('u64', [2], [2n ** 63n, 5n], 'uint64'),
    typedTensor('f64', [2], [1, 2], 'float64'),
    tensor('bool', [2], [0, 1], 'bool'),
    tensor('text', [1], [], 'string'),
  ],
  nodes: [
    node('FusedConv', ['x', 'i8'], ['a'], { activation: 'Relu' }, { domain: 'com.microsoft' }),
    node('If', ['flags'], ['b'], { then_branch: subgraph(BRANCH), names: ['one', 'two'] }),
    node('Function', ['a', 'sparse'], ['c'], {}, { domain: 'own' }),
    node('Where', ['bool', 'u64', 'u64'], ['d']),
  ],
  outputs: [value('c'), value('d', [2], 'uint64')],
});

const SEEDS: readonly Uint8Array[] = [
  ...[CNN, CNN, CNN, ODDITIES, ODDITIES],
  ...fixtures.cases.map(({ model }) => Buffer.from(model, 'base64')),
];

/** What can be computed without any input. */
function foldConstants({ nodes, constants }: Graph): void {
  const values = new Map(constants);
  for (const folded of nodes) {
    const inputs = folded.inputs.map((name) => values.get(name));
    const results = atOnce(evaluate(folded, inputs));
    results?.forEach((result, index) => values.set(folded.outputs[index] ?? '', result));
  }
}

const guarded = vm.createContext({ run: () => {} });
const script = new vm.Script('run()');

function withoutHanging(run: () => void): void {
  guarded.run = run;
  script.runInContext(guarded, { timeout: HANG_MS });
}

const CODES = ['ERR_WARPCONV_INVALID_MODEL', 'ERR_WARPCONV_UNSUPPORTED'];

/** How it went: loaded, or the code that it was refused with. */
function outcomeOf(error: unknown, seed: number): string {
  const { code, message } = error as { code?: string; message?: string };
  if (CODES.includes(code ?? '') && message!.length < 20_000) return code!;
  const repeat = `WARPCONV_FUZZ_SEED=${seed} npx jest test/lib/model/onnx_fuzz.test.ts`;
  throw new Error(`${String(error)}; repeat with ${repeat}`, { cause: error });
}

function report(title: string, outcomes: readonly string[]): void {
  const counts: Record<string, number> = {};
  for (const outcome of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  process.stdout.write(`${title}, first seed ${firstSeed}: ${JSON.stringify(counts)}\n`);
  // Were all refused, or none, the damage would be of no use.
  expect(counts.loaded).toBeGreaterThan(0);
  expect(counts.ERR_WARPCONV_INVALID_MODEL).toBeGreaterThan(0);
}

test('whole files load', () => {
  for (const bytes of SEEDS) foldConstants(parseOnnx(bytes));
});

test('damaged files are loaded or refused', () => {
  const outcomes = Array.from({ length: FILES }, (_, index) => {
    const seed = (firstSeed + index) % 2 ** 32;
    const random = new Random(seed);
    const bytes = damage(random.pick(SEEDS), random, SEEDS);
    try {
      withoutHanging(() => foldConstants(parseOnnx(bytes)));
      return 'loaded';
    } catch (error) {
      return outcomeOf(error, seed);
    }
  });
  report('damaged files', outcomes);
});

test('damaged files with external data are loaded or refused', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-onnx-fuzz-'));
  const file = path.join(folder, 'model.onnx');
  writeFileSync(path.join(folder, 'weights.bin'), rawBytes(ramp(64)));
  const original = onnxModel({
    initializers: [
      externalTensor('a', [4, 4], { location: 'weights.bin', length: 64 }),
      externalTensor('b', [8], { location: './weights.bin', offset: 64 }),
    ],
    nodes: [
      node('Constant', [], ['c'], {
        value: externalTensor('', [2], { location: 'weights.bin', offset: 128 }),
      }),
    ],
    outputs: [value('a'), value('b'), value('c')],
  });
  const outcomes: string[] = [];
  try {
    for (let index = 0; index < FILES_WITH_EXTERNAL_DATA; index++) {
      const seed = (firstSeed + index) % 2 ** 32;
      writeFileSync(file, damage(original, new Random(seed), SEEDS));
      outcomes.push(
        await loadOnnx(file).then(
          () => 'loaded',
          (error: unknown) => outcomeOf(error, seed),
        ),
      );
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  report('damaged files with external data', outcomes);
});
