/**
 * What a small network waits for beside a large one that is always busy, on the same threads: the latency of the small
 * one alone and beside the other, the large one's time alone and beside the small one, and what a large one with another
 * large one beside it loses to taking turns. Exit code 1 when the small one's median beside the other is over 20 ms.
 *
 *     npx ts-node bench/networks/turns.ts [--threads 1]
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { InferenceSession, setThreads, threads, type Tensor } from '../../lib';
import { node, onnxModel, tensor, value } from '../../test/support/onnx_builder';
import { describeMachine, randomTensor } from '../machine';
import { median, quantile } from '../statistics';

const MOST_MEDIAN_MS = 20;
const ROUNDS = 3;
const SECONDS_PER_ROUND = 3;
/** Between a small network's answer and its next request: none, as a busy client has it, and what lets others rest. */
const PAUSES_MS = [0, 10, 50];

const POOL = 'pool';
type Layer = number | typeof POOL;
/** VGG-16 without its fully connected layers: 15e9 multiply-adds. */
const LARGE = layers('64 64 pool 128 128 pool 256 256 256 pool 512 512 512 pool 512 512 512 pool');
const LARGE_DIMS = [1, 3, 224, 224];
/** 58e6 multiply-adds */
const SMALL = layers('64 64');
const SMALL_DIMS = [1, 64, 28, 28];

interface Network {
  readonly session: InferenceSession;
  readonly feeds: Record<string, Tensor>;
}

function layers(names: string): Layer[] {
  return names.split(' ').map((name) => (name === POOL ? POOL : Number(name)));
}

/** Convolutions with so many 3 x 3 filters, each followed by a relu, and poolings of 2 x 2. */
async function makeNetwork(dims: readonly number[], network: readonly Layer[]): Promise<Network> {
  const [nodes, initializers] = [[] as ReturnType<typeof node>[], [] as ReturnType<typeof tensor>[]];
  let [channels, last] = [dims[1]!, 'x'];
  for (const [index, layer] of network.entries()) {
    const [weight, sums, output] = [`w${index}`, `s${index}`, `y${index}`];
    if (layer === POOL) {
      nodes.push(node('MaxPool', [last], [output], { kernel_shape: [2, 2], strides: [2, 2] }));
    } else {
      const weightDims = [layer, channels, 3, 3];
      initializers.push(tensor(weight, weightDims, randomTensor(weightDims).data));
      nodes.push(node('Conv', [last, weight], [sums], { pads: [1, 1, 1, 1] }));
      nodes.push(node('Relu', [sums], [output]));
      channels = layer;
    }
    last = output;
  }
  const bytes = onnxModel({ inputs: [value('x', dims)], initializers, nodes, outputs: [value(last)] });
  const session = await InferenceSession.create(bytes, { device: 'cpu' });
  const feeds = { x: randomTensor(dims) };
  await session.run(feeds);
  return { session, feeds };
}

async function timeRun({ session, feeds }: Network): Promise<number> {
  const begin = performance.now();
  await session.run(feeds);
  return performance.now() - begin;
}

/** Runs one after the other, with pauses between them, until it is over. */
async function timeRuns(network: Network, pause: number, isOver: () => boolean): Promise<number[]> {
  const times: number[] = [];
  while (!isOver()) {
    if (pause > 0) await sleep(pause);
    times.push(await timeRun(network));
  }
  return times;
}

function during(seconds: number): () => boolean {
  const end = performance.now() + 1000 * seconds;
  return () => performance.now() > end;
}

async function timeBeside(large: Network, other: Network, pause: number): Promise<[number[], number[]]> {
  let over = false;
  const busy = timeRuns(large, 0, () => over);
  const times = await timeRuns(other, pause, during(SECONDS_PER_ROUND));
  over = true;
  return [await busy, times];
}

function say(name: string, times: readonly number[], beside = ''): void {
  const [middle, late] = [median(times), quantile(times, 0.95)];
  console.log(`${name.padEnd(36)} median ${middle.toFixed(2)} ms, p95 ${late.toFixed(2)} ms${beside}`);
}

const { values } = parseArgs({ options: { threads: { type: 'string' } } });
if (values.threads !== undefined) setThreads(Number(values.threads));

async function main(): Promise<void> {
  console.log(`${describeMachine()}; ${threads()} threads of ours`);
  const large = await makeNetwork(LARGE_DIMS, LARGE);
  const another = await makeNetwork(LARGE_DIMS, LARGE);
  const small = await makeNetwork(SMALL_DIMS, SMALL);
  for (let round = 1; round <= ROUNDS; round++) {
    console.log(`round ${round}`);
    const alone = await timeRuns(large, 0, during(SECONDS_PER_ROUND));
    say('small alone', await timeRuns(small, 0, during(1)));
    say('large alone', alone);
    const slower = (times: number[]) => `, ${(median(times) / median(alone)).toFixed(2)} x`;
    for (const pause of PAUSES_MS) {
      const [busy, times] = await timeBeside(large, small, pause);
      say(`small every ${pause} ms beside large`, times);
      say('  large beside it', busy, slower(busy));
      if (!(median(times) <= MOST_MEDIAN_MS)) process.exitCode = 1;
    }
    const [busy] = await timeBeside(large, another, 0);
    say('large beside large', busy, slower(busy));
  }
}

void main();
