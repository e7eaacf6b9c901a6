/** What a model is given where its user brings no inputs: dims where the file leaves them open, and elements. */
import { Misuse } from './command';
import { invalid } from '../check';
import { nearest } from '../nearest';
import type { ValueMetadata } from '../model/metadata';
import { WarpconvError } from '../errors';
import { typedArray } from '../model/typed_constants';
import { allocate } from '../tensor/allocation';
import type { DataType } from '../tensor/data_types';
import { arrayLength, packedBits } from '../tensor/packed';
import { CONSTRUCTORS } from '../tensor/tensor';
import type { TypedArray } from '../tensor/typed_array';

/** What the user says of the inputs. */
export interface Request {
  readonly batch: number | undefined;
  /** By the input; that of the only one may have the empty name */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  /** Of open dimensions, by their names */
  readonly extents: ReadonlyMap<string, number>;
  /** The number that all elements are, by the input */
  readonly fills: ReadonlyMap<string, number>;
}

export interface PlannedInput {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly fill?: number;
}

export interface InputPlan {
  readonly inputs: readonly PlannedInput[];
  /** Extents that nobody gave, for example `batch = 1` */
  readonly assumed: readonly string[];
}

/** A dimension that the model leaves open, or several of one name */
interface OpenDimension {
  readonly kind: 'batch' | 'side' | 'samples' | 'length';
  /** Undefined where nobody said it */
  given: number | undefined;
}

const DEFAULTS = { batch: 1, side: 224, samples: 512, length: 128 } as const;

/** To another extent that a network of that kind probably takes, too */
const STEPS = { batch: 1, side: 32, samples: 512, length: 16 } as const;

/**
 * The dims that a model's inputs get.
 *
 * @param unranked - names of the inputs whose rank the model does not give. Their `shape` is empty, like a scalar's
 * @throws {@link Misuse} for names that the model does not have, `ERR_WARPCONV_INVALID_ARGUMENT` where a rank is not known
 */
export function planInputs(
  infos: readonly ValueMetadata[],
  request: Request,
  unranked: readonly string[] = [],
): InputPlan {
  const shapes = namedShapes(infos, request, unranked);
  const open = openDimensions(infos);
  if (request.batch !== undefined) giveBatch(infos, open, request.batch);
  for (const [name, extent] of request.extents) {
    const dimension = open.get(name);
    if (dimension === undefined) throw new Misuse(unknown('dim', name, [...open.keys()]));
    requireOne(name, dimension.given, extent);
    dimension.given = extent;
  }
  takeFromShapes(infos, shapes, open);
  requireNames('fill', [...request.fills.keys()], infos);
  requireFills(infos, request.fills);
  return { inputs: inputsOf(infos, open, shapes, request.fills), assumed: assumed(open) };
}

/** The same inputs with one open dimension of another extent, for each of those dimensions; batches first. */
export function otherPlans(
  infos: readonly ValueMetadata[],
  { inputs }: InputPlan,
): { readonly change: string; readonly inputs: readonly PlannedInput[] }[] {
  const open = [...openDimensions(infos)];
  open.sort(([, a], [, b]) => Number(b.kind === 'batch') - Number(a.kind === 'batch'));
  return open.map(([name, { kind }]) => {
    const isIt = (i: number, axis: number) =>
      typeof infos[i]!.shape[axis] === 'string' && nameOf(infos[i]!, axis) === name;
    const others = inputs.map((input, i) => ({
      ...input,
      dims: input.dims.map((extent, axis) => (isIt(i, axis) ? extent + STEPS[kind] : extent)),
    }));
    return { change: `${name} + ${STEPS[kind]}`, inputs: others };
  });
}

function namedShapes(
  infos: readonly ValueMetadata[],
  { shapes }: Request,
  unranked: readonly string[],
): ReadonlyMap<string, readonly number[]> {
  const only = infos.length === 1 ? infos[0]!.name : undefined;
  if (shapes.has('') && only === undefined) {
    throw new Misuse(`--shape needs the name of an input, as in ${infos[0]?.name ?? 'x'}=1x3x224x224`);
  }
  const named = new Map([...shapes].map(([name, dims]) => [name || only!, dims] as const));
  requireNames('shape', [...named.keys()], infos);
  for (const { name, shape } of infos) {
    const dims = named.get(name);
    if (unranked.includes(name)) {
      if (dims === undefined) throw withoutRank(name);
      continue;
    }
    if (dims === undefined) continue;
    const fits =
      dims.length === shape.length && shape.every((one, i) => typeof one === 'string' || one === dims[i]);
    if (fits) continue;
    throw new Misuse(
      `--shape gives '${name}' the dims ${dims.join('x') || 'of a scalar'}, and the model takes [${shape.map((one) => one || '?').join(', ')}]`,
    );
  }
  return named;
}

function withoutRank(name: string): WarpconvError {
  return invalid(
    `the model does not say how many dims '${name}' has; give it some as in --shape ${name}=1x3x224x224, or --shape ${name}=scalar`,
  );
}

function requireNames(option: string, names: readonly string[], infos: readonly ValueMetadata[]): void {
  const known = infos.map(({ name }) => name);
  for (const name of names) if (!known.includes(name)) throw new Misuse(unknown(option, name, known));
}

function requireOne(name: string, extent: number | undefined, other: number): void {
  if (extent === undefined || extent === other) return;
  throw new Misuse(
    `dimension '${name}' is to be ${extent} and ${other}; say it once, by --batch, --dim or --shape`,
  );
}

/** Integers would be cut and wrap around. */
function requireFills(infos: readonly ValueMetadata[], fills: Request['fills']): void {
  for (const { name, type } of infos) {
    const fill = fills.get(name);
    if (fill === undefined || isFloat(type) || has(type, fill)) continue;
    throw new Misuse(`--fill: input '${name}' has elements of ${type}, which cannot be ${fill}`);
  }
}

function has(type: DataType, integer: number): boolean {
  return Number.isInteger(integer) && Number(typedArray(type, [integer])[0]) === integer;
}

const isFloat = (type: DataType) => type.startsWith('float') || type === 'bfloat16';

function unknown(option: string, name: string, known: readonly string[]): string {
  const what = option === 'dim' ? 'open dimension' : 'input';
  if (known.length === 0) return `--${option}: the model has no ${what}`;
  const meant = nearest(name, known);
  const rest = meant === undefined ? `it has ${known.join(', ')}` : `did you mean '${meant}'?`;
  return `--${option}: the model has no ${what} '${name}'; ${rest}`;
}

function openDimensions(infos: readonly ValueMetadata[]): Map<string, OpenDimension> {
  const open = new Map<string, OpenDimension>();
  for (const info of infos) {
    info.shape.forEach((extent, axis) => {
      const name = nameOf(info, axis);
      if (typeof extent === 'string' && !open.has(name))
        open.set(name, { kind: kindOf(info, axis), given: undefined });
    });
  }
  return open;
}

/** The model's own name of a dimension, or one made of its place. */
function nameOf(info: ValueMetadata, axis: number): string {
  const extent = info.shape[axis];
  if (typeof extent === 'string' && extent !== '') return extent;
  return kindOf(info, axis) === 'batch' ? 'batch' : `${info.name}[${axis}]`;
}

function kindOf(info: ValueMetadata, axis: number): OpenDimension['kind'] {
  const { type, shape } = info;
  const name = String(shape[axis]);
  // Recurrent networks have it behind their layers.
  if (name === '' && axis === 1 && /state|hidden|cell|^[hc]([0n]|_.*)?$/i.test(info.name)) return 'batch';
  if (/batch|^(n|b|bs)$/i.test(name)) return 'batch';
  if (axis === 0 && !/seq|len|time|frame|sample|token/i.test(name)) return 'batch';
  const isImage =
    shape.length === 4 && [shape[1], shape[3]].some((channels) => channels === 1 || channels === 3);
  if (isImage) return 'side';
  return type.startsWith('float') && shape.length <= 2 ? 'samples' : 'length';
}

function giveBatch(
  infos: readonly ValueMetadata[],
  open: ReadonlyMap<string, OpenDimension>,
  batch: number,
): void {
  const batches = [...open.values()].filter(({ kind }) => kind === 'batch');
  for (const dimension of batches) dimension.given = batch;
  const [first] = infos;
  if (batches.length > 0 || first === undefined) return;
  throw new Misuse(
    `--batch needs a dimension that the model leaves open for it, and input '${first.name}' is [${first.shape.join(', ')}]`,
  );
}

/** What --shape says of a named dimension holds for the other inputs. */
function takeFromShapes(
  infos: readonly ValueMetadata[],
  shapes: ReadonlyMap<string, readonly number[]>,
  open: ReadonlyMap<string, OpenDimension>,
): void {
  const said = new Map([...open].map(([name, { given }]) => [name, given]));
  for (const info of infos) {
    shapes.get(info.name)?.forEach((extent, axis) => {
      if (typeof info.shape[axis] !== 'string') return;
      const name = nameOf(info, axis);
      requireOne(name, said.get(name), extent);
      open.get(name)!.given ??= extent;
    });
  }
}

function inputsOf(
  infos: readonly ValueMetadata[],
  open: ReadonlyMap<string, OpenDimension>,
  shapes: ReadonlyMap<string, readonly number[]>,
  fills: ReadonlyMap<string, number>,
): PlannedInput[] {
  return infos.map((info) => {
    const { name, type, shape } = info;
    const dims = shape.map((extent, axis) => {
      if (typeof extent === 'number') return extent;
      const { kind, given } = open.get(nameOf(info, axis))!;
      return given ?? DEFAULTS[kind];
    });
    const fill = fills.get(name);
    return { name, type, dims: shapes.get(name) ?? dims, ...(fill !== undefined && { fill }) };
  });
}

function assumed(open: ReadonlyMap<string, OpenDimension>): string[] {
  return [...open]
    .filter(([, { given }]) => given === undefined)
    .map(([name, { kind }]) => `${name} = ${DEFAULTS[kind]}`);
}

/** Elements that are made at once: V8's arrays take several times the memory of typed ones. */
const BLOCK = 65_536;

/**
 * Numbers from 0 to 1, or integers that are likely to mean something; the same for every run.
 *
 * @throws `ERR_WARPCONV_OUT_OF_MEMORY`
 */
export function elementsOf({ name, type, dims, fill }: PlannedInput): TypedArray {
  const length = arrayLength(
    type,
    dims.reduce((all, extent) => all * extent, 1),
  );
  const Elements = CONSTRUCTORS[type] as Float32ArrayConstructor;
  const purpose = { what: `input '${name}'`, dims, bytes: length * Elements.BYTES_PER_ELEMENT };
  const elements = allocate(purpose, () => new Elements(length));
  const element = fill === undefined ? elementMaker(name, type, dims) : () => fill;
  for (let at = 0; at < length; at += BLOCK) {
    const block = Array.from({ length: Math.min(BLOCK, length - at) }, (_, i) => element(at + i));
    elements.set(typedArray(type, block) as Float32Array, at);
  }
  return elements;
}

function elementMaker(name: string, type: DataType, dims: readonly number[]): (index: number) => number {
  if (type === 'bool' || /mask/i.test(name)) return () => 1;
  const random = randomNumbers();
  if (isFloat(type)) return random;
  if (packedBits(type) !== undefined) return () => 0;
  if (type === 'uint8') return () => Math.floor(random() * 256);
  if (type === 'int8') return () => Math.floor(random() * 256) - 128;
  if (/^sr$|rate/i.test(name)) return () => 16_000;
  if (/size|shape/i.test(name)) return () => DEFAULTS.side;
  if (/position/i.test(name)) return (index) => index % (dims.at(-1) ?? 1);
  if (/type|segment/i.test(name)) return () => 0;
  if (/len/i.test(name)) return () => 1;
  // Of tokens: small ones are in every vocabulary.
  return (index) => index % 10;
}

/** A linear congruential generator: the same everywhere. */
function randomNumbers(): () => number {
  let state = 1;
  return () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

/** For example `input 1x512, sr scalar` */
export function describeInputs(inputs: readonly PlannedInput[]): string {
  const list = inputs.map(({ name, dims }) => `${name} ${dims.join('x') || 'scalar'}`);
  return list.join(', ') || 'no inputs';
}

/** The extents that were assumed, as a line; empty where none were. */
export function describeAssumed(plan: InputPlan): string {
  if (plan.assumed.length === 0) return '';
  return `assumed: ${plan.assumed.join(', ')} (set by --batch, --dim or --shape)\n`;
}

/** The error of a run, with the extents that were assumed for it: they may be why it failed. */
export function withAssumed(error: unknown, plan: InputPlan): unknown {
  if (!(error instanceof WarpconvError) || plan.assumed.length === 0) return error;
  return new WarpconvError(error.code, `${error.message}; ${describeAssumed(plan).trimEnd()}`, {
    cause: error,
  });
}
