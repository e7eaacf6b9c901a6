/** What a run writes, and what it gives back. */
import type { NativeGpuBuffer } from '../addon';
import { areSameDims, describe, invalid, unreadable } from '../check';
import type { Compiled, Port } from '../model/compile';
import type { NativeOutput } from '../model/steps';
import type { Place } from '../placement';
import { newOutputArray } from '../tensor/outputs';
import { emptyOnGpu, tensorOver, type Tensor } from '../tensor/tensor';
import { readLocation, requireStable, type NamedElements, type TensorLike } from '../tensor/tensor_like';
import type { TypedArray } from '../tensor/typed_array';
import { beginAccess, endAccess, type Access } from './accesses';
import { checkData, residentElements, type Feed } from './feeds';
import type { RunArguments } from './session_options';

/** The outputs of a run that is under way: tensors that the caller brought, and new ones. */
export class RunOutputs {
  /** As native code takes them */
  readonly elements: NativeOutput[] = [];
  readonly #ports: readonly Port[];
  readonly #fetches: RunArguments['fetches'];
  /** New ones on the GPU, whose memory is not left to the collector where the run fails */
  readonly #onGpu = new Map<string, Tensor>();
  readonly #access: Access;

  /** @throws {@link WarpconvError} where a tensor does not fit, or is in use; where there is no memory */
  constructor(
    { outputs: ports }: Compiled,
    reads: readonly Feed[],
    { fetches, resident }: RunArguments,
    place: Place,
  ) {
    this.#ports = ports;
    this.#fetches = fetches;
    const writes: NamedElements[] = [];
    for (const port of ports) {
      const given = fetches?.get(port.name);
      const elements = given ? givenElements(port, given, place) : null;
      if (elements !== null) writes.push({ name: calledOf(port), elements });
      this.elements.push(elements);
    }
    this.#access = { reads, writes };
    beginAccess(this.#access);
    try {
      // New ones last, when nothing but want of memory is left to keep the run from beginning.
      for (let i = 0; i < ports.length; i++)
        this.elements[i] ??= this.#newElements(ports[i]!, resident, place);
    } catch (error) {
      this.abandon();
      throw error;
    }
  }

  #newElements({ name, type, dims }: Port, resident: ReadonlySet<string>, place: Place): NativeOutput {
    // A CPU's kernels have no other place for them.
    if (place === 'cpu') return newOutputArray(type, dims);
    if (this.#fetches?.has(name) === false) return null;
    if (!resident.has(name)) return newOutputArray(type, dims);
    const tensor = emptyOnGpu(place, type, dims);
    this.#onGpu.set(name, tensor);
    return tensor.gpuBuffer as NativeGpuBuffer;
  }

  /** The tensors of those that were asked for, when they are written. */
  finish(): Record<string, Tensor> {
    endAccess(this.#access);
    const entries: [string, Tensor][] = [];
    for (let i = 0; i < this.#ports.length; i++) {
      const { name, type, dims } = this.#ports[i]!;
      if (this.#fetches !== undefined && !this.#fetches.has(name)) continue;
      const there = this.#fetches?.get(name) ?? this.#onGpu.get(name);
      entries.push([name, there ?? tensorOver(type, this.elements[i] as TypedArray, dims)]);
    }
    return Object.fromEntries(entries);
  }

  /** After a failure nobody sees the new ones. */
  abandon(): void {
    endAccess(this.#access);
    this.#onGpu.forEach((tensor) => tensor.dispose());
  }
}

function calledOf({ name }: Port): string {
  return `fetches.${name}`;
}

/** The memory that an output which comes from another runtime is copied to: that of the caller's tensor, checked, or new. */
export function outputFor(port: Port, given: Tensor | null | undefined): TypedArray {
  if (!given) return newOutputArray(port.type, port.dims);
  return givenElements(port, given, 'cpu') as TypedArray;
}

/** The memory of a tensor that the caller brought. */
function givenElements(port: Port, given: TensorLike, place: Place): TypedArray | NativeGpuBuffer {
  const called = calledOf(port);
  try {
    const location = readLocation(called, given);
    requireFit(called, port, given, location, place);
    if (location === 'gpu-buffer') return residentElements(called, given, place);
    const data = checkData(called, given.data, port.type, port.dims);
    requireStable(called, data);
    return data;
  } catch (error) {
    throw unreadable(called, error);
  }
}

function requireFit(
  called: string,
  port: Port,
  { type, dims }: TensorLike,
  location: 'cpu' | 'gpu-buffer',
  place: Place,
): void {
  const hasDims = Array.isArray(dims) && areSameDims(dims as readonly number[], port.dims);
  const isReachable = location === 'cpu' || place !== 'cpu';
  if (isReachable && type === port.type && hasDims) return;
  const where = place === 'cpu' ? 'in CPU memory' : `in CPU memory or on '${place}'`;
  throw invalid(
    `${called} must be a ${port.type} tensor of dims ${describe(port.dims)} ${where}, ` +
      `got type ${describe(type)}, dims ${describe(dims)} and location '${location}'`,
  );
}
