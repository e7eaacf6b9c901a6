/** One run of a model for one request or several: their inputs put together, their outputs taken apart. */
import { types } from 'node:util';

import { describe, elementCount, isObject } from '../check';
import { isOwnSession } from '../session/own_sessions';
import { kindOf, type TypedArray } from '../tensor/typed_array';
import { Cancellation } from './cancellation';
import type { ModelDescription, ServedSession, ServedTensor, ValueSpec } from './model';
import { brokenSession } from './refusal';

import { nextTurn } from './timers';
import type { InputTensor, OutputTensor } from './tensors';

/** How much is copied into a batch in one turn of the event loop: 0.6 ms into fresh memory, page faults included (Zen 4). */
const COPY_BYTES = 2 ** 20;

/** Requests of up to so many bytes are joined here: to hand one over as a part takes longer than to copy it. */
const COPIED_BYTES = 2 ** 12;

/** A request, as far as a run needs to know it. */
export interface Part {
  readonly inputs: ReadonlyMap<string, InputTensor>;
  readonly outputs: readonly ValueSpec[];
  readonly cancellation: Cancellation;
  /** Extent of dimension 0 */
  readonly rows: number;
}

/**
 * Runs a model for several requests at once.
 *
 * @param onRun - told when the run itself began and ended, by `performance.now()`
 * @returns for each request the outputs that it asked for
 */
export async function runTogether(
  model: ModelDescription,
  session: ServedSession,
  parts: readonly Part[],
  onRun: (started: number, ended: number) => void,
): Promise<OutputTensor[][]> {
  const wanted = model.outputs.filter((spec) => parts.some(({ outputs }) => outputs.includes(spec)));
  const names = wanted.map(({ name }) => name);
  const start = await readyToRun(model, session, parts, names);
  const results = await untilNobodyWaits(parts, async (cancellation) => {
    const started = performance.now();
    try {
      return await start(cancellation);
    } finally {
      onRun(started, performance.now());
    }
  });
  const tensors = new Map<ValueSpec, OutputTensor>();
  for (const spec of wanted) tensors.set(spec, await readOutput(spec, results));
  return split(parts, tensors);
}

/** What starts a run, once its inputs are gathered. */
async function readyToRun(
  model: ModelDescription,
  session: ServedSession,
  parts: readonly Part[],
  names: readonly string[],
): Promise<(cancellation: Cancellation) => ReturnType<ServedSession['run']>> {
  const isOwn = isOwnSession(session);
  const isPlain = parts.length === 1 || bytesOf(parts[0]!) <= COPIED_BYTES;
  const signalOf = (cancellation: Cancellation) => (isOwn ? cancellation : cancellation.toSignal());
  if (session.runJoined !== undefined && !(isOwn && isPlain)) {
    const feeds = await gather(model, parts, (tensors) => tensors);
    return (cancellation) => session.runJoined!(feeds, names, { signal: signalOf(cancellation) });
  }
  const feeds = await gather(model, parts, isOwn && parts.length === 1 ? ([only]) => only! : join);
  return (cancellation) => session.run(feeds, names, { signal: signalOf(cancellation) });
}

function bytesOf({ inputs }: Part): number {
  return [...inputs.values()].reduce((sum, { data }) => sum + data.byteLength, 0);
}

/** The inputs of several requests by their names. An input may have any name, so there is no prototype. */
async function gather<T>(
  { inputs }: ModelDescription,
  parts: readonly Part[],
  take: (tensors: readonly InputTensor[]) => T | Promise<T>,
): Promise<Record<string, T>> {
  const feeds = Object.create(null) as Record<string, T>;
  for (const { name } of inputs) feeds[name] = await take(parts.map((part) => part.inputs.get(name)!));
  return feeds;
}

/** Puts tensors one under the other, along dimension 0. */
async function join(tensors: readonly InputTensor[]): Promise<ServedTensor> {
  const [first] = tensors;
  const { type, dims, data } = first!;
  // Sessions of other packages need not take shared memory.
  if (tensors.length === 1)
    return types.isSharedArrayBuffer(data.buffer) ? { ...first!, data: data.slice() } : first!;
  const length = tensors.reduce((sum, tensor) => sum + tensor.data.length, 0);
  const joined = new (data.constructor as new (length: number) => Uint8Array)(length);
  let [offset, copied] = [0, 0];
  for (const tensor of tensors) {
    joined.set(tensor.data as Uint8Array, offset);
    offset += tensor.data.length;
    copied += tensor.data.byteLength;
    if (copied < COPY_BYTES) continue;
    await nextTurn();
    copied = 0;
  }
  const rows = tensors.reduce((sum, tensor) => sum + tensor.dims[0]!, 0);
  return { type, dims: [rows, ...dims.slice(1)], data: joined, location: 'cpu' };
}

/** Gives each request its rows, as views. */
function split(parts: readonly Part[], tensors: ReadonlyMap<ValueSpec, OutputTensor>): OutputTensor[][] {
  if (parts.length === 1) return [parts[0]!.outputs.map((spec) => tensors.get(spec)!)];
  const rows = parts.reduce((sum, part) => sum + part.rows, 0);
  for (const [{ name }, { dims }] of tensors) {
    if (dims[0] === rows) continue;
    throw brokenSession(`output '${name}' of ${rows} joined rows has dims ${describe(dims)}`);
  }
  let start = 0;
  return parts.map((part) => {
    const begin = start;
    start += part.rows;
    return part.outputs.map((spec) => {
      const { dims, elements } = tensors.get(spec)!;
      const rest = dims.slice(1);
      const size = elementCount(rest);
      return { dims: [part.rows, ...rest], elements: elements.subarray(begin * size, start * size) };
    });
  });
}

/** Runs under a cancellation that is requested once those of all the requests are. */
async function untilNobodyWaits<T>(
  parts: readonly Part[],
  run: (cancellation: Cancellation) => Promise<T>,
): Promise<T> {
  const all = new Cancellation();
  const onCancel = () => {
    if (parts.every(({ cancellation }) => cancellation.isRequested))
      all.request(parts[0]!.cancellation.reason);
  };
  // Some may have gone while their inputs were joined.
  onCancel();
  all.throwIfRequested();
  parts.forEach(({ cancellation }) => cancellation.follow(onCancel));
  try {
    return await run(all);
  } finally {
    parts.forEach(({ cancellation }) => cancellation.unfollow(onCancel));
  }
}

/** A list with holes passes `every`, but not by its elements one by one. */
function areDims(value: unknown): value is number[] {
  return (
    Array.isArray(value) && Array.from(value).every((extent) => Number.isSafeInteger(extent) && extent >= 0)
  );
}

async function readOutput(
  { name, datatype }: ValueSpec,
  results: Readonly<Record<string, unknown>>,
): Promise<OutputTensor> {
  const tensor = isObject(results) && Object.hasOwn(results, name) ? results[name] : undefined;
  if (!isObject(tensor)) throw brokenSession(`the session gave no output '${name}'`);
  const { type, dims, location = 'cpu' } = tensor as ServedTensor;
  const isHere = location === 'cpu' || location === 'cpu-pinned';
  const data = isHere ? (tensor as ServedTensor).data : await (tensor as ServedTensor).getData?.(true);
  (tensor as ServedTensor).dispose?.();
  if (type === datatype.type && areDims(dims) && kindOf(data) !== undefined) {
    const { buffer, byteOffset, byteLength } = data as TypedArray;
    const count = elementCount(dims);
    // A view of the kind that the rest takes: where there is a Float16Array, float16 may come as one.
    if (byteLength === count * datatype.bytes) {
      return { dims, elements: new datatype.Elements(buffer, byteOffset, count) };
    }
  }
  const got = `type ${describe(type)}, dims ${describe(dims)} and data ${describe(data)}`;
  throw brokenSession(`output '${name}' must be a tensor of type '${datatype.type}', got ${got}`);
}
