/** Runs a model of several nodes in every way that there is, and says what is wrong with what came out. */
import { InferenceSession, type Tensor } from '../../../lib';
import { TEST_DEVICE } from '../gpu';
import { Illegal, TooLarge, Unjudged, type ElementType, type Expected, type RefTensor } from '../onnx_reference/tensor';
import { loaded } from '../operator_fuzz/case';
import { randomOf } from '../operator_fuzz/generate';
import { complaintAbout } from '../operator_fuzz/judge';
import { feedOf, garbageLike } from '../operator_fuzz/run';
import { evaluateGraph } from './evaluate';
import { graphOf, withOtherFeeds } from './generate';
import { describeGraph, modelOf, type Graph } from './graph';
import { shrunk } from './shrink';

/** What became of a model. */
export interface Outcome {
  readonly kind: 'computed' | 'refused' | 'fault';
  /** What is wrong, or why it was refused */
  readonly reason: string;
  /** Whether other feeds were judged, too */
  readonly isRunWithOthers: boolean;
  /** Elements of outputs, and those of which the reference says nothing */
  readonly elements: number;
  readonly unknown: number;
}

/** Longer than any of these models may take. */
const MOST_MILLISECONDS = 20_000;

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
    return { type: type as ElementType, dims, data: loaded(type as ElementType, data) };
  });
}

export function feedsOf({ feeds }: Graph): Record<string, Tensor> {
  return Object.fromEntries(feeds.map(({ name, tensor }) => [name, feedOf(tensor)]));
}

class Fault extends Error {}

function requireRight(graph: Graph, actual: readonly RefTensor[], expected: readonly Expected[], what: string): void {
  for (const [i, { name }] of graph.outputs.entries()) {
    const complaint = complaintAbout([actual[i]!], [expected[i]!]);
    if (complaint !== undefined) throw new Fault(`${what}: ${name}: ${complaint}`);
  }
}

/** Runs with the feeds twice, by names of outputs, into given tensors, and with other feeds in between. */
async function check(session: InferenceSession, graph: Graph, other: Graph): Promise<boolean> {
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
  const expectedOfOther = expectedOf(other);
  if (expectedOfOther === undefined) return false;
  try {
    const results = await session.run(feedsOf(other), options);
    requireRight(other, tensorsOf(other, results), expectedOfOther, 'other feeds');
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_WARPCONV_UNSUPPORTED') throw error;
  }
  again(await session.run(feeds, options), 'after other feeds');
  again(session.runSync(feeds, garbageLike(results)), 'runSync after other feeds');
  return true;
}

type Judged = Pick<Outcome, 'kind' | 'reason' | 'isRunWithOthers'>;

/** @param other - the same model with other feeds */
export async function judged(graph: Graph, other: Graph): Promise<Judged> {
  try {
    await using session = await InferenceSession.create(modelOf(graph), { device: TEST_DEVICE });
    return { kind: 'computed', reason: '', isRunWithOthers: await check(session, graph, other) };
  } catch (error) {
    const { code } = error as { code?: string };
    const kind = code === 'ERR_WARPCONV_UNSUPPORTED' ? 'refused' : 'fault';
    return { kind, reason: error instanceof Fault ? error.message : String(error), isRunWithOthers: false };
  }
}

export async function runGraph(seed: number, index: number): Promise<Outcome> {
  const graph = graphOf(seed, index);
  const other = withOtherFeeds(graph, randomOf(seed ^ 0x07e5, index));
  const outcome = await judged(graph, other);
  const bounds = (expectedOf(graph) ?? []).flatMap(({ data, allowed }) => allowed ?? data.map(() => 0));
  const counts = { elements: bounds.length, unknown: bounds.filter(Number.isNaN).length };
  if (outcome.kind !== 'fault') return { ...outcome, ...counts };
  const small = await shrunk(graph, other, judged);
  const reason = `${seed}:${index} ${outcome.reason}\n${describeGraph(small.graph)}`;
  const others = outcome.reason.startsWith('other')
    ? `\n    and then feeds ${small.other.feeds.map(({ name, tensor: { dims, data } }) => `${name} = [${dims}] ${data.slice(0, 12).map(String)}`)}`
    : '';
  return { ...outcome, ...counts, reason: `${reason}\n    ${small.reason}${others}` };
}
