/**
 * What a network computes of one row, where its rows (the positions of dimension 0) are proved to be kept apart.
 *
 * For inputs of so many rows, every tensor of the lowered network is followed through its steps. It is made of equal
 * blocks, one for each row and computed from that row's blocks alone, or the same for all rows, or neither. In the last
 * case there is no proof. Otherwise a tensor has a name that says how one row of it is computed, whatever the number of
 * rows: two numbers of rows for which the outputs have the same names compute the same function of a row.
 *
 * Steps are looked at before they are fused and placed in memory: what is fused depends on the number of rows.
 */
import { hash } from 'node:crypto';

import { WarpconvError } from '../errors';
import { atOnce } from '../slices';
import { packedBits } from '../tensor/packed';
import { Builder } from './builder';
import { lowerGraph, withoutDead } from './compile';
import { Constants } from './constants';
import type { ConstantTensor, Graph } from './graph';
import { ValueNeeded } from './lowering';
import { buffersRead, type Step } from './steps';
import { bytesOf, coalesce, sizeOf, type Operand, type Storage, type Value } from './values';

/** There may be a way in which rows depend on each other. */
class NotProved extends Error {}

/**
 * A name for what the network computes of one row when its inputs have these dims, with as many rows each; `undefined`
 * where rows are not proved to be independent, or where there is no network for these dims. Equal names mean equal
 * functions. A row by itself always has one. `constants` are those of the session.
 *
 * This lowers the graph, on the calling thread, and looks at no elements but those of constants that were computed.
 */
export function rowFunction(
  graph: Graph,
  dims: ReadonlyMap<string, readonly number[]>,
  constants = new Constants(graph.constants.values()),
): string | undefined {
  try {
    return nameFunction(graph, dims, constants);
  } catch (error) {
    const isExpected =
      error instanceof NotProved || error instanceof ValueNeeded || error instanceof WarpconvError;
    if (isExpected) return undefined;
    throw error;
  }
}

function nameFunction(
  graph: Graph,
  dims: ReadonlyMap<string, readonly number[]>,
  constants: Constants,
): string {
  const build = new Builder('auto', constants);
  const { inputs, outputs } = atOnce(lowerGraph(graph, { dims, constants: new Map() }, build));
  const [rows = 0] = inputs[0]?.value.dims ?? [];
  // Rows of packed types may meet in a byte.
  const isInRows = ({ type, dims: [extent] }: Value) =>
    extent === rows && rows > 0 && packedBits(type) === undefined;
  const ports = [...inputs.map(({ value }) => value), ...outputs];
  if (!ports.every(isInRows)) throw new NotProved('an input or output has other rows');
  const tensors = new Tensors(rows, graph.constants.values(), constants);
  inputs.forEach(({ port }, i) => tensors.bring(port, `input ${i}`));
  const wanted = new Set(outputs.map(({ operand }) => operand.storage));
  tensors.follow(atOnce(withoutDead(build.steps, wanted)).map(({ step }) => step));
  const names = outputs.map((value) => {
    const place = tensors.read(dense(value.operand, sizeOf(value.dims), rows, bytesOf(value.type)), rows);
    return [place, value.dims.slice(1)];
  });
  return nameOf(names);
}

/** Bytes from an offset on: of a tensor that is named, in a row or for all of them. */
interface Place {
  readonly root: string;
  readonly offset: number;
}

/** What is known of the tensors so far. */
class Tensors {
  readonly #rows: number;
  /** Where a row of a storage is */
  readonly #inRows = new Map<Storage, Place>();
  /** Storages that are the same for all rows */
  readonly #shared = new Map<Storage, Place>();
  /** The memory of the model's own constants, which need not be read to be told apart */
  readonly #ofModel = new Map<ArrayBufferLike, number>();

  constructor(
    rows: number,
    ofModel: Iterable<ConstantTensor>,
    private readonly constants: Constants,
  ) {
    this.#rows = rows;
    for (const { data } of ofModel) {
      if (!this.#ofModel.has(data.buffer)) this.#ofModel.set(data.buffer, this.#ofModel.size);
    }
  }

  /** An input of the network. */
  bring(storage: Storage, name: string): void {
    this.#inRows.set(storage, { root: name, offset: 0 });
  }

  /** Names what these steps write. */
  follow(steps: readonly Step<Operand>[]): void {
    const last = new Map(steps.map(({ output }, index) => [output.storage, index]));
    const writers = new Map<Storage, Step<Operand>[]>();
    steps.forEach((step, index) => {
      const { storage } = step.output;
      const all = writers.get(storage) ?? [];
      writers.set(storage, all);
      all.push(step);
      if (last.get(storage) === index) this.#name(storage, all);
    });
  }

  /** Names a storage, after the last step that writes to it. What is read before has no name yet, so that there is no proof. */
  #name(storage: Storage, writers: readonly Step<Operand>[]): void {
    const isShared = writers.every((step) => buffersRead(step).every((operand) => this.#isShared(operand)));
    if (!isShared) {
      this.#inRows.set(storage, this.#describe(storage, writers, this.#rows));
      return;
    }
    this.#shared.set(storage, this.#describe(storage, writers, 1));
    if (this.#rows === 1) return;
    try {
      this.#inRows.set(storage, this.#describe(storage, writers, this.#rows));
    } catch (error) {
      // As a whole it can be used all the same.
      if (!(error instanceof NotProved)) throw error;
    }
  }

  #isShared({ storage }: Operand): boolean {
    return storage.data !== undefined || this.#shared.has(storage);
  }

  #describe(storage: Storage, writers: readonly Step<Operand>[], rows: number): Place {
    const writes = writers.map((step) => {
      const { fields, reads, write } = rowOf(step, rows);
      if (reads.length !== buffersRead(step).length)
        throw new NotProved('a step reads what no rule knows of');
      const places = reads.map((access) => this.read(access, rows));
      return { step, fields, places, write: requireInRow(write, rows) };
    });
    const [{ step, fields, places, write }] = writes as [(typeof writes)[number]];
    if (writes.length === 1 && write.offset === 0 && isPlainCopy(step, fields, storage.bytes / rows)) {
      return places[0]!;
    }
    const root = nameOf(
      writes.map(({ step, ...one }) => [step.kind, one.fields, one.places, one.write.offset]),
    );
    return { root, offset: 0 };
  }

  /** Where a step reads. */
  read(access: Access, rows: number): Place {
    const { operand, stride } = access;
    const isInRows = rows > 1 && stride !== 0;
    if (isInRows) requireInRow(access, rows);
    const place = isInRows ? this.#placeInRows(operand.storage) : this.#placeOf(operand.storage);
    return { root: place.root, offset: place.offset + operand.offset };
  }

  #placeInRows(storage: Storage): Place {
    const known = this.#inRows.get(storage) ?? this.#repeated(storage);
    if (known === undefined) throw new NotProved('a tensor differs from row to row, and not by the inputs');
    return known;
  }

  /** All of a storage: that of the only row, or the same for all. */
  #placeOf(storage: Storage): Place {
    const known = this.#shared.get(storage) ?? (this.#rows === 1 ? this.#inRows.get(storage) : undefined);
    if (known !== undefined) return known;
    if (storage.data === undefined) throw new NotProved('a step reads all rows for each');
    const place = { root: this.#nameConstant(storage.data, storage.isShared), offset: 0 };
    this.#shared.set(storage, place);
    return place;
  }

  /** A constant that is the same bytes for every row. */
  #repeated({ bytes, data }: Storage): Place | undefined {
    if (data === undefined) return undefined;
    const all = bytesIn(data);
    const first = all.subarray(0, bytes / this.#rows);
    // Each byte is that of the row before.
    return all.subarray(first.length).equals(all.subarray(0, -first.length))
      ? { root: nameOf(first), offset: 0 }
      : undefined;
  }

  #nameConstant(data: ArrayBufferView, isShared = false): string {
    const memory = this.#ofModel.get(data.buffer);
    if (memory !== undefined) return `constant ${memory}, ${data.byteOffset}, ${data.byteLength}`;
    const name = () => nameOf(bytesIn(data));
    return isShared ? this.constants.once(['bytes', data], name) : name();
  }
}

function bytesIn({ buffer, byteOffset, byteLength }: ArrayBufferView): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** How a step finds the rows in one of its tensors. All but `bytes` count elements. */
interface Access {
  readonly operand: Operand;
  /** Of an element */
  readonly bytes: number;
  /** From a row to the next; 0 where all rows read the same */
  readonly stride: number;
  /** The elements that the first row touches, from the operand's place on: the first and the last */
  readonly low: number;
  readonly high: number;
}

/** Rows begin where the storage's rows do, and end there. */
function requireInRow({ operand, bytes, stride, low, high }: Access, rows: number): Operand {
  const { storage, offset } = operand;
  const row = storage.bytes / rows;
  const isInRow = offset + low * bytes >= 0 && offset + (high + 1) * bytes <= row;
  if (isInRow && (rows === 1 || stride * bytes === row)) return operand;
  throw new NotProved('a step takes other parts of a tensor than its rows');
}

/** A step for one row. */
interface RowStep {
  /** All fields but the buffers */
  readonly fields: object;
  readonly reads: readonly Access[];
  readonly write: Access;
}

type Rules = {
  readonly [K in Step<Operand>['kind']]: (
    step: Extract<Step<Operand>, { readonly kind: K }>,
    rows: number,
  ) => RowStep;
};

function rowOf(step: Step<Operand>, rows: number): RowStep {
  const rule = RULES[step.kind] as (step: Step<Operand>, rows: number) => RowStep;
  return rule(step, rows);
}

function share(count: number, rows: number): number {
  if (count % rows === 0) return count / rows;
  throw new NotProved('an extent does not divide among the rows');
}

/** Elements one after the other, with rows as the outermost axis. */
function dense(operand: Operand, count: number, rows: number, bytes = FLOAT): Access {
  const each = share(count, rows);
  return { operand, bytes, stride: each, low: 0, high: each - 1 };
}

/** The same for all rows. */
function whole(...operands: readonly (Operand | null)[]): Access[] {
  return operands
    .filter((operand) => operand !== null)
    .map((operand) => ({ operand, bytes: 1, stride: 0, low: 0, high: 0 }));
}

function strided(
  operand: Operand,
  bytes: number,
  stride: number,
  extents: readonly number[],
  strides: readonly number[],
): Access {
  const ends = strides.map((step, axis) => step * (extents[axis]! - 1));
  const low = ends.reduce((sum, end) => sum + Math.min(0, end), 0);
  const high = ends.reduce((sum, end) => sum + Math.max(0, end), 0);
  return { operand, bytes, stride, low, high };
}

/** A box of positions without its rows, and how far the lists of strides go from a row to the next. */
function boxOfRow(extents: readonly number[], strides: readonly (readonly number[])[], rows: number) {
  const all = coalesce(extents, strides);
  const each = share(all.extents[0]!, rows);
  const row = coalesce([each, ...all.extents.slice(1)], all.strides);
  return { ...row, steps: all.strides.map(([outermost]) => outermost! * each) };
}

const FLOAT = 4;
const INT64 = 8;

/** [outer, reduced, inner], of which rows are part of the first axis. */
const AROUND = (step: { outer: number; reduced: number; inner: number }) =>
  step.outer * step.reduced * step.inner;

function notFollowed(): never {
  throw new NotProved('halves are not followed');
}

const RULES: Rules = {
  convolution: ({ convolution, input, weight, scale, bias, residual, output }, rows) => {
    const [n, ...map] = convolution.inputDims as [number, ...number[]];
    const count = output.storage.bytes / FLOAT;
    const added = residual === null ? [] : [dense(residual, count, rows)];
    return {
      fields: { ...convolution, inputDims: [share(n, rows), ...map] },
      reads: [dense(input, sizeOf(convolution.inputDims), rows), ...whole(weight, scale, bias), ...added],
      write: dense(output, count, rows),
    };
  },

  matmul: ({ kind: _, left, right, bias, output, ...fields }, rows) => {
    const { batch, m, n, k, leftStrides, rightStrides, biasStrides } = fields;
    // Rows are the outermost of the axes that the output has.
    const first = batch.findIndex((extent) => extent > 1);
    const axis = first < 0 ? batch.length : first;
    const axes = [...batch, m];
    const each = share(axes[axis]!, rows);
    const outer = axes.with(axis, each).slice(0, -1);
    const height = axis < batch.length ? m : each;
    const sides = {
      left: { extents: [...outer, height, k], strides: leftStrides, step: leftStrides[axis]! },
      right: {
        extents: [...outer, k, n],
        strides: rightStrides,
        step: axis < batch.length ? rightStrides[axis]! : 0,
      },
      bias: { extents: [...outer, height, n], strides: biasStrides, step: biasStrides[axis]! },
    };
    const kept = outer.map((extent) => extent > 1);
    // An axis of one position has no stride to speak of.
    const settled = ({ extents, strides }: (typeof sides)['left']) =>
      strides
        .map((stride, i) => (extents[i] === 1 ? 0 : stride))
        .filter((_, i) => i >= kept.length || kept[i]);
    const access = (operand: Operand, { extents, strides, step }: (typeof sides)['left']) =>
      strided(operand, FLOAT, step * each, extents, strides);
    return {
      fields: {
        ...fields,
        batch: outer.filter((_, i) => kept[i]),
        m: height,
        leftStrides: settled(sides.left),
        rightStrides: settled(sides.right),
        biasStrides: settled(sides.bias),
      },
      reads: [
        access(left, sides.left),
        access(right, sides.right),
        ...(bias === null ? [] : [access(bias, sides.bias)]),
      ],
      write: dense(output, sizeOf(axes) * n, rows),
    };
  },

  elementwise: ({ kind: _, extents, operands, strides, output, ...fields }, rows) => {
    const row = boxOfRow(extents, strides, rows);
    return {
      fields: { ...fields, extents: row.extents, strides: row.strides },
      reads: operands.map((operand, i) =>
        strided(operand, FLOAT, row.steps[i]!, row.extents, row.strides[i]!),
      ),
      write: dense(output, sizeOf(extents), rows),
    };
  },

  pool: ({ kind: _, input, output, ...fields }, rows) => {
    const { planes, h, w, p, q } = fields;
    return {
      fields: { ...fields, planes: share(planes, rows) },
      reads: [dense(input, planes * h * w, rows)],
      write: dense(output, planes * p * q, rows),
    };
  },

  reduce: ({ kind: _, input, output, ...fields }, rows) => ({
    fields: { ...fields, outer: share(fields.outer, rows) },
    reads: [dense(input, AROUND(fields), rows)],
    write: dense(output, fields.outer * fields.inner, rows, fields.mode.startsWith('arg') ? INT64 : FLOAT),
  }),

  softmax: ({ kind: _, input, output, ...fields }, rows) => ({
    fields: { ...fields, outer: share(fields.outer, rows) },
    reads: [dense(input, AROUND(fields), rows)],
    write: dense(output, AROUND(fields), rows),
  }),

  normalize: ({ kind: _, input, output, scale, shift, ...fields }, rows) => {
    const each = share(fields.rows, rows);
    // Which scale is taken follows from the place within the groups.
    if (rows > 1) share(each, fields.groups);
    return {
      fields: { ...fields, rows: each },
      reads: [dense(input, fields.rows * fields.count, rows), ...whole(scale, shift)],
      write: dense(output, fields.rows * fields.count, rows),
    };
  },

  localResponse: ({ kind: _, input, output, ...fields }, rows) => {
    const count = fields.n * fields.channels * fields.inner;
    return {
      fields: { ...fields, n: share(fields.n, rows) },
      reads: [dense(input, count, rows)],
      write: dense(output, count, rows),
    };
  },

  copy: ({ bytes, extents, inputStrides, outputStrides, input, output }, rows) => {
    const row = boxOfRow(extents, [inputStrides, outputStrides], rows);
    const [from, to] = row.strides as [number[], number[]];
    return {
      fields: { bytes, extents: row.extents, inputStrides: from, outputStrides: to },
      reads: [strided(input, bytes, row.steps[0]!, row.extents, from)],
      write: strided(output, bytes, row.steps[1]!, row.extents, to),
    };
  },

  fill: ({ count, value, output }, rows) => ({
    fields: { count: share(count, rows), value },
    reads: [],
    write: dense(output, count, rows),
  }),

  gather: ({ kind: _, indices, input, output, ...fields }, rows) => {
    const { bytes, outer, axis, count, inner } = fields;
    const write = dense(output, outer * count * inner, rows, bytes);
    // A table that each row has its own indices of, or the same indices into each row.
    if (outer === 1 && rows > 1) {
      const reads = [dense(indices, count, rows, INT64), ...whole(input)];
      return { fields: { ...fields, count: share(count, rows) }, reads, write };
    }
    const reads = [...whole(indices), dense(input, outer * axis * inner, rows, bytes)];
    return { fields: { ...fields, outer: share(outer, rows) }, reads, write };
  },

  interpolate: ({ kind: _, input, output, ...fields }, rows) => {
    const { outer, axis, count, inner } = fields;
    return {
      fields: { ...fields, outer: share(outer, rows) },
      reads: [dense(input, outer * axis * inner, rows)],
      write: dense(output, outer * count * inner, rows),
    };
  },

  format: notFollowed,
  squeezeExcite: notFollowed,

  map: ({ kind: _, extents, operands, strides, output, ...fields }, rows) => {
    const row = boxOfRow(extents, strides, rows);
    return {
      fields: { ...fields, extents: row.extents, strides: row.strides },
      reads: operands.map((operand, i) =>
        strided(operand, bytesOf(fields.types[i]!), row.steps[i]!, row.extents, row.strides[i]!),
      ),
      write: dense(output, sizeOf(extents), rows, bytesOf(fields.outputType)),
    };
  },

  // Whether indices stay within their row is not known before a run.
  indexed: () => notProved('indices may point to other rows'),

  sort: ({ kind: _, input, output, ...fields }, rows) => ({
    fields: { ...fields, outer: share(fields.outer, rows) },
    reads: [dense(input, fields.outer * fields.length * fields.inner, rows, bytesOf(fields.type))],
    write: dense(output, fields.outer * fields.count * fields.inner, rows, INT64),
  }),

  scan: ({ kind: _, input, output, ...fields }, rows) => {
    const count = fields.outer * fields.length * fields.inner;
    const bytes = bytesOf(fields.type);
    return {
      fields: { ...fields, outer: share(fields.outer, rows) },
      reads: [dense(input, count, rows, bytes)],
      write: dense(output, count, rows, bytes),
    };
  },

  typedReduce: ({ kind: _, input, output, ...fields }, rows) => {
    const bytes = bytesOf(fields.type);
    return {
      fields: { ...fields, outer: share(fields.outer, rows) },
      reads: [dense(input, AROUND(fields), rows, bytes)],
      write: dense(output, fields.outer * fields.inner, rows, fields.mode.startsWith('arg') ? INT64 : bytes),
    };
  },

  recurrent: () => notProved('sequences lie next to each other, step by step'),

  // Whose regions they are, a run says.
  roiAlign: () => notProved('regions may be of other rows'),

  typedMatmul: () => notProved('a product of other types is not looked at'),
};

function notProved(why: string): never {
  throw new NotProved(why);
}

/** Whether a copy of one row does no more than to bring so many bytes elsewhere. */
function isPlainCopy(step: Step<Operand>, fields: object, length: number): boolean {
  if (step.kind !== 'copy') return false;
  const { bytes, extents, inputStrides, outputStrides } = fields as Omit<typeof step, 'kind'>;
  const isRun = extents.length === 1 && inputStrides[0] === 1 && outputStrides[0] === 1;
  return extents[0]! * bytes === length && (isRun || sizeOf(extents) === 1);
}

/** As short as a hash, and as good as unique. */
function nameOf(content: Buffer | unknown[]): string {
  return hash('sha256', Buffer.isBuffer(content) ? content : textOf(content), 'base64');
}

/** JSON has no infinities, and but one zero. */
function textOf(value: unknown): string {
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  if (ArrayBuffer.isView(value)) return nameOf(bytesIn(value));
  if (Array.isArray(value)) return `[${value.map(textOf).join()}]`;
  return `{${Object.entries(value)
    .map(([key, member]) => `${key}:${textOf(member)}`)
    .join()}}`;
}
