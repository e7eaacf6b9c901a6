/** A model while it is drawn: each node is computed as soon as it is there, so that the next one knows its inputs. */
import type { Attribute } from '../onnx_reference/node';
import {
  isFloat,
  sizeOf,
  type Dims,
  type ElementType,
  type Expected,
  type RefTensor,
} from '../onnx_reference/tensor';
import { int, ints, type Attributes } from '../operator_fuzz/draw';
import { anyTensor, list, type Kind } from '../operator_fuzz/values';
import type { Random } from '../random';
import { evaluateInto, type Scope } from './evaluate';
import type { Body, Feed, Graph, GraphNode, Typed } from './graph';

/** What was drawn would make the model of little use: it is large, or little of it is known. */
export class Unsuited extends Error {}

const MOST_ELEMENTS = 1200;
/** Of these many, so many may be unknown, or no numbers. */
const MOST_UNKNOWN = 0.25;
const GREATEST = 1e5;

export interface NodeMore {
  readonly domain?: string;
  /** Outputs without a name */
  readonly unnamed?: readonly number[];
  readonly bodies?: Readonly<Record<string, Body>>;
}

export class GraphBuilder {
  readonly scope: Scope = new Map();
  #feeds: Feed[] = [];
  #constants = new Map<string, RefTensor>();
  #nodes: GraphNode[] = [];
  #count = 0;
  readonly #roots: string[] = [];
  readonly #read = new Set<string>();

  constructor(
    readonly random: Random,
    readonly opset: number,
  ) {}

  get nodeCount(): number {
    return this.#nodes.length;
  }

  /** What nodes may read: what the model began with, and what nodes and feeds have made so far. */
  get names(): readonly string[] {
    const feeds = this.#feeds.map(({ name }) => name);
    return [...this.#roots.filter((name) => !feeds.includes(name)), ...feeds, ...this.made];
  }

  get made(): readonly string[] {
    return this.#nodes.flatMap(({ outputs }) => outputs.filter((name) => name !== ''));
  }

  isRead(name: string): boolean {
    return this.#read.has(name);
  }

  of(name: string): Expected {
    return this.scope.get(name)!;
  }

  /** Draws something; where that throws, nothing of it stays. */
  attempt<T>(draw: () => T): T {
    const [feeds, constants, nodes] = [this.#feeds, this.#constants, this.#nodes];
    this.#feeds = [...feeds];
    this.#constants = new Map(constants);
    this.#nodes = [...nodes];
    try {
      return draw();
    } catch (error) {
      [this.#feeds, this.#constants, this.#nodes] = [feeds, constants, nodes];
      throw error;
    }
  }

  /** A value that the model begins with. */
  root(tensor: RefTensor, isFeed: boolean): void {
    this.#roots.push(isFeed ? this.feed(tensor) : this.constant(tensor));
  }

  feed(tensor: RefTensor): string {
    const name = this.newName('x');
    // Feeds of the same extent may have it by the same name.
    const shape = tensor.dims.map((extent) => (this.random.chance(0.5) ? extent : `n${extent}`));
    this.#feeds.push({ name, tensor, shape });
    this.scope.set(name, tensor);
    return name;
  }

  constant(tensor: RefTensor): string {
    if (this.random.chance(0.1))
      return this.add('Constant', [], { value: { kind: 'tensor', value: tensor } });
    const name = this.newName('c');
    this.#constants.set(name, tensor);
    this.scope.set(name, tensor);
    return name;
  }

  /** From the file more often than from the run. */
  given(tensor: RefTensor, feeds = 0.25): string {
    return this.random.chance(feeds) ? this.feed(tensor) : this.constant(tensor);
  }

  tensor(dims: Dims, type: ElementType = 'float32', kind: Kind = 'unit'): string {
    return this.given(anyTensor(this.random, type, dims, kind));
  }

  scalar(x: number, type: ElementType = 'float32'): string {
    return this.constant({ type, dims: [], data: [isFloat(type) ? Math.fround(x) : BigInt(x)] });
  }

  list(values: readonly number[]): string {
    return this.constant(list(values));
  }

  newName(letter: string): string {
    return `${letter}${this.#count++}`;
  }

  add(operator: string, inputs: readonly string[], attributes: Attributes = {}, more: NodeMore = {}): string {
    return this.addAll(operator, inputs, attributes, 1, more)[0]!;
  }

  addAll(
    operator: string,
    inputs: readonly string[],
    attributes: Attributes,
    outputs: number,
    { domain = '', unnamed = [], bodies }: NodeMore = {},
  ): string[] {
    const given = Object.entries(attributes).filter(
      (entry): entry is [string, Attribute] => entry[1] !== undefined,
    );
    const names = Array.from({ length: outputs }, (_, i) => (unnamed.includes(i) ? '' : this.newName('v')));
    const node = { domain, operator, attributes: Object.fromEntries(given), inputs, outputs: names, bodies };
    evaluateInto(this.scope, node, this.opset);
    for (const name of names) if (name !== '') requireSuited(this.scope.get(name)!);
    this.#nodes.push(node);
    for (const name of inputs) this.#read.add(name);
    return names;
  }

  /** Axes are attributes of some operators at first, and inputs later. */
  along(operator: string, input: string, axes: readonly number[], attributes: Attributes = {}): string {
    const since = operator.startsWith('Reduce') && operator !== 'ReduceSum' ? 18 : 13;
    if (this.opset < since) return this.add(operator, [input], { axes: ints(axes), ...attributes });
    return this.add(operator, [input, this.list(axes)], attributes);
  }

  /** The elements of a one-dimensional value from `start` to `end`. */
  part(input: string, start: number, end: number): string {
    if (this.opset < 10) return this.add('Slice', [input], { starts: ints([start]), ends: ints([end]) });
    return this.add('Slice', [input, this.list([start]), this.list([end])]);
  }

  /** The value, or its elements as often as it takes, under these dims. */
  brought(input: string, dims: Dims): string {
    const [size, wanted] = [sizeOf(this.of(input).dims), sizeOf(dims)];
    if (size === wanted) return this.add('Reshape', [input, this.list(dims)]);
    if (size === 0 || wanted === 0) throw new Unsuited('nothing to bring');
    const flat = this.add('Reshape', [input, this.list([-1])]);
    const times = Math.ceil(wanted / size);
    const enough =
      times === 1
        ? flat
        : this.random.chance(0.5)
          ? this.add('Tile', [flat, this.list([times])])
          : this.add('Concat', new Array<string>(times).fill(flat), { axis: int(0) });
    const first = this.random.integer(0, size * times - wanted);
    const cut = size * times === wanted ? enough : this.part(enough, first, first + wanted);
    return this.add('Reshape', [cut, this.list(dims)]);
  }

  graph(outputs: readonly Typed[]): Graph {
    return {
      opset: this.opset,
      feeds: this.#feeds,
      constants: this.#constants,
      nodes: this.#nodes,
      outputs,
    };
  }
}

function requireSuited({ type, dims, data, allowed }: Expected): void {
  if (data.length > MOST_ELEMENTS) throw new Unsuited(`${data.length} elements`);
  if (dims.length > 6) throw new Unsuited(`${dims.length} axes`);
  const most = MOST_UNKNOWN * data.length;
  const unknown = allowed?.reduce((count, bound) => count + (Number.isNaN(bound) ? 1 : 0), 0) ?? 0;
  if (unknown > most) throw new Unsuited('little is known of it');
  if (!isFloat(type)) return;
  const wild = data.reduce<number>((count, x) => count + (Math.abs(Number(x)) <= GREATEST ? 0 : 1), 0);
  if (wild > most) throw new Unsuited('numbers are large, or none');
}
