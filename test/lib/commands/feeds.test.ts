/** The inputs that commands make up. */
import { Misuse } from '../../../lib/commands/command';
import {
  describeInputs,
  elementsOf,
  otherPlans,
  planInputs,
  type PlannedInput,
  type Request,
} from '../../../lib/commands/feeds';
import type { ValueMetadata } from '../../../lib/model/metadata';

const info = (name: string, type: ValueMetadata['type'], shape: ValueMetadata['shape']): ValueMetadata => ({
  ...{ name, type, shape, isTensor: true },
});

const request = (given: Partial<Request> = {}): Request => ({
  ...{ batch: undefined, shapes: new Map(), extents: new Map(), fills: new Map() },
  ...given,
});

const image = [info('image', 'float32', ['N', 3, '', 'width'])];
const vad = [
  info('input', 'float32', ['', '']),
  info('state', 'float32', [2, '', 128]),
  info('sr', 'int64', []),
];

const dimsOf = (infos: readonly ValueMetadata[], given?: Partial<Request>) =>
  describeInputs(planInputs(infos, request(given)).inputs);

test('open dims are those of one image, a signal, a state, or tokens', () => {
  expect(planInputs(image, request()).assumed).toEqual(['N = 1', 'image[2] = 224', 'width = 224']);
  expect(dimsOf(image)).toBe('image 1x3x224x224');
  expect(dimsOf(vad)).toBe('input 1x512, state 2x1x128, sr scalar');
  expect(dimsOf([info('ids', 'int64', ['batch', 'sequence'])])).toBe('ids 1x128');
});

test('the user may say all of them', () => {
  expect(dimsOf(image, { batch: 4, extents: new Map([['width', 64]]) })).toBe('image 4x3x224x64');
  expect(dimsOf(vad, { batch: 3 })).toBe('input 3x512, state 2x3x128, sr scalar');
  const plan = planInputs(image, request({ shapes: new Map([['', [2, 3, 32, 16]]]) }));
  expect(plan).toMatchObject({ assumed: [], inputs: [{ dims: [2, 3, 32, 16] }] });
});

test('what --shape says of a named dimension holds for other inputs', () => {
  const two = [info('a', 'float32', ['N', 2]), info('b', 'float32', ['N', 3])];
  expect(dimsOf(two, { shapes: new Map([['a', [5, 2]]]) })).toBe('a 5x2, b 5x3');
});

test.each<[string, readonly ValueMetadata[], Partial<Request>, RegExp]>([
  [
    'a dimension that is not there',
    image,
    { extents: new Map([['widht', 1]]) },
    /no open dimension 'widht'; did you mean 'width'\?/,
  ],
  [
    'an input that is not there',
    vad,
    { fills: new Map([['rate', 1]]) },
    /no input 'rate'; it has input, state/,
  ],
  ['dims without a name', vad, { shapes: new Map([['', [1]]]) }, /--shape needs the name of an input/],
  [
    'dims that the model rules out',
    image,
    { shapes: new Map([['', [1, 4, 8, 8]]]) },
    /'image' the dims 1x4x8x8, and the model takes \[N, 3, \?, width\]/,
  ],
  ['a batch of a model that has none', [info('x', 'float32', [1, 3])], { batch: 2 }, /input 'x' is \[1, 3\]/],
  [
    'two batches',
    image,
    { batch: 3, shapes: new Map([['', [1, 3, 8, 8]]]) },
    /'N' is to be 3 and 1; say it once/,
  ],
  ['two extents', image, { batch: 3, extents: new Map([['N', 4]]) }, /'N' is to be 3 and 4; say it once/],
  ...[1.5, 1e30, Infinity].map((fill): [string, readonly ValueMetadata[], Partial<Request>, RegExp] => [
    `integers that are to be ${fill}`,
    vad,
    { fills: new Map([['sr', fill]]) },
    /'sr' has elements of int64, which cannot be/,
  ]),
])('it refuses %s', (_, infos, given, message) => {
  expect(() => planInputs(infos, request(given))).toThrow(Misuse);
  expect(() => planInputs(infos, request(given))).toThrow(message);
});

test('an input of any rank is no scalar, unless that is said', () => {
  const any = [info('x', 'float32', []), info('y', 'float32', [])];
  const plan = (dims?: number[]) =>
    planInputs(any, request(dims && { shapes: new Map([['x', dims]]) }), ['x']).inputs;
  expect(() => plan()).toThrow(/how many dims 'x' has; .*--shape x=1x3x224x224, or --shape x=scalar$/);
  expect(plan([2, 3])).toMatchObject([{ dims: [2, 3] }, { dims: [] }]);
  expect(plan([])).toMatchObject([{ dims: [] }, { dims: [] }]);
});

test('other shapes change one dimension wherever it is, the batch first', () => {
  const plan = planInputs(vad, request());
  const others = otherPlans(vad, plan).map(({ change, inputs }) => `${change}: ${describeInputs(inputs)}`);
  expect(others).toEqual([
    'batch + 1: input 2x512, state 2x2x128, sr scalar',
    'input[1] + 512: input 1x1024, state 2x1x128, sr scalar',
  ]);
  expect(otherPlans([info('x', 'float32', [1])], planInputs([info('x', 'float32', [1])], request()))).toEqual(
    [],
  );
});

const elements = (given: Partial<PlannedInput>) =>
  Array.from(
    elementsOf({ name: 'x', type: 'float32', dims: [1, 4], ...given }) as ArrayLike<number | bigint>,
  );

test('elements are of the type, and mean something', () => {
  const floats = elements({});
  expect(floats.every((one) => Number(one) >= 0 && Number(one) <= 1)).toBe(true);
  expect(new Set(floats).size).toBe(4);
  expect(elements({})).toEqual(floats);
  expect(elements({ type: 'int64', dims: [12] }).slice(-3)).toEqual([9n, 0n, 1n]);
  expect(elements({ type: 'int64', name: 'attention_mask' })).toEqual([1n, 1n, 1n, 1n]);
  expect(elements({ type: 'int64', name: 'position_ids' })).toEqual([0n, 1n, 2n, 3n]);
  expect(elements({ type: 'int64', name: 'sr', dims: [] })).toEqual([16_000n]);
  expect(elements({ type: 'float16', fill: 1 })).toEqual([0x3c00, 0x3c00, 0x3c00, 0x3c00]);
  expect(elements({ type: 'int4', dims: [3] })).toHaveLength(2);
  expect(elements({ type: 'int64', dims: [70_000] }).at(-1)).toBe(9n);
});
