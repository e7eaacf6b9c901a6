/** Legal models of one node with one thing changed that may break ONNX's rules. */
import type { Attribute } from '../onnx_reference/node';
import { roundInteger, roundTo, wrap } from '../onnx_reference/precision';
import { schemaIn } from '../onnx_reference/schemas';
import {
  isFloat,
  isSmallFloat,
  sizeOf,
  SMALL_FLOATS,
  SMALL_INTEGERS,
  type ElementType,
  type RefTensor,
  type Scalar,
} from '../onnx_reference/tensor';
import type { Random } from '../random';
import { anyShape, ELEMENT_ARRAYS, type Case, type CaseInput } from './case';
import { legalCase, randomOf } from './generate';
import { anyTensor } from './values';

export interface Damaged {
  readonly drawn: Case;
  /** What was changed */
  readonly change: string;
}

type Change = (drawn: Case, random: Random) => Damaged | undefined;

// Small types many operators take, and the reference has few of them.
const SMALL: readonly string[] = [...SMALL_FLOATS, ...SMALL_INTEGERS];
const TYPES = (Object.keys(ELEMENT_ARRAYS) as ElementType[]).filter((type) => !SMALL.includes(type));
const NASTY_INTEGERS: readonly bigint[] = [
  ...[-1n, 0n, 1n, 2n, 3n, 7n, -7n, 100n, -100n, 65536n, 2n ** 24n],
  ...[2n ** 31n - 1n, 2n ** 31n, -(2n ** 31n), 2n ** 32n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)],
];
const NASTY_FLOATS: readonly number[] = [NaN, Infinity, -Infinity, 0, -0, -1, 1e30, 1e-30, 3.5];
const NASTY_STRINGS: readonly string[] = [
  '',
  'bogus',
  'SAME',
  'constant',
  'linear',
  'cubic',
  'NOTSET',
  'tf_crop_and_resize',
];

function given(drawn: Case): { input: CaseInput; index: number }[] {
  return drawn.inputs.flatMap((input, index) => (input === undefined ? [] : [{ input, index }]));
}

function withInput(drawn: Case, index: number, input: CaseInput | undefined): Case {
  return { ...drawn, inputs: drawn.inputs.with(index, input) };
}

function withTensor(drawn: Case, index: number, tensor: RefTensor, random: Random): Case {
  const input = drawn.inputs[index]!;
  return withInput(drawn, index, { ...input, tensor, shape: anyShape(tensor.dims, random, index) });
}

function converted(x: Scalar, type: ElementType): Scalar {
  if (isFloat(type)) return typeof x === 'bigint' ? roundInteger(type, x) : roundTo(type, x);
  const whole = typeof x === 'bigint' ? x : Number.isFinite(x) ? BigInt(Math.trunc(x)) : 0n;
  return type === 'bool' ? (whole === 0n ? 0n : 1n) : wrap(type, whole);
}

/** An input's elements as another type's. */
const changeType: Change = (drawn, random) => {
  const inputs = given(drawn);
  if (inputs.length === 0) return undefined;
  const { input, index } = random.pick(inputs);
  const { type: before, dims, data } = input.tensor;
  const type = random.pick(TYPES.filter((other) => other !== before));
  const tensor = { type, dims, data: data.map((x) => converted(x, type)) };
  return { drawn: withTensor(drawn, index, tensor, random), change: `type of input ${index}` };
};

/** The elements of a tensor for other dims: repeated, or the first of them. */
function refilled({ type, data }: RefTensor, dims: readonly number[], random: Random): RefTensor {
  if (data.length === 0) return anyTensor(random, type, dims, 'unit');
  return { type, dims, data: Array.from({ length: sizeOf(dims) }, (_, i) => data[i % data.length]!) };
}

const changeRank: Change = (drawn, random) => {
  const inputs = given(drawn);
  if (inputs.length === 0) return undefined;
  const { input, index } = random.pick(inputs);
  const { dims } = input.tensor;
  const at = random.integer(0, dims.length);
  const grown = dims.toSpliced(at, 0, random.pick([1, 1, 2, 3, 0]));
  const shrunk = dims.toSpliced(Math.min(at, dims.length - 1), 1);
  const isGrown = dims.length === 0 || random.chance(0.5);
  const tensor = refilled(input.tensor, isGrown ? grown : shrunk, random);
  return { drawn: withTensor(drawn, index, tensor, random), change: `rank of input ${index}` };
};

const changeLength: Change = (drawn, random) => {
  const inputs = given(drawn).filter(({ input }) => input.tensor.dims.length > 0);
  if (inputs.length === 0) return undefined;
  const { input, index } = random.pick(inputs);
  const { dims } = input.tensor;
  const axis = random.integer(0, dims.length - 1);
  const extent = dims[axis]!;
  const other = random.pick([
    extent + 1,
    Math.max(0, extent - 1),
    2 * extent,
    1,
    0,
    Math.floor(extent / 2),
    extent + 17,
  ]);
  if (other === extent) return undefined;
  const tensor = refilled(input.tensor, dims.with(axis, other), random);
  return { drawn: withTensor(drawn, index, tensor, random), change: `length of input ${index}` };
};

/** An element of a list of integers, or all of them by one. */
const changeElement: Change = (drawn, random) => {
  const lists = given(drawn).filter(
    ({ input: { tensor } }) => !isFloat(tensor.type) && tensor.data.length > 0,
  );
  const scales = given(drawn).filter(
    ({ input, index }) => index > 0 && isFloat(input.tensor.type) && input.tensor.data.length > 0,
  );
  const candidates = [...lists, ...(random.chance(0.3) ? scales : [])];
  if (candidates.length === 0) return undefined;
  const { input, index } = random.pick(candidates);
  const { type, data } = input.tensor;
  const at = random.integer(0, data.length - 1);
  const element = nastyElement(type, random);
  const tensor = { ...input.tensor, data: data.with(at, element) };
  return { drawn: withInput(drawn, index, { ...input, tensor }), change: `element ${at} of input ${index}` };
};

function nastyElement(type: ElementType, random: Random): Scalar {
  if (isSmallFloat(type)) return anyTensor(random, type, [1]).data[0]!;
  return isFloat(type)
    ? roundTo(type, Math.fround(random.pick(NASTY_FLOATS)))
    : converted(random.pick(NASTY_INTEGERS), type);
}

const leaveOutInput: Change = (drawn, random) => {
  const inputs = given(drawn);
  if (inputs.length === 0) return undefined;
  const { index } = random.pick(inputs);
  const isLast = index === drawn.inputs.length - 1;
  const isCut = isLast && random.chance(0.6);
  const changed = isCut
    ? { ...drawn, inputs: drawn.inputs.slice(0, -1) }
    : withInput(drawn, index, undefined);
  return { drawn: changed, change: `input ${index} left out` };
};

const addInput: Change = (drawn, random) => {
  const like = drawn.inputs[0]?.tensor;
  const type = random.chance(0.6) ? (like?.type ?? 'float32') : random.pick(TYPES);
  const dims = random.pick([like?.dims ?? [], [], [1], [2]]);
  const tensor = anyTensor(random, type, dims, 'whole');
  const input = { tensor, isFeed: random.chance(0.5), shape: [...dims] };
  return { drawn: { ...drawn, inputs: [...drawn.inputs, input] }, change: 'another input' };
};

const changeOutputs: Change = (drawn, random) => {
  const outputs = random.pick([drawn.outputs + 1, drawn.outputs + 2, Math.max(1, drawn.outputs - 1)]);
  return outputs === drawn.outputs
    ? undefined
    : { drawn: { ...drawn, outputs, unnamed: [] }, change: `${outputs} outputs` };
};

function withAttribute(drawn: Case, name: string, attribute: Attribute | undefined): Case {
  const { [name]: _, ...rest } = drawn.attributes;
  return { ...drawn, attributes: attribute === undefined ? rest : { ...rest, [name]: attribute } };
}

const ANY_ATTRIBUTES: readonly Attribute[] = [
  { kind: 'int', value: 1n },
  { kind: 'ints', value: [1n, 1n] },
  { kind: 'ints', value: [] },
  { kind: 'float', value: 1 },
  { kind: 'floats', value: [1, 2] },
  { kind: 'string', value: 'NOTSET' },
  { kind: 'strings', value: ['a'] },
  { kind: 'tensor', value: { type: 'float32', dims: [1], data: [1] } },
];

function schemaAttributes(drawn: Case): [name: string, kind: string][] {
  const name = drawn.domain === '' ? drawn.operator : `${drawn.domain}.${drawn.operator}`;
  return Object.entries(schemaIn(name, drawn.opset)!.attributes).map(([key, { kind }]) => [key, kind]);
}

const changeAttributeKind: Change = (drawn, random) => {
  const known = schemaAttributes(drawn);
  if (known.length === 0) return undefined;
  const [name, kind] = random.pick(known);
  const attribute = random.pick(ANY_ATTRIBUTES.filter((other) => other.kind !== kind));
  return { drawn: withAttribute(drawn, name, attribute), change: `type of attribute ${name}` };
};

const changeAttribute: Change = (drawn, random) => {
  const known = schemaAttributes(drawn);
  if (known.length === 0) return undefined;
  const [name, kind] = random.pick(known);
  const attribute = nastyAttribute(kind, drawn.attributes[name], random);
  return attribute && { drawn: withAttribute(drawn, name, attribute), change: `attribute ${name}` };
};

function nastyAttribute(kind: string, before: Attribute | undefined, random: Random): Attribute | undefined {
  switch (kind) {
    case 'int':
      return { kind, value: random.pick(NASTY_INTEGERS) };
    case 'float':
      return { kind, value: random.pick(NASTY_FLOATS) };
    case 'string':
      return { kind, value: random.pick(NASTY_STRINGS) };
    case 'ints':
      return {
        kind,
        value: nastyList(before?.kind === 'ints' ? before.value : [1n, 1n], NASTY_INTEGERS, random),
      };
    case 'floats':
      return {
        kind,
        value: nastyList(before?.kind === 'floats' ? before.value : [1, 1], NASTY_FLOATS, random),
      };
    case 'strings':
      return {
        kind,
        value: nastyList(before?.kind === 'strings' ? before.value : ['Tanh'], NASTY_STRINGS, random),
      };
    case 'tensor':
      return { kind, value: anyTensor(random, random.pick(TYPES), random.pick([[], [0], [1], [2], [1, 1]])) };
    default:
      return undefined;
  }
}

function nastyList<T>(before: readonly T[], nasty: readonly T[], random: Random): T[] {
  const how = random.uniform();
  if (how < 0.1) return [];
  if (how < 0.25) return before.slice(0, -1);
  if (how < 0.4) return [...before, before.length > 0 ? random.pick(before) : random.pick(nasty)];
  if (how < 0.5 || before.length === 0) return [...before, random.pick(nasty)];
  return before.map((value, i) => (i === 0 || random.chance(0.3) ? random.pick(nasty) : value));
}

const leaveOutAttribute: Change = (drawn, random) => {
  const names = Object.keys(drawn.attributes);
  if (names.length === 0) return undefined;
  const name = random.pick(names);
  return { drawn: withAttribute(drawn, name, undefined), change: `attribute ${name} left out` };
};

const CHANGES: readonly Change[] = [
  ...[
    changeType,
    changeType,
    changeRank,
    changeRank,
    changeLength,
    changeLength,
    changeLength,
    changeElement,
    changeElement,
  ],
  ...[
    leaveOutInput,
    addInput,
    changeOutputs,
    changeAttributeKind,
    changeAttribute,
    changeAttribute,
    leaveOutAttribute,
  ],
];

/** The legal case of that number, with something changed. */
export function damagedCase(seed: number, index: number): Damaged {
  const random = randomOf(seed ^ 0x5eed, index);
  const drawn = legalCase(seed, index);
  for (;;) {
    const damaged = random.pick(CHANGES)(drawn, random);
    if (damaged !== undefined) return damaged;
  }
}
