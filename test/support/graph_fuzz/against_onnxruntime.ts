/**
 * The same models of several nodes in onnxruntime-node: a second judge of the reference, and with it of the library. No
 * part of CI. Differences are for people to trace: onnxruntime has faults of its own, and rounds more than is allowed here.
 *
 *     WARPCONV_ONNXRUNTIME=/somewhere/node_modules/onnxruntime-node \
 *       npx ts-node test/support/graph_fuzz/against_onnxruntime.ts 1 0 2000    # seed, first model, number of models
 */
import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

import { isFloat, type ElementType, type Expected, type RefTensor } from '../onnx_reference/tensor';
import { ELEMENT_ARRAYS, loaded, stored } from '../operator_fuzz/case';
import { complaintAbout } from '../operator_fuzz/judge';
import { describeGraph, modelOf, type Graph } from './graph';
import { drawnOf, expectedOf, judged } from './run';
import { shrunk } from './shrink';

interface OtherTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: ArrayLike<number | bigint> & ArrayBufferView;
}

interface OtherRuntime {
  readonly InferenceSession: {
    create(
      model: Uint8Array,
      options: object,
    ): Promise<{
      run(feeds: Record<string, OtherTensor>): Promise<Record<string, OtherTensor>>;
      release(): Promise<void>;
    }>;
  };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => OtherTensor;
}

const { WARPCONV_ONNXRUNTIME: modulePath } = process.env;
if (modulePath === undefined) {
  throw new Error('WARPCONV_ONNXRUNTIME says nothing; it should be the path of the module onnxruntime-node');
}
const runtime = createRequire(__filename)(modulePath) as OtherRuntime;

function feedOf(tensor: RefTensor): OtherTensor {
  const { type, dims } = tensor;
  const constructor = ELEMENT_ARRAYS[type] as { from(elements: unknown): ArrayBufferView };
  const data = constructor.from(stored(tensor));
  const Halves = (globalThis as { Float16Array?: new (buffer: ArrayBufferLike) => unknown }).Float16Array;
  const isHalf = type === 'float16' && Halves !== undefined;
  return new runtime.Tensor(type, isHalf ? new Halves(data.buffer) : data, dims);
}

function loadedFrom({ type, dims, data }: OtherTensor): RefTensor {
  const bits = type === 'float16' ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
  return { type: type as ElementType, dims, data: loaded(type as ElementType, bits, dims) };
}

/** Its functions are less exact, and its sums are made in other orders. */
function loosened(expected: Expected): Expected {
  const { type, data, allowed } = expected;
  if (!isFloat(type)) return { ...expected, allowed: allowed ?? data.map(() => 0) };
  return {
    ...expected,
    allowed: data.map((x, i) => 16 * (allowed?.[i] ?? 0) + 1e-5 * Math.abs(Number(x)) + 1e-6),
  };
}

interface Judged {
  readonly kind: 'agrees' | 'refused' | 'fault';
  readonly reason: string;
}

async function judgedThere(graph: Graph): Promise<Judged> {
  const expected = expectedOf(graph);
  if (expected === undefined) return { kind: 'refused', reason: 'the reference has no answer' };
  try {
    const options = { logSeverityLevel: 4, intraOpNumThreads: 1, interOpNumThreads: 1 };
    const session = await runtime.InferenceSession.create(modelOf(graph), options);
    const feeds = Object.fromEntries(graph.feeds.map(({ name, tensor }) => [name, feedOf(tensor)]));
    const results = await session.run(feeds);
    const complaints = graph.outputs.flatMap(({ name }, i) => {
      const complaint = complaintAbout([loadedFrom(results[name]!)], [loosened(expected[i]!)]);
      return complaint === undefined ? [] : [`${name}: ${complaint}`];
    });
    await session.release();
    return complaints.length === 0
      ? { kind: 'agrees', reason: '' }
      : { kind: 'fault', reason: complaints[0]! };
  } catch (error) {
    return { kind: 'refused', reason: String(error).replace(/\s+/g, ' ').slice(0, 260) };
  }
}

/** Says on standard error what comes next, or what became of it: onnxruntime may end the process. */
const note = (line: string) => writeSync(2, `@${line}\n`);

async function runHere(seed: number, first: number, end: number): Promise<void> {
  for (let index = first; index < end; index++) {
    note(`at ${index}`);
    const { graph, others } = drawnOf(seed, index);
    const there = await judgedThere(graph);
    const here = await judged(graph, others);
    note(`there ${there.kind === 'refused' ? `refused: ${there.reason.replace(/\d+/g, 'N')}` : there.kind}`);
    note(`here ${here.kind}`);
    if (here.kind === 'fault') console.log(`${seed}:${index} here: ${here.reason}`);
    if (there.kind !== 'fault') continue;
    const small = await shrunk({ graph, others: [], reason: there.reason }, judgedThere);
    console.log(
      `${seed}:${index} there: ${there.reason}\n${describeGraph(small.graph)}\n    ${small.reason}`,
    );
  }
}

/** @returns where to go on */
async function runThere(
  seed: number,
  first: number,
  end: number,
  counts: Map<string, number>,
): Promise<number> {
  const args = [...process.execArgv, __filename, ...[seed, first, end].map(String), 'here'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'inherit', 'pipe'] });
  let at = first;
  const lines = createInterface({ input: child.stderr });
  lines.on('line', (line) => {
    if (line.startsWith('@at ')) at = Number(line.slice(4));
    else if (line.startsWith('@')) counts.set(line.slice(1), (counts.get(line.slice(1)) ?? 0) + 1);
  });
  const status = await new Promise((resolve) => child.on('close', resolve));
  if (status === 0) return end;
  counts.set('there ended the process', (counts.get('there ended the process') ?? 0) + 1);
  console.log(`${seed}:${at} ended the process`);
  return at + 1;
}

async function main(): Promise<void> {
  const [seed, first, last] = process.argv.slice(2, 5).map(Number) as [number, number, number];
  if (process.argv[5] === 'here') return runHere(seed, first, last);
  const end = first + last;
  const counts = new Map<string, number>();
  for (let index = first; index < end;) index = await runThere(seed, index, end, counts);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  console.log(sorted.map(([line, count]) => `  ${count} ${line}`).join('\n'));
}

void main();
