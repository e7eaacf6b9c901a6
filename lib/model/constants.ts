/** What follows from a network's constants alone, whatever the dims of its inputs: found once a session. */
import { callNativeAsync } from '../calls';
import { addon } from '../load';
import { inSlices, isDue, type Sliced } from '../slices';
import type { ConstantTensor, GraphNode } from './graph';

/** The filters of a convolution, which are a part of an array. */
export interface Filters {
  readonly data: Float32Array;
  /** The first element */
  readonly first: number;
  readonly count: number;
  /** Elements of one filter */
  readonly size: number;
}

/** Filters of convolutions that native code is given at once: each takes some microseconds of the event loop. */
const MOST_AT_ONCE = 64;

/** A session has one. Compilations that overlap may share it. */
export class Constants {
  readonly #ofModel = new Set<ArrayBufferLike>();
  readonly #made = new Map<string, unknown>();
  readonly #names = new WeakMap<object, string>();
  #named = 0;
  readonly #ranges = new WeakMap<Float32Array, Map<string, Float32Array>>();
  /** Nodes that make the same for all dims, and what that is by its name */
  readonly #fixedNodes = new Set<GraphNode>();
  readonly #fixed = new Map<string, ConstantTensor>();
  /** Of each list of nodes those that are not fixed, and how many nodes were by then */
  readonly #unfixed = new WeakMap<readonly GraphNode[], { nodes: readonly GraphNode[]; fixed: number }>();

  /** @param constants - the model's own */
  constructor(constants: Iterable<ConstantTensor>) {
    for (const { data } of constants) this.#ofModel.add(data.buffer);
  }

  /** Whether some of the model's own constants are in this memory. */
  isOfModel(memory: ArrayBufferLike): boolean {
    return this.#ofModel.has(memory);
  }

  /**
   * What `make` gave when it was called for this key, which is once unless it throws.
   *
   * @param key - objects are told apart by which they are, strings and numbers by what they are
   */
  once<T>(key: readonly (object | string | number)[], make: () => T): T {
    const name = this.#nameOfAll(key);
    if (!this.#made.has(name)) this.#made.set(name, make());
    return this.#made.get(name) as T;
  }

  /** {@link once} in slices: of several that overlap, all get what the first of them made. */
  *onceInSlices<T>(key: readonly (object | string | number)[], make: () => Sliced<T>): Sliced<T> {
    const name = this.#nameOfAll(key);
    if (!this.#made.has(name)) {
      const made = yield* make();
      if (!this.#made.has(name)) this.#made.set(name, made);
    }
    return this.#made.get(name) as T;
  }

  /** Remembers that the node makes these tensors for all dims. */
  fix(node: GraphNode, tensors: readonly ConstantTensor[]): void {
    this.#fixedNodes.add(node);
    tensors.forEach((tensor, i) => this.#fixed.set(node.outputs[i]!, tensor));
  }

  /** What a node makes for all dims, if that is known. */
  fixed(name: string): ConstantTensor | undefined {
    return this.#fixed.get(name);
  }

  /** The nodes that have to be lowered for each set of dims. */
  unfixed(nodes: readonly GraphNode[]): readonly GraphNode[] {
    const fixed = this.#fixedNodes.size;
    let known = this.#unfixed.get(nodes);
    if (known?.fixed !== fixed) {
      known = { nodes: nodes.filter((node) => !this.#fixedNodes.has(node)), fixed };
      this.#unfixed.set(nodes, known);
    }
    return known.nodes;
  }

  #nameOfAll(key: readonly (object | string | number)[]): string {
    let name = '';
    for (const part of key) name += `${this.#nameOf(part)},`;
    return name;
  }

  #nameOf(part: object | string | number): string {
    if (typeof part === 'string') return JSON.stringify(part);
    if (typeof part === 'number') return Object.is(part, -0) ? '-0' : String(part);
    let name = this.#names.get(part);
    if (name === undefined) {
      name = `#${this.#named++}`;
      this.#names.set(part, name);
    }
    return name;
  }

  /**
   * For each filter its largest magnitude and the smallest that is not 0, one after the other: NaN where an element is,
   * and an infinite smallest one where all are 0. `undefined` where {@link findRanges} has not been asked.
   */
  rangesOf(filters: Filters): Float32Array | undefined {
    return this.#ranges.get(filters.data)?.get(placeOf(filters));
  }

  /** Looks for those that are not known, on other threads. */
  async findRanges(all: readonly Filters[]): Promise<void> {
    const unknown = await inSlices(this.#unknownOf(all));
    for (let first = 0; first < unknown.length; first += MOST_AT_ONCE) {
      await this.#findSome(unknown.slice(first, first + MOST_AT_ONCE));
    }
  }

  /** Each of them once. */
  *#unknownOf(all: readonly Filters[]): Sliced<Filters[]> {
    const unknown = new Map<string, Filters>();
    for (const [index, filters] of all.entries()) {
      if (isDue(index)) yield;
      if (this.rangesOf(filters) !== undefined) continue;
      unknown.set(`${this.#nameOf(filters.data)},${placeOf(filters)}`, filters);
    }
    return [...unknown.values()];
  }

  async #findSome(some: readonly Filters[]): Promise<void> {
    const elements = some.map(({ data, first, count, size }) => data.subarray(first, first + count * size));
    const counts = some.map(({ count }) => count);
    const ranges = counts.map((count) => new Float32Array(2 * count));
    await callNativeAsync((done) => addon().filterRanges(elements, counts, ranges, done));
    some.forEach((filters, i) => {
      const ofData = this.#ranges.get(filters.data) ?? new Map<string, Float32Array>();
      this.#ranges.set(filters.data, ofData.set(placeOf(filters), ranges[i]!));
    });
  }
}

function placeOf({ first, count, size }: Filters): string {
  return `${first},${count},${size}`;
}
