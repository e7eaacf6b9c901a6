/** What a run of a network is given, checked against what the network takes. */
import { types } from 'node:util';

import type { NativeGpuBuffer } from '../addon';
import {
  areSameDims,
  checkElements,
  checkIntegers,
  checkList,
  describe,
  elementCount,
  invalid,
  isList,
  isObject,
  mismatch,
  propertyOf,
  unreadable,
} from '../check';
import { WarpconvError } from '../errors';
import { invalidModel } from '../model/complaints';
import type { Extent, ValueInfo } from '../model/graph';
import type { Place } from '../placement';
import { arrayLength, packedBits } from '../tensor/packed';
import { arraysOf, newArray, stable, type DataType } from '../tensor/tensor';
import { noTensor, readLocation, readOnGpu, wrongType, type TensorLike } from '../tensor/tensor_like';
import { bitsOf, bytesUnder, isDetached, kindOf, type TypedArray } from '../tensor/typed_array';

/** A feed, each of its properties read once. */
export interface Feed {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  /** In CPU memory, there in parts, or in the memory of the session's GPU */
  readonly elements: TypedArray | readonly TypedArray[] | NativeGpuBuffer;
}

/** Of those that a message lists */
const MOST_DESCRIBED = 4;

export function describeInputs(inputs: readonly Pick<Feed, 'name' | 'dims'>[]): string {
  const listed = inputs.slice(0, MOST_DESCRIBED).map(({ name, dims }) => `'${name}' ${describe(dims)}`);
  const rest = inputs.length - listed.length;
  return listed.join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}

/**
 * What compiling threw. A complaint about the model names the dims that it leaves open, too: they may be what is wrong.
 *
 * @param infos - the inputs of the network
 * @param dims - of the inputs of what was compiled, which may be a part of it
 */
export function withOpenDims(
  error: unknown,
  infos: readonly ValueInfo[],
  dims: ReadonlyMap<string, readonly number[]>,
): unknown {
  if (!(error instanceof WarpconvError) || error.code !== 'ERR_WARPCONV_INVALID_MODEL') return error;
  const open = infos
    .filter(({ name, shape }) => dims.has(name) && !shape?.every((extent) => typeof extent === 'number'))
    .map(({ name }) => ({ name, dims: dims.get(name)! }));
  return open.length === 0
    ? error
    : invalidModel(`${error.message}; compiled for ${describeInputs(open)}`, error);
}

export function haveDims(feeds: readonly Feed[], dims: readonly (readonly number[])[]): boolean {
  for (let i = 0; i < feeds.length; i++) {
    if (!areSameDims(feeds[i]!.dims, dims[i]!)) return false;
  }
  return true;
}

export function elementsOf(feeds: readonly Feed[]): Feed['elements'][] {
  return feeds.map(({ elements }) => elements);
}

/** The elements of a feed that decides shapes. */
export function arrayOf({ name, type, elements }: Feed): TypedArray {
  const arrays = [elements].flat() as (TypedArray | NativeGpuBuffer)[];
  if (arrays.some((one) => kindOf(one) !== undefined && isDetached(one as TypedArray)))
    throw invalid(`feeds.${name} was transferred away; transfer it when the run has settled`);
  if (Array.isArray(elements)) return joined(type, elements as readonly TypedArray[]);
  if (kindOf(elements) !== undefined) return elements as TypedArray;
  throw invalid(
    `feeds.${name} decides shapes, so that its elements are needed before the network runs; await its to('cpu') first`,
  );
}

export function readFeed(info: ValueInfo, feeds: object, place: Place): Feed {
  const called = `feeds.${info.name}`;
  try {
    return readTensor(called, requireFeed(called, info, feeds), info, place);
  } catch (error) {
    throw unreadable(called, error);
  }
}

function requireFeed(called: string, { name }: ValueInfo, feeds: object): unknown {
  const value = propertyOf(feeds, name);
  // A tensor has an array by the name of 'data', as some models have an input.
  if (value === undefined || kindOf(value) !== undefined) requireByName(name, feeds);
  if (value !== undefined) return value;
  const names = Object.keys(feeds);
  const given = names.length === 0 ? 'none was given' : `given were ${describe(names)}`;
  throw invalid(`${called} is missing: the model has an input of that name; ${given}`);
}

/** Refuses feeds that are one input, without its name. */
function requireByName(name: string, feeds: object): void {
  const what = 'an object of tensors by name';
  if (types.isPromise(feeds)) throw mismatch('feeds', what, feeds, '; await it first');
  const remedy = `; pass it by name, as { '${name}': … }`;
  if (kindOf(feeds) !== undefined) throw mismatch('feeds', what, feeds, remedy);
  if (typeof propertyOf(feeds, 'type') === 'string' && isList('feeds.dims', propertyOf(feeds, 'dims')))
    throw invalid(`feeds must be ${what}, got a tensor${remedy}`);
}

function readTensor(called: string, value: unknown, { name, type, shape }: ValueInfo, place: Place): Feed {
  if (!isObject(value)) throw noTensor(called, value);
  const given = value as Partial<Record<keyof TensorLike, unknown>>;
  const location = readLocation(called, value);
  if (given.type !== type) throw wrongType(called, value, [type], given.type);
  const dims = readDims(`${called}.dims`, given.dims, shape);
  if (location === 'gpu-buffer')
    return { name, type, dims, elements: residentElements(called, value, place) };
  const data = checkData(called, given.data, type, dims);
  return { name, type, dims, elements: stable(type, data, dims) };
}

/** A feed that comes as a list of its parts along dimension 0. */
export function readJoinedFeed(info: ValueInfo, feeds: object, place: Place): Feed {
  const called = `feeds.${info.name}`;
  try {
    const part = { ...info, shape: info.shape?.map((extent, axis) => (axis === 0 ? null : extent)) };
    const parts = checkList(called, requireFeed(called, info, feeds), 'a list of tensors', (at, value) =>
      requireOnCpu(at, readTensor(at, value, part, place), place),
    );
    if (parts.length > 1 && packedBits(info.type) !== undefined) {
      throw invalid(`${called} has elements of ${info.type} that share bytes; bring it as one tensor`);
    }
    const dims = readDims(`the dims of ${called} together`, joinedDims(called, parts), info.shape);
    const elements = parts.map((one) => one.elements as TypedArray);
    return { ...parts[0]!, dims, elements: elements.length === 1 ? elements[0]! : elements };
  } catch (error) {
    throw unreadable(called, error);
  }
}

function requireOnCpu(called: string, feed: Feed, place: Place): Feed {
  if (kindOf(feed.elements) !== undefined) return feed;
  throw invalid(
    `${called} is on '${place}', and parts of an input are in CPU memory; await its to('cpu') first`,
  );
}

function joinedDims(called: string, parts: readonly Feed[]): number[] {
  const [first] = parts;
  if (first === undefined) throw invalid(`${called} is an empty list; it needs a tensor at least`);
  // One may have no dimensions.
  if (parts.length === 1) return [...first.dims];
  const rest = first.dims.slice(1);
  parts.forEach(({ dims }, index) => {
    if (dims.length > 0 && areSameDims(dims.slice(1), rest)) return;
    const expected =
      dims.length === 0 ? 'dims with at least one' : `[any, ${rest.join(', ')}], as the first has`;
    throw mismatch(`${called}[${index}].dims`, expected, dims);
  });
  return [parts.reduce((sum, { dims }) => sum + dims[0]!, 0), ...rest];
}

/** The parts in memory of their own, one after the other. */
function joined(type: DataType, parts: readonly TypedArray[]): TypedArray {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const whole = newArray(type, [length], 'an input');
  let end = 0;
  for (const bytes of parts.map(bytesUnder)) {
    bytesUnder(whole).set(bytes, end);
    end += bytes.length;
  }
  return whole;
}

/** The elements of a tensor in CPU memory, float16 as bits. */
export function checkData(
  called: string,
  data: unknown,
  type: DataType,
  dims: readonly number[],
): TypedArray {
  const kinds = arraysOf(type);
  if (!kinds.includes(kindOf(data) ?? '')) throw mismatch(`${called}.data`, `a ${kinds.join(' or ')}`, data);
  checkElements(`${called}.`, data as TypedArray, dims, arrayLength(type, elementCount(dims)));
  return type === 'float16' ? bitsOf(data as TypedArray) : (data as TypedArray);
}

/** Those of a tensor that says it is in a GPU's memory. */
export function residentElements(called: string, tensor: object, place: Place): NativeGpuBuffer {
  const given = readOnGpu(called, tensor);
  if (given.place === place) return given.elements;
  throw invalid(
    `${called} is on '${given.place}' and the session on '${place}'; await its to('${place}') first`,
  );
}

export function readDims(name: string, value: unknown, shape: ValueInfo['shape']): number[] {
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;
  const dims = checkIntegers(name, value, 'any', range, 'a list of non-negative integers');
  if (shape !== undefined && !fitsShape(dims, shape)) {
    const expected = shape.map((extent) => extent ?? '?').join(', ');
    throw mismatch(name, `[${expected}] as the model says`, dims);
  }
  return dims;
}

/** Whether they are what a model asks for. A scalar may come with any number of dims of 1: onnxruntime checks none, and programs give [1]. */
export function fitsShape(dims: readonly number[], shape: readonly Extent[]): boolean {
  if (shape.length === 0) return elementCount(dims) === 1;
  if (shape.length !== dims.length) return false;
  for (let axis = 0; axis < shape.length; axis++) {
    const extent = shape[axis];
    if (typeof extent === 'number' && extent !== dims[axis]) return false;
  }
  return true;
}

export function hasSharedDimensions(infos: readonly ValueInfo[]): boolean {
  const symbols = infos.flatMap(({ shape = [] }) => shape.filter((extent) => typeof extent === 'string'));
  return new Set(symbols).size < symbols.length;
}

/** Dimensions of one name have one extent. */
export function requireConsistent(infos: readonly ValueInfo[], feeds: readonly Feed[]): void {
  const conflict = findConflict(
    infos,
    feeds.map(({ dims }) => dims),
  );
  if (conflict === undefined) return;
  const { name, symbol, extent, known } = conflict;
  throw invalid(
    `feeds.${name}.dims has ${extent} for the dimension '${symbol}', which another feed has as ${known}`,
  );
}

export function findConflict(infos: readonly ValueInfo[], dims: readonly (readonly number[])[]) {
  const extents = new Map<string, number>();
  for (const [i, { name, shape = [] }] of infos.entries()) {
    for (const [axis, symbol] of shape.entries()) {
      if (typeof symbol !== 'string') continue;
      const extent = dims[i]![axis]!;
      const known = extents.get(symbol) ?? extent;
      if (known !== extent) return { name, symbol, extent, known };
      extents.set(symbol, extent);
    }
  }
  return undefined;
}
