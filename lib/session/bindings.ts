/** What a network is compiled for: the dims of its inputs, and the elements of those that decide shapes. */
import { elementCount } from '../check';
import type { WarpconvError } from '../errors';
import type { Bindings } from '../model/compile';
import { readsOf, type ConstantTensor, type Extent, type Graph, type GraphNode } from '../model/graph';
import type { ValueNeeded } from '../model/lowering';
import { unsupportedNode } from '../model/refusals';
import { copyOf } from '../tensor/tensor';
import type { TypedArray } from '../tensor/typed_array';
import { arrayOf, haveDims, type Feed } from './feeds';

/** Most elements of an input whose values decide shapes: such an input is a list of dims, or of scales. */
const MOST_DECIDING = 1024;

export class InputBinder {
  /** The inputs whose elements were found to decide shapes */
  readonly #deciding = new Set<string>();
  /** The dims of the last run and their key: it takes longer to make than to compare them. */
  #latest: { readonly dims: readonly (readonly number[])[]; readonly key: string } | undefined;

  constructor(private readonly graph: Graph) {}

  /** The key of `bind(inputs)`. */
  keyOf(inputs: readonly Feed[]): string {
    if (this.#deciding.size > 0) return keyOf(this.bind(inputs));
    if (this.#latest === undefined || !haveDims(inputs, this.#latest.dims))
      this.#latest = { dims: inputs.map(({ dims }) => dims), key: keyOf(this.bind(inputs)) };
    return this.#latest.key;
  }

  /** With the elements of inputs that decide shapes, and the dims of all. */
  bind(inputs: readonly Feed[]): Bindings {
    const constants = inputs.filter(({ name }) => this.#deciding.has(name));
    return {
      dims: new Map(inputs.map(({ name, dims }) => [name, dims])),
      // Compiled in, they outlive the call: a copy is kept.
      constants: new Map(
        constants.map((feed) => [
          feed.name,
          {
            type: feed.type,
            dims: feed.dims,
            data: copyOf(feed.type, arrayOf(feed), feed.dims),
          } as ConstantTensor,
        ]),
      ),
    };
  }

  /** How many inputs were found to decide shapes by now. */
  get decidingCount(): number {
    return this.#deciding.size;
  }

  /** Notes the inputs with whose elements compiling again may help. */
  decide(error: ValueNeeded, inputs: readonly Feed[]): void {
    const dims = new Map(inputs.map((feed) => [feed.name, feed.dims]));
    this.#decisive(error, dims).forEach((name) => this.#deciding.add(name));
  }

  /** Whether elements of inputs of these dims might have helped. */
  canDecide(error: ValueNeeded, dims: Bindings['dims']): boolean {
    return this.#decisive(error, dims).length > 0;
  }

  /** The inputs by which the value is known. */
  #decisive({ value }: ValueNeeded, dims: Bindings['dims']): string[] {
    const sources = [...sourcesOf(this.graph, value)];
    // A value that large ones decide, too, is not known by the others.
    const areSmall = sources.every((name) => elementCount(dims.get(name)!) <= MOST_DECIDING);
    return areSmall ? sources : [];
  }
}

/** The dims of all inputs, where none is left to the runs. */
export function fixedDims(
  graph: Graph,
  free: ReadonlyMap<string, number>,
): ReadonlyMap<string, readonly number[]> | undefined {
  const entries = graph.inputs.map(({ name, shape }) => {
    const dims = shape?.map((extent) => fixedExtent(extent, free));
    return [name, dims] as const;
  });
  const isFixed = entries.every(([, dims]) => dims?.every((extent) => extent !== undefined));
  return isFixed ? new Map(entries as [string, number[]][]) : undefined;
}

function fixedExtent(extent: Extent, free: ReadonlyMap<string, number>): number | undefined {
  if (typeof extent === 'number') return extent;
  return extent === null ? undefined : free.get(extent);
}

/** The graph's inputs whose elements a value is made from. */
function sourcesOf({ inputs, nodes }: Graph, value: string): Set<string> {
  const writers = new Map(nodes.flatMap((node) => node.outputs.map((name) => [name, node] as const)));
  const sources = new Set<string>();
  const seen = new Set<string>();
  const open = [value];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (seen.has(name)) continue;
    seen.add(name);
    if (inputs.some((input) => input.name === name)) sources.add(name);
    const writer = writers.get(name);
    if (writer !== undefined && !isOfDims(writer)) open.push(...readsOf(writer));
  }
  return sources;
}

/** Whether it makes the same of all tensors of these dims. */
function isOfDims({ domain, operator }: GraphNode): boolean {
  return domain === '' && (operator === 'Shape' || operator === 'Size');
}

/** @param remedy - what to do, to be appended */
export function undecided({ node, value }: ValueNeeded, remedy = ''): WarpconvError {
  return unsupportedNode(node, `needs the elements of '${value}' before the network runs${remedy}`);
}

export function keyOf({ dims, constants }: Bindings): string {
  const values = [...constants].map(([name, { data }]) => `${name}=${describeElements(data)}`);
  return [...[...dims].map(([name, extents]) => `${name}:${extents.join('x')}`), ...values].join(';');
}

function describeElements(data: TypedArray): string {
  return Array.from(data as ArrayLike<number | bigint>, String).join();
}
