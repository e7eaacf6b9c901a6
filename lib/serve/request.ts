/** From the bytes of an inference request to the tensors for the session, each checked against the model. */
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';

import {
  alternatives,
  checkBoolean,
  checkInteger,
  checkIntegers,
  describe,
  elementCount,
  invalid,
  isObject,
  mismatch,
  plural,
} from '../check';
import type { TypedArray } from '../tensor/typed_array';
import type { Datatype } from './datatypes';
import { readEncoding, type Encoding } from './encodings';
import { checkLength, ElementSink, notNested, parseJson, parseLongList, type LongLists } from './json';
import type { ImageSpec, ModelDescription, ValueSpec } from './model';
import { USUAL_URGENCY } from './queue';
import { Refusal } from './refusal';
import type { InputTensor } from './tensors';

export interface RequestedOutput {
  readonly spec: ValueSpec;
  readonly binary: boolean;
}

export interface InferRequest {
  readonly id: string | undefined;
  /** Every input of the model. */
  readonly inputs: ReadonlyMap<string, InputTensor>;
  /** In the order in which they are answered. */
  readonly outputs: readonly RequestedOutput[];
  /** Milliseconds after which nobody waits for an answer, counted from the first byte; `undefined` where it is not said */
  readonly timeout: number | undefined;
}

/** What headers say of when a request is to be answered. */
export interface Timing {
  /** From 0, which goes first, to 7 */
  readonly urgency: number;
  /** Milliseconds, as {@link InferRequest.timeout} */
  readonly timeout: number | undefined;
}

const TIMEOUT = 'Request-Timeout-Ms';

/** RFC 8941: an item, and a member of a dictionary with its parameters */
const ITEM = String.raw`(?:-?\d{1,12}\.\d{1,3}|-?\d{1,15}|"(?:[ !#-\[\]-~]|\\["\\])*"|[A-Za-z*][!#-'*+\-.^-z|~:/]*|\?[01]|:[\w+/=]*:)`;
const KEY = '[a-z*][a-z0-9_.*-]*';
const MEMBER = new RegExp(
  `(${KEY})(?:=(${ITEM}|\\([^()]*\\)))?(?: *; *${KEY}(?:=${ITEM})?)*[ \\t]*(,[ \\t]*(?=.)|$)`,
  'y',
);

/** The member `u` of a dictionary, of which the last one counts. */
function readUrgency(header: string): number {
  const text = header.trim();
  let found: string | undefined;
  for (let end = 0; end < text.length; end = MEMBER.lastIndex) {
    MEMBER.lastIndex = end;
    const [, key, value] = MEMBER.exec(text) ?? [];
    if (key === undefined) return USUAL_URGENCY;
    if (key === 'u') found = value;
  }
  return found !== undefined && /^0*[0-7]$/.test(found) ? Number(found) : USUAL_URGENCY;
}

/**
 * Reads `Priority` (RFC 9218), of which only `u` counts, and `Request-Timeout-Ms`. As that RFC has it, a priority that is
 * none is as good as left out.
 */
export function readTiming(headers: IncomingHttpHeaders): Timing {
  const given = headers[TIMEOUT.toLowerCase()];
  if (given !== undefined && !/^[1-9]\d{0,8}$/.test(String(given)))
    throw mismatch(TIMEOUT, 'a positive number of milliseconds', given);
  return {
    urgency: readUrgency(String(headers.priority ?? '')),
    timeout: given === undefined ? undefined : Number(given),
  };
}

type JsonObject = Readonly<Record<string, unknown>>;

const POSITIVE = { min: 1, max: Number.MAX_SAFE_INTEGER } as const;
const NON_NEGATIVE = { min: 0, max: Number.MAX_SAFE_INTEGER } as const;
const CONTENT_TYPES = ['application/json', 'application/octet-stream'];
/** Of bodies that are an image */
const IMAGE_TYPES = ['image/jpeg', 'image/png', 'image/webp'];
const HEADER_LENGTH = 'Inference-Header-Content-Length';

/** What the headers of a request say of its body. */
export interface Framing {
  /** Whether the whole body is an encoded image. */
  readonly isImage: boolean;
  /** `undefined` where it is sent as it is. All else that is said here is of the decoded body. */
  readonly encoding: Encoding | undefined;
  /** Length of the JSON in front of binary tensors; `undefined` where the whole body is JSON. */
  readonly headerLength: number | undefined;
  readonly maxBytes: number;
}

export interface BodyLimits {
  readonly maxBodyBytes: number;
  readonly maxJsonBytes: number;
}

/** Checks what can be checked before the body is read. */
export function readHeaders(
  headers: IncomingHttpHeaders,
  limits: BodyLimits,
  { image }: Pick<ModelDescription, 'image'>,
): Framing {
  const type = headers['content-type']?.split(';')[0]!.trim().toLowerCase();
  const types = image === undefined ? CONTENT_TYPES : [...CONTENT_TYPES, ...IMAGE_TYPES];
  if (type !== undefined && !types.includes(type)) {
    const remedy = IMAGE_TYPES.includes(type) ? "; images need 'image' in the options of the model" : '';
    throw new Refusal(415, `Content-Type must be ${alternatives(types)}, got ${describe(type)}${remedy}`);
  }
  const isImage = type !== undefined && IMAGE_TYPES.includes(type);
  const encoding = readEncoding(headers);
  const headerLength = readHeaderLength(headers[HEADER_LENGTH.toLowerCase()]);
  if (isImage) return { isImage, encoding, headerLength: undefined, maxBytes: limits.maxBodyBytes };
  if (headerLength === undefined) {
    return { isImage, encoding, headerLength, maxBytes: Math.min(limits.maxBodyBytes, limits.maxJsonBytes) };
  }
  if (headerLength <= limits.maxJsonBytes)
    return { isImage, encoding, headerLength, maxBytes: limits.maxBodyBytes };
  throw new Refusal(413, `${HEADER_LENGTH} is ${headerLength}; JSON may have ${limits.maxJsonBytes} bytes`);
}

function readHeaderLength(length: string | string[] | undefined): number | undefined {
  if (length === undefined) return undefined;
  if (typeof length === 'string' && /^\d{1,15}$/.test(length)) return Number(length);
  throw mismatch(HEADER_LENGTH, 'a number of bytes', length);
}

/**
 * Decodes a request. Tensors that came as binary data are views of the body where their alignment allows it.
 *
 * @param turn - lets the event loop turn; may reject to end it
 */
export async function decodeRequest(
  model: ModelDescription,
  body: Buffer,
  headerLength: number | undefined,
  turn: () => Promise<void>,
): Promise<InferRequest> {
  const jsonLength = headerLength ?? body.length;
  if (jsonLength > body.length) {
    throw invalid(`${HEADER_LENGTH} is ${jsonLength}, and the body has ${plural(body.length, 'byte')}`);
  }
  const { request, lists } = readJson(model, body.subarray(0, jsonLength));
  const source = { binary: new BinaryTensors(body.subarray(jsonLength)), lists, turn };
  const inputs = await readInputs(model, request.inputs, source);
  source.binary.checkAllTaken();
  lists.requireAllTaken();
  const parameters = readParameters('parameters', request.parameters);
  const id = readId(request.id);
  const outputs = readOutputs(model, request, parameters);
  return { id, inputs, outputs, timeout: readTimeout(parameters.timeout) };
}

/** Triton's parameter, in microseconds; 0 is none. */
function readTimeout(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const microseconds = checkInteger('parameters.timeout', value, NON_NEGATIVE);
  return microseconds === 0 ? undefined : microseconds / 1000;
}

/** Where elements come from that are not in the parsed JSON. */
interface Source {
  readonly binary: BinaryTensors;
  readonly lists: LongLists;
  readonly turn: () => Promise<void>;
}

function readJson(
  { inputs, outputs }: ModelDescription,
  text: Buffer,
): { readonly request: JsonObject; readonly lists: LongLists } {
  if (text.length === 0) throw invalid('the body is empty; it must be the JSON of an inference request');
  if (!isUtf8(text)) throw invalid('the JSON of the request is not UTF-8');
  const { value, lists } = parseJson(text, inputs.length + outputs.length);
  return { request: checkObject('the request', value), lists };
}

/** What a member says: one that is null says as much as one that is left out, which is how some clients write it. */
function present(value: unknown): unknown {
  return value ?? undefined;
}

function checkObject(name: string, value: unknown): JsonObject {
  if (isObject(value) && !Array.isArray(value)) return value as JsonObject;
  throw mismatch(name, 'an object', value);
}

function checkList(name: string, value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw mismatch(name, 'a list', value);
}

function readId(value: unknown): string | undefined {
  const id = present(value);
  if (id === undefined || typeof id === 'string') return id;
  throw mismatch('id', 'a string', id);
}

const NONE: JsonObject = Object.freeze(Object.create(null) as JsonObject);

/** Parameters are the protocol's way of extending it: unknown ones are ignored, save those that would change the answer. */
function readParameters(name: string, value: unknown, unsupported: readonly string[] = []): JsonObject {
  if (present(value) === undefined) return NONE;
  const given = checkObject(name, value);
  // Without those that are null, and without what every object inherits.
  const parameters = Object.create(null) as Record<string, unknown>;
  for (const key of Object.keys(given)) {
    if (given[key] !== null) parameters[key] = given[key];
  }
  const found = unsupported.find((key) => key in parameters);
  if (found !== undefined) throw invalid(`${name}.${found} is not supported`);
  return parameters;
}

/** The bytes behind the JSON, which tensors take in the order of the inputs. */
class BinaryTensors {
  #offset = 0;

  constructor(readonly bytes: Buffer) {}

  take(name: string, size: number): Buffer {
    const left = this.bytes.length - this.#offset;
    if (size > left)
      throw invalid(`${name} is ${size}, and the body has ${plural(left, 'byte')} of data left`);
    this.#offset += size;
    return this.bytes.subarray(this.#offset - size, this.#offset);
  }

  checkAllTaken(): void {
    const left = this.bytes.length - this.#offset;
    if (left > 0)
      throw invalid(`the body has ${plural(left, 'byte')} of data that no input's binary_data_size asks for`);
  }
}

async function readInputs(
  model: ModelDescription,
  value: unknown,
  source: Source,
): Promise<Map<string, InputTensor>> {
  const inputs = new Map<string, InputTensor>();
  // Extents by their symbolic names, which mean the same in all inputs.
  const extents = new Map<string, number>();
  for (const [index, entry] of checkList('inputs', value).entries()) {
    const at = `inputs[${index}]`;
    const input = checkObject(at, entry);
    const named = findSpec(`${at}.name`, 'input', model.inputs, input.name);
    const spec = model.image !== undefined && isAsImage(model.image, named, input) ? model.image.spec : named;
    if (inputs.has(spec.name))
      throw invalid(`${at}.name is '${spec.name}', which an input before it has too`);
    inputs.set(spec.name, await readInput(at, input, spec, extents, source));
  }
  const missing = model.inputs.find(({ name }) => !inputs.has(name));
  if (missing !== undefined) throw invalid(`inputs lacks '${missing.name}', which the model needs`);
  return inputs;
}

function isAsImage({ spec }: ImageSpec, { name }: ValueSpec, { datatype }: JsonObject): boolean {
  return spec.name === name && spec.datatype.name === datatype;
}

function findSpec(at: string, kind: string, specs: readonly ValueSpec[], name: unknown): ValueSpec {
  const spec = specs.find((candidate) => candidate.name === name);
  if (spec !== undefined) return spec;
  throw mismatch(at, `an ${kind} of the model: ${alternatives(specs.map((one) => one.name))}`, name);
}

async function readInput(
  at: string,
  input: JsonObject,
  spec: ValueSpec,
  extents: Map<string, number>,
  source: Source,
): Promise<InputTensor> {
  const { datatype } = spec;
  if (input.datatype !== datatype.name) {
    throw mismatch(`${at}.datatype`, `'${datatype.name}' for '${spec.name}'`, input.datatype);
  }
  const dims = checkIntegers(`${at}.shape`, input.shape, 'any', POSITIVE, 'a list of positive integers');
  checkDims(`${at}.shape`, dims, spec, extents);
  const parameters = readParameters(`${at}.parameters`, input.parameters, ['shared_memory_region']);
  const size = parameters.binary_data_size;
  const list = present(input.data);
  if ((size === undefined) === (list === undefined)) {
    const many = size === undefined ? 'neither' : 'both';
    throw invalid(`${at} must have data or parameters.binary_data_size, and has ${many}`);
  }
  const data =
    size === undefined
      ? await readElements(`${at}.data`, list, dims, spec, source)
      : viewElements(`${at}.parameters.binary_data_size`, size, dims, spec, source.binary);
  return { type: datatype.type, dims, data, location: 'cpu' };
}

function readElements(
  at: string,
  value: unknown,
  dims: readonly number[],
  { datatype }: ValueSpec,
  { lists, turn }: Source,
): TypedArray | Promise<TypedArray> {
  const list = lists.take(value);
  if (list !== undefined) return parseLongList(at, list, dims, datatype, turn);
  return parseElements(at, checkList(at, value), dims, datatype);
}

const NO_EXTENTS: ReadonlyMap<string, number> = new Map();

function checkDims(at: string, dims: readonly number[], spec: ValueSpec, extents: Map<string, number>): void {
  const before = extents.size === 0 ? NO_EXTENTS : new Map(extents);
  const fits =
    dims.length === spec.dims.length &&
    dims.every((extent, axis) => {
      const wanted = spec.dims[axis]!;
      if (typeof wanted === 'number') return extent === wanted;
      if (wanted === '') return true;
      const known = extents.get(wanted) ?? extent;
      extents.set(wanted, known);
      return extent === known;
    });
  if (!fits) throw mismatch(at, `${shapeText(spec, before)} for '${spec.name}'`, dims);
}

/** For example `[N = 2, 3, 'height', 'width', any]`: names that an input before had an extent for come with it. */
function shapeText({ dims }: ValueSpec, extents: ReadonlyMap<string, number>): string {
  const texts = dims.map((extent) => {
    if (extent === '') return 'any';
    const known = extents.get(extent as string);
    return known === undefined ? extent : `${extent} = ${known}`;
  });
  return `[${texts.join(', ')}]`;
}

function viewElements(
  at: string,
  value: unknown,
  dims: readonly number[],
  { datatype }: ValueSpec,
  binary: BinaryTensors,
): TypedArray {
  const size = checkInteger(at, value, NON_NEGATIVE);
  const count = elementCount(dims);
  if (size !== count * datatype.bytes) {
    throw invalid(
      `${at} is ${size}; shape ${describe(dims)} of ${datatype.name} needs ${count * datatype.bytes}`,
    );
  }
  const bytes = binary.take(at, size);
  if (datatype.name === 'BOOL' && bytes.some((byte) => byte > 1)) {
    throw invalid(`${at}: the bytes of a BOOL tensor must be 0 or 1`);
  }
  const aligned = bytes.byteOffset % datatype.bytes === 0 ? bytes : new Uint8Array(bytes);
  return new datatype.Elements(aligned.buffer, aligned.byteOffset, count);
}

/** Reads elements from a flat list, or from lists nested as the shape is. */
function parseElements(
  at: string,
  list: readonly unknown[],
  dims: readonly number[],
  datatype: Datatype,
): TypedArray {
  const isNested = dims.length > 1 && Array.isArray(list[0]);
  const flat = isNested ? flatten(at, list, dims) : list;
  checkLength(at, flat.length, dims);
  const sink = new ElementSink(at, dims, datatype);
  sink.add(flat);
  return sink.end();
}

function flatten(at: string, list: readonly unknown[], dims: readonly number[]): unknown[] {
  let level: readonly unknown[] = [list];
  for (const extent of dims) {
    const next: unknown[] = [];
    for (const part of level) {
      if (!Array.isArray(part) || part.length !== extent) throw notNested(at, dims, extent, describe(part));
      for (const element of part) next.push(element);
    }
    level = next;
  }
  return level as unknown[];
}

function readOutputs(
  model: ModelDescription,
  request: JsonObject,
  { binary_data_output: all = false }: JsonObject,
): RequestedOutput[] {
  const binaryByDefault = checkBoolean('parameters.binary_data_output', all);
  const asked = present(request.outputs);
  if (asked === undefined) {
    return model.outputs.map((spec) => ({ spec, binary: binaryByDefault }));
  }
  const list = checkList('outputs', asked);
  if (list.length === 0) throw invalid('outputs is empty; name an output, or leave it away for all');
  const outputs = list.map((entry, index) => readOutput(`outputs[${index}]`, entry, model, binaryByDefault));
  const names = outputs.map(({ spec }) => spec.name);
  const twice = names.findIndex((name, index) => names.indexOf(name) < index);
  if (twice >= 0)
    throw invalid(`outputs[${twice}].name is '${names[twice]}', which an output before it has too`);
  return outputs;
}

function readOutput(
  at: string,
  entry: unknown,
  model: ModelDescription,
  binaryByDefault: boolean,
): RequestedOutput {
  const output = checkObject(at, entry);
  const spec = findSpec(`${at}.name`, 'output', model.outputs, output.name);
  const unsupported = ['shared_memory_region', 'classification'];
  const parameters = readParameters(`${at}.parameters`, output.parameters, unsupported);
  const { binary_data: binary = binaryByDefault } = parameters;
  return { spec, binary: checkBoolean(`${at}.parameters.binary_data`, binary) };
}
