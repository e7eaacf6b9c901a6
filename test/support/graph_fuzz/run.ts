/** Runs a model of several nodes in every way that there is, and says what is wrong with what came out. */
import { InferenceSession, type RunOptions, type Tensor } from '../../../lib';
import { TEST_DEVICE } from '../gpu';
import {
  Illegal,
  TooLarge,
  Unjudged,
  type ElementType,
  type Expected,
  type RefTensor,
} from '../onnx_reference/tensor';
import { loaded } from '../operator_fuzz/case';
import { randomOf } from '../operator_fuzz/generate';
import { complaintAbout } from '../operator_fuzz/judge';
import { feedOf, garbageLike } from '../operator_fuzz/run';
import { evaluateGraph } from './evaluate';
import { graphOf, withOtherFeeds } from './generate';
import { describeFeeds, describeGraph, modelOf, type Graph } from './graph';
import { shrunk } from './shrink';

/** What became of a model. */
export interface Outcome {
  readonly kind: 'computed' | 'refused' | 'fault';
  /** What is wrong, or why it was refused */
  readonly reason: string;
  /** How many other feeds were judged, too */
  readonly others: number;
  /** Elements of outputs, and those of which the reference says nothing */
  readonly elements: number;
  readonly unknown: number;
}

/** Longer than any of these models may take. */
const MOST_MILLISECONDS = 20_000;

const OTHERS = 3;

type Results = Readonly<Record<string, Tensor>>;

/** What the reference has for the outputs; `undefined` where it has no answer. */
export function expectedOf(graph: Graph): Expected[] | undefined {
  try {
    const scope = evaluateGraph(graph);
    return graph.outputs.map(({ name }) => scope.get(name)!);
  } catch (error) {
    if ([Illegal, Unjudged, TooLarge].some((kind) => error instanceof kind)) return undefined;
    throw error;
  }
}

/** The outputs in the order of the model. */
export function tensorsOf(graph: Graph, results: Results): RefTensor[] {
  return graph.outputs.map(({ name }) => {
    const { type, dims, data } = results[name]!;
    return { type: type as ElementType, dims, data: loaded(type as ElementType, data, dims) };
  });
}

export function feedsOf({ feeds }: Graph): Record<string, Tensor> {
  return Object.fromEntries(feeds.map(({ name, tensor }) => [name, feedOf(tensor)]));
}

class Fault extends Error {}

function requireRight(
  graph: Graph,
  actual: readonly RefTensor[],
  expected: readonly Expected[],
  what: string,
): void {
  for (const [i, { name }] of graph.outputs.entries()) {
    const complaint = complaintAbout([actual[i]!], [expected[i]!]);
    if (complaint !== undefined) throw new Fault(`${what}: ${name}: ${complaint}`);
  }
}

/** The feeds in two parts each, as far as they have rows for it. */
function partsOf({ feeds }: Graph): Record<string, Tensor[]> {
  const halves = feeds.map(({ name, tensor: { type, dims, data } }) => {
    const [rows, ...row] = dims as [number, ...number[]];
    const [first, size] = [Math.floor(rows / 2), row.reduce((product, extent) => product * extent, 1)];
    const parts: RefTensor[] = [
      { type, dims: [first, ...row], data: data.slice(0, first * size) },
      { type, dims: [rows - first, ...row], data: data.slice(first * size) },
    ];
    return [name, parts.map(feedOf)] as const;
  });
  return Object.fromEntries(halves);
}

/**
 * Runs with the feeds in every way there is, and with other feeds in between.
 *
 * @param others - the same model with other feeds
 * @returns with how many of the others the reference has an answer
 */
async function check(session: InferenceSession, graph: Graph, others: readonly Graph[]): Promise<number> {
  const expected = expectedOf(graph);
  if (expected === undefined) throw new Fault('the generator draws what the reference cannot judge');
  const feeds = feedsOf(graph);
  const options = { signal: AbortSignal.timeout(MOST_MILLISECONDS) };
  const results = await session.run(feeds, options);
  const first = tensorsOf(graph, results);
  requireRight(graph, first, expected, 'first run');
  // What the same program makes of the same feeds, it makes to the bit.
  const again = (more: Results, what: string) => requireRight(graph, tensorsOf(graph, more), first, what);
  again(session.runSync(feeds, garbageLike(results)), 'runSync into garbage');
  const name = graph.outputs.at(-1)!.name;
  again({ ...results, ...(await session.run(feeds, [name], options)) }, `run for ${name} alone`);
  if (graph.feeds.every(({ tensor: { dims } }) => dims.length > 0)) {
    again(await session.runJoined(partsOf(graph), garbageLike(results), options), 'runJoined into garbage');
  }
  let answered = 0;
  for (const other of others) answered += (await isRightFor(session, other, options)) ? 1 : 0;
  if (answered === 0) return 0;
  again(await session.run(feeds, options), 'after other feeds');
  again(session.runSync(feeds, garbageLike(results)), 'runSync after other feeds');
  return answered;
}

async function isRightFor(session: InferenceSession, graph: Graph, options: RunOptions): Promise<boolean> {
  const expected = expectedOf(graph);
  if (expected === undefined) return false;
  try {
    const results = await session.run(feedsOf(graph), options);
    requireRight(graph, tensorsOf(graph, results), expected, 'other feeds');
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_WARPCONV_UNSUPPORTED') throw error;
  }
  return true;
}

type Judged = Pick<Outcome, 'kind' | 'reason' | 'others'>;

/** @param others - the same model with other feeds */
export async function judged(graph: Graph, others: readonly Graph[]): Promise<Judged> {
  try {
    await using session = await InferenceSession.create(modelOf(graph), { device: TEST_DEVICE });
    return { kind: 'computed', reason: '', others: await check(session, graph, others) };
  } catch (error) {
    const { code } = error as { code?: string };
    const kind = code === 'ERR_WARPCONV_UNSUPPORTED' ? 'refused' : 'fault';
    return { kind, reason: error instanceof Fault ? error.message : String(error), others: 0 };
  }
}

/** A model of that number, and the same with other feeds. */
export function drawnOf(seed: number, index: number): { graph: Graph; others: Graph[] } {
  const graph = graphOf(seed, index);
  const random = randomOf(seed ^ 0x07e5, index);
  return { graph, others: Array.from({ length: OTHERS }, () => withOtherFeeds(graph, random)) };
}

export async function runGraph(seed: number, index: number): Promise<Outcome> {
  const { graph, others } = drawnOf(seed, index);
  const outcome = await judged(graph, others);
  const bounds = (expectedOf(graph) ?? []).flatMap(({ data, allowed }) => allowed ?? data.map(() => 0));
  const counts = { elements: bounds.length, unknown: bounds.filter(Number.isNaN).length };
  if (outcome.kind !== 'fault') return { ...outcome, ...counts };
  const small = await shrunk({ graph, others, reason: outcome.reason }, judged);
  const reason = `${seed}:${index} ${outcome.reason}\n${describeGraph(small.graph)}\n    ${small.reason}`;
  return { ...outcome, ...counts, reason: [reason, ...small.others.map(describeFeeds)].join('\n') };
}
