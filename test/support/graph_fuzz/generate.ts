/** Models of three nodes and more, at random. */
import { Illegal, isFloat, TooLarge, Unjudged, type ElementType } from '../onnx_reference/tensor';
import { randomOf } from '../operator_fuzz/generate';
import { anyDims, anyTensor, shuffled } from '../operator_fuzz/values';
import type { Random } from '../random';
import { GraphBuilder, Unsuited } from './builder';
import { addDrawn } from './chain';
import { pruned, type Feed, type Graph, type Typed } from './graph';
import { IDIOMS, RARE_IDIOMS } from './idioms';

const OPSETS = [
  8, 9, 10, 11, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 18, 19, 20, 21, 21, 22, 23, 24, 26, 28,
];
const LEAST_NODES = 3;
const MOST_NODES = 14;
const MOST_OUTPUTS = 6;
const MOST_FED = 120;

const TYPES: readonly ElementType[] = [
  ...new Array<ElementType>(12).fill('float32'),
  ...([
    'float16',
    'float16',
    'float64',
    'int32',
    'int64',
    'int64',
    'uint8',
    'int8',
    'bool',
    'uint32',
    'bfloat16',
  ] as const),
];

/** The model of that number, of which every value is known well enough. */
export function graphOf(seed: number, index: number): Graph {
  const random = randomOf(seed ^ 0x69af, index);
  const builder = new GraphBuilder(random, random.pick(OPSETS));
  for (let count = random.integer(1, 3); count > 0; count--) addFeed(builder, count === 1);
  const wanted = random.integer(LEAST_NODES, MOST_NODES - 2);
  while (builder.nodeCount < wanted) grow(builder);
  return pruned(builder.graph(outputsOf(builder)), true);
}

function addFeed(builder: GraphBuilder, isLast: boolean): void {
  const { random, opset } = builder;
  const type = isLast && random.chance(0.7) ? 'float32' : random.pick(TYPES);
  const isHalfTooNew = type === 'bfloat16' && opset < 13;
  for (;;) {
    const dims = anyDims(random, { least: random.chance(0.1) ? 0 : 1, most: 4 });
    const size = dims.reduce((product, extent) => product * extent, 1);
    if (size > MOST_FED) continue;
    const kind = random.pick(['unit', 'unit', 'unit', 'whole', 'positive'] as const);
    const tensor = anyTensor(random, isHalfTooNew ? 'float32' : type, dims, kind);
    // Of a network without feeds all is computed ahead.
    builder.root(tensor, random.chance(0.9));
    return;
  }
}

/** Another node or idiom, if what is drawn suits. */
function grow(builder: GraphBuilder): void {
  const { random } = builder;
  const draw = random.chance(0.6) ? addDrawn : random.pick(random.chance(0.07) ? RARE_IDIOMS : IDIOMS);
  attempt(builder, () => draw(builder));
}

/** What is made, or nothing where that does not suit. */
function attempt<T>(builder: GraphBuilder, make: () => T): T | undefined {
  try {
    return builder.attempt(make);
  } catch (error) {
    const isUnsuited = [Unsuited, Illegal, Unjudged, TooLarge].some((kind) => error instanceof kind);
    if (!isUnsuited) throw error;
    return undefined;
  }
}

/** What nobody reads, and some of the rest: in between, given through, or given twice. */
function outputsOf(builder: GraphBuilder): Typed[] {
  const { random, made } = builder;
  const ends = made.filter((name) => !builder.isRead(name));
  const others = made.filter((name) => builder.isRead(name) && random.chance(0.12));
  const chosen = [...shuffled(ends, random).slice(0, MOST_OUTPUTS), ...others];
  if (chosen.length === 0) chosen.push(made.at(-1)!);
  const addCopyOf = (name: string) => {
    const copy = attempt(builder, () => builder.add('Identity', [name]));
    if (copy !== undefined) chosen.push(copy);
  };
  if (random.chance(0.1)) addCopyOf(random.pick(chosen));
  if (random.chance(0.05)) addCopyOf(random.pick(builder.names));
  const through = builder.names.find((name) => !made.includes(name) && name.startsWith('x'));
  if (through !== undefined && random.chance(0.04)) chosen.push(through);
  return chosen.map((name) => ({ name, type: builder.of(name).type }));
}

/** The same model with other feeds: other elements, and of extents that have a name sometimes others. */
export function withOtherFeeds(graph: Graph, random: Random): Graph {
  const names = [
    ...new Set(graph.feeds.flatMap(({ shape }) => shape.filter((one) => typeof one === 'string'))),
  ];
  // What is 1, and what is the same, decides what is broadcast and which tensors are views of others.
  const how = random.uniform();
  const common = how < 0.2 ? 1 : how < 0.4 ? random.integer(2, 5) : undefined;
  const changed = new Map(
    names.map((name) => {
      const extent = Number(name.slice(1));
      const other = random.chance(0.4) ? extent : random.integer(1, 2 * extent + 1);
      return [name, common ?? other] as const;
    }),
  );
  const feeds = graph.feeds.map((feed): Feed => {
    const { type, dims, data } = feed.tensor;
    const own = dims.map((extent, axis) => changed.get(String(feed.shape[axis])) ?? extent);
    const isIndex = !isFloat(type) && data.length > 0;
    const fresh = anyTensor(random, type, own, 'unit');
    // Indices are to stay within what they are for.
    const tensor = isIndex ? { ...fresh, data: fresh.data.map(() => random.pick(data)) } : fresh;
    return { ...feed, tensor };
  });
  return { ...graph, feeds };
}
