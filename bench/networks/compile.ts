/**
 * What loading and compiling a network costs the event loop: the time, how it grows from a quarter of the nodes, and the
 * longest that the loop is kept waiting, with what the collector has of that. For chains of one operator, of blocks, of joins,
 * of connections that skip the rest of the network, for nodes that read all tensors before them, and for ResNet-50. Each
 * network is compiled for one number of rows and then for another, and given to native code. Exit code 1 where time grows
 * by more than 6 times.
 *
 *     npm run build && npx ts-node bench/networks/compile.ts [--nodes 10000] [--network softmax]
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';

import type { NodeProto, TensorProto } from '../../lib/model/onnx/onnx_pb';
import { node, onnxModel, tensor, value } from '../../test/support/onnx_builder';
import { describeMachine } from '../machine';
import { resNet50 } from './resnet50';

const MOST_GROWTH = 6;

/** Of one part of the work; milliseconds. */
interface Figures {
  readonly milliseconds: number;
  /** The longest that the event loop waited, and what of that the collector took */
  readonly gap: number;
  readonly collecting: number;
}

interface Network {
  /** The input's dims without its rows */
  readonly row: readonly number[];
  readonly nodes: readonly NodeProto[];
  readonly initializers?: readonly TensorProto[];
}

const chain = (count: number, make: (from: string, to: string, i: number) => NodeProto[]): NodeProto[] =>
  Array.from({ length: count }, (_, i) => make(i === 0 ? 'x' : `v${i - 1}`, `v${i}`, i)).flat();

const PIXEL = [2, 1, 1];

/** Each of about so many nodes, counting the tensors that a node with many inputs adds up. */
const NETWORKS: Readonly<Record<string, (nodes: number) => Network>> = {
  softmax: (nodes) => ({
    row: [4],
    nodes: chain(nodes, (from, to) => [node('Softmax', [from], [to])]),
  }),
  relu: (nodes) => ({
    row: [4],
    nodes: chain(nodes, (from, to) => [node('Relu', [from], [to])]),
  }),
  convolution: (nodes) => ({
    row: PIXEL,
    initializers: [tensor('w', [2, 2, 1, 1], [1, 0, 0, 1])],
    nodes: chain(nodes, (from, to) => [node('Conv', [from, 'w'], [to])]),
  }),
  'convolution, normalisation, relu': (nodes) => ({
    row: PIXEL,
    initializers: Array.from({ length: nodes / 3 }, (_, i) => [
      tensor(`w${i}`, [2, 2, 1, 1], [1, 2, 3, 4]),
      ...['s', 'b', 'm', 'd'].map((name) => tensor(`${name}${i}`, [2], [0.5, 2])),
    ]).flat(),
    nodes: chain(nodes / 3, (from, to, i) => [
      node('Conv', [from, `w${i}`], [`c${i}`]),
      node('BatchNormalization', [`c${i}`, `s${i}`, `b${i}`, `m${i}`, `d${i}`], [`n${i}`]),
      node('Relu', [`n${i}`], [to]),
    ]),
  }),
  'joins, each of the one before': (nodes) => ({
    row: [1, 2],
    nodes: chain(nodes / 2, (from, to, i) => [
      node('Softmax', ['x'], [`s${i}`]),
      node('Concat', [from, `s${i}`], [to], { axis: 1 }),
    ]),
  }),
  'connections over the middle': (nodes) => ({
    row: [4],
    nodes: [
      ...chain(nodes / 2, (from, to) => [node('Softmax', [from], [to])]),
      ...Array.from({ length: nodes / 2 }, (_, i) =>
        node('PRelu', [i === 0 ? 'x' : `u${i - 1}`, `v${nodes / 2 - 1 - i}`], [`u${i}`]),
      ),
    ],
  }),
  'sums of all before': (nodes) => {
    const count = Math.round(Math.sqrt(2 * nodes));
    const all = Array.from({ length: count }, (_, i) => `v${i}`);
    return {
      row: [4],
      nodes: chain(count, (_, to, i) => [node('Sum', ['x', ...all.slice(0, i)], [to])]),
    };
  },
};

function modelOf({ row, nodes, initializers = [] }: Network): Uint8Array {
  const last = nodes.at(-1)!.output[0]!;
  const outputs = [value(last)];
  return onnxModel({ inputs: [value('x', ['n', ...row])], initializers, nodes, outputs });
}

/** In a process of its own, so that nothing has been compiled just in time. */
async function measure(folder: string, model: Uint8Array, row: readonly number[]) {
  const file = path.join(folder, 'model.onnx');
  writeFileSync(file, model);
  const request = { file, dims: { first: [1, ...row], second: [2, ...row] } };
  const program = path.join(__dirname, 'compile_run.mjs');
  const { stdout } = await promisify(execFile)(process.execPath, [program, JSON.stringify(request)]);
  return JSON.parse(stdout) as Readonly<Record<string, Figures>>;
}

const total = (figures: Readonly<Record<string, Figures>>) =>
  ['load', 'first', 'first, to native code'].reduce((sum, name) => sum + figures[name]!.milliseconds, 0);

function show(title: string, figures: Readonly<Record<string, Figures>>, growth: string): void {
  console.log(`${title}: ${total(figures).toFixed(0)} ms until it is prepared${growth}`);
  for (const [name, { milliseconds, gap, collecting }] of Object.entries(figures)) {
    const ofCollector = collecting > 0 ? `, the collector ${collecting.toFixed(1)} of it` : '';
    console.log(
      `  ${name.padEnd(24)} ${milliseconds.toFixed(1).padStart(7)} ms, loop waited ${gap.toFixed(1)}${ofCollector}`,
    );
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { nodes: { type: 'string', default: '10000' }, network: { type: 'string', multiple: true } },
  });
  const nodes = Number(values.nodes);
  console.log(describeMachine());
  const folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-compile-'));
  try {
    for (const [title, make] of Object.entries(NETWORKS)) {
      if (values.network !== undefined && !values.network.includes(title)) continue;
      const [few, many] = [make(4 * Math.round(nodes / 16)), make(nodes)];
      const before = total(await measure(folder, modelOf(few), few.row));
      const figures = await measure(folder, modelOf(many), many.row);
      const growth = total(figures) / before;
      const said = `, ${growth.toFixed(1)} times what a quarter takes`;
      show(`${title}, ${many.nodes.length} nodes`, figures, said);
      if (growth <= MOST_GROWTH) continue;
      console.error(`FAILED: it may take ${MOST_GROWTH} times`);
      process.exitCode = 1;
    }
    if (values.network === undefined || values.network.includes('resnet50')) {
      show('ResNet-50', await measure(folder, resNet50(), [3, 224, 224]), '');
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

void main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
