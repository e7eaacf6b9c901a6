/** JSON of any size and form is parsed as `JSON.parse` would, in pieces, or refused before it takes long. */
import { datatypeOf } from '../../lib/serve/datatypes';
import type { ModelDescription, ValueSpec } from '../../lib/serve/model';
import { decodeRequest } from '../../lib/serve/request';
import { Random } from '../support/random';
import { json, request } from './support/client';
import { echoSession } from './support/fake_session';
import { closeAll, open } from './support/serving';

afterEach(closeAll);

const MIB = 2 ** 20;

function modelOf(type: string, dims: ValueSpec['dims']): ModelDescription {
  const x = { name: 'x', datatype: datatypeOf(type)!, dims };
  return { name: 'm', version: '1', inputs: [x], outputs: [], image: undefined };
}

interface Decoded {
  readonly elements: number[];
  readonly turns: number;
}

/** The elements of the only input, and how often the event loop may turn meanwhile. */
async function decode(text: string, type: string, dims: ValueSpec['dims']): Promise<Decoded> {
  let turns = 0;
  const turn = async () => void turns++;
  const { inputs } = await decodeRequest(modelOf(type, dims), Buffer.from(text), undefined, turn);
  return { elements: Array.from(inputs.get('x')!.data as Float64Array), turns };
}

const requestOf = (shape: readonly number[], data: string) =>
  `{"inputs":[{"name":"x","datatype":"FP64","shape":${JSON.stringify(shape)},"data":${data}}]}`;

const repeat = (unit: string, bytes = MIB) => unit.repeat(Math.ceil(bytes / unit.length));
const numbered = (make: (index: number) => string, bytes = MIB) => {
  const parts: string[] = [];
  for (let length = 0; length < bytes; length += parts.at(-1)!.length + 1) parts.push(make(parts.length));
  return parts.join(',');
};

/** Bodies that `JSON.parse` takes long for, MiB by MiB. */
const SLOW: Readonly<Record<string, string>> = {
  'lists in lists': '['.repeat(MIB / 2) + ']'.repeat(MIB / 2),
  'lists in lists without an end': '['.repeat(MIB),
  'empty lists': `[${repeat('[],')}[]]`,
  'lists of one': `[${repeat('[1],')}[]]`,
  'empty objects': `[${repeat('{},')}{}]`,
  'objects in objects': `${repeat('{"a":', MIB)}1${repeat('}', MIB / 5)}`,
  'very many keys': `{${numbered((i) => `"k${i.toString(36)}":{}`)}}`,
  'numbers for keys': `{${numbered((i) => `"${(i * 2_654_435_761) % 4_294_967_295}":0`)}}`,
  'one key again and again': `{${repeat('"a":0,')}"a":0}`,
  'objects of different keys': `[${numbered((i) => `{"k${i}":0}`)}]`,
  'objects of __proto__': `[${repeat('{"__proto__":{}},')}{}]`,
  'short strings': `[${numbered((i) => `"${i.toString(36)}"`)}]`,
  'escaped strings': `[${repeat('"\\n\\"",')}""]`,
  'numbers where none are wanted': `[${repeat('1,')}1]`,
  'numbers that are hard to round': `[${repeat('1.00000000000000011102230246251565404236316680908203125,')}1]`,
};

describe.each(Object.entries(SLOW))('%s', (_, hostile) => {
  test.each([
    ['as the request', hostile],
    ['as the inputs', `{"inputs":${hostile}}`],
    ['as an input', `{"inputs":[${hostile}]}`],
    ['as a shape', `{"inputs":[{"name":"x","datatype":"FP64","shape":${hostile},"data":[1]}]}`],
    ['as parameters', `{"parameters":${hostile},${requestOf([1], '[1]').slice(1)}`],
    ['as something unknown', `{"what":${hostile},${requestOf([1], '[1]').slice(1)}`],
  ])('%s are refused', async (_, text) => {
    await expect(decode(text, 'float64', ['N'])).rejects.toMatchObject({
      status: 413,
      message: expect.stringContaining('too much beside the data') as string,
    });
  });

  test('as elements are refused', async () => {
    await expect(decode(requestOf([5], hostile), 'float64', ['N'])).rejects.toThrow(/data|too much/);
    await expect(decode(requestOf([5, 1], hostile), 'float64', ['N', 1])).rejects.toThrow(/data|too much/);
  });
});

test('such a body is answered by 413', async () => {
  const { url } = await open({ models: { echo: echoSession('float32') } });
  const received = await request(url, { path: '/v2/models/echo/infer', body: SLOW['very many keys']! });
  expect([received.status, json(received)]).toEqual([
    413,
    { error: expect.stringContaining('more than 1152') },
  ]);
});

describe('what is long and legal', () => {
  const count = 100_000;
  const numbers = Array.from({ length: count }, (_, i) => (i % 7) - 3 + (i % 5 === 0 ? 0.5 : 0));

  test.each([
    ['flat', [count], JSON.stringify(numbers)],
    ['flat, of a shape of two', [count / 2, 2], JSON.stringify(numbers)],
    ['flat, with much white space', [count], `[ ${numbers.join(' ,\n\t')}\r\n]`],
    ['in short lists', [count, 1], JSON.stringify(numbers.map((one) => [one]))],
    [
      'in pairs',
      [count / 2, 2],
      JSON.stringify(numbers.flatMap((one, i) => (i % 2 ? [] : [[one, numbers[i + 1]]]))),
    ],
    ['in one list of lists', [1, 1, count], JSON.stringify([[numbers]])],
  ])('%s, is parsed in pieces', async (_, shape, data) => {
    const { elements, turns } = await decode(
      requestOf(shape, data),
      'float64',
      shape.map(() => ''),
    );
    expect(elements).toEqual(numbers);
    expect(turns).toBe(Math.ceil(data.length / 2 ** 16) - 1);
  });

  test('strings, beside many small inputs', async () => {
    const inputs = Array.from({ length: 200 }, (_, i) => ({
      ...{ name: `x${i}`, datatype: 'FP32', shape: [1, 30], parameters: { note: 'ä'.repeat(20) } },
      data: Array.from({ length: 30 }, (_, j) => i + j / 8),
    }));
    const specs = inputs.map(({ name }) => ({ name, datatype: datatypeOf('float32')!, dims: ['N', 30] }));
    const text = JSON.stringify({ id: '"\\'.repeat(50_000), inputs });
    const model = { ...modelOf('float32', []), inputs: specs };
    const decoded = await decodeRequest(model, Buffer.from(text), undefined, () => Promise.resolve());
    expect(decoded.id).toHaveLength(100_000);
    expect([...(decoded.inputs.get('x199')!.data as Float32Array)]).toEqual(inputs[199]!.data);
  });

  test('in a request that is given up, ends with the reason', async () => {
    const gone = new Error('gone');
    const text = Buffer.from(requestOf([count], JSON.stringify(numbers)));
    const turn = () => Promise.reject(gone);
    await expect(decodeRequest(modelOf('float64', ['N']), text, undefined, turn)).rejects.toBe(gone);
  });
});

describe('what is long and not legal', () => {
  const ones = (count: number) => new Array<number>(count).fill(1).join();
  test.each([
    ['a comma at the end', [1000], `[${ones(1000)},]`, /not JSON/],
    ['a comma at the beginning', [1000], `[,${ones(1000)}]`, /not JSON/],
    ['two commas', [1000], `[${ones(500)},,${ones(500)}]`, /not JSON/],
    ['white space alone', [1000], `[${' '.repeat(2000)}]`, /not JSON|0 elements/],
    ['two numbers without a comma', [1000], `[${ones(500)} ${ones(500)}]`, /not JSON/],
    ['NaN', [1000], `[${ones(999)},NaN]`, /not JSON: inputs\[0\]\.data: Unexpected token/],
    ['other bytes', [1000], `[${ones(999)},é]`, /not JSON/],
    ['hexadecimal numbers', [1000], `[${ones(999)},0x1]`, /not JSON/],
    ['true', [1000], `[${ones(999)},true]`, /element 999 must be a number .* got true/],
    ['a number beyond the largest', [1000], `[${ones(999)},1e999]`, /element 999 must be .* got Infinity/],
    ['a number too few', [1000], `[${ones(999)}]`, /data has 999 elements; shape \[1000\] needs 1000/],
    ['a number too many', [100_000], `[${ones(100_001)}]`, /data has 100001 elements; .* needs 100000/],
    ['far too many', [3], `[${ones(100_001)}]`, /data has 100001 elements; .* needs 3/],
    [
      'a claim of more than there is',
      [2 ** 50],
      `[${ones(5000)}]`,
      /has 5000 elements; .* needs 1125899906842624/,
    ],
    ['a list among numbers', [1000], `[${ones(999)},[1]]`, /flat, or nested .* has lists that are deeper/],
    [
      'a number among lists',
      [500, 2],
      `[${'[1,1],'.repeat(499)}1,1]`,
      /with a list of 2 here, got something else/,
    ],
    [
      'a list too short',
      [500, 2],
      `[${'[1,1],'.repeat(498)}[1],[1,1,1]]`,
      /with a list of 2 here, got one of 1/,
    ],
    [
      'a list too long',
      [500, 2],
      `[${'[1,1],'.repeat(498)}[1,1,1],[1]]`,
      /with a list of 2 here, got one of 3/,
    ],
    ['an empty list', [500, 1], `[${'[1],'.repeat(499)}[]]`, /not JSON/],
    [
      'lists without a comma',
      [500, 2],
      `[${'[1,1],'.repeat(498)}[1,1][1,1]]`,
      /list of 500 here, got one of 499/,
    ],
    ['lists that are deeper', [500, 2], `[${'[[1],[1]],'.repeat(499)}[1,1]]`, /has lists that are deeper/],
    ['nested for one dimension', [1000], `[[${ones(1000)}]]`, /has lists that are deeper/],
    ['nested for no dimension', [], `[[${ones(1000)}]]`, /1000 elements|has lists that are deeper/],
    ['a string among numbers', [1000], `[${ones(999)},"1"]`, /element 999 must be a number .* got '1'/],
    ['no end', [1000], `[${ones(1000)}`, /not JSON/],
  ])('%s', async (_, shape, data, reason) => {
    const decoding = decode(
      requestOf(shape, `${data}`) + ' '.repeat(5000),
      'float64',
      shape.map(() => ''),
    );
    await expect(decoding).rejects.toThrow(reason);
  });

  test('a list of data that belongs to no input', async () => {
    const good = requestOf([1], '[1]').slice(1);
    for (const text of [
      `{"data":[${ones(3000)}],${good}`,
      `{"parameters":{"data":[${ones(3000)}]},${good}`,
      requestOf([3000], `[${ones(3000)}],"data":[${ones(3000)}]`),
    ]) {
      await expect(decode(text, 'float64', ['N'])).rejects.toThrow(/data that belongs to no input/);
    }
  });

  test('what stands for a list cannot be had by writing it', async () => {
    for (const mark of ['0', ' 0', '{}', 'undefined 0']) {
      await expect(decode(requestOf([1], JSON.stringify(mark)), 'float64', ['N'])).rejects.toThrow(
        /data must be a list/,
      );
    }
  });
});

/** The text with a few bytes changed. */
function damage(text: string, random: Random): string {
  const bytes = [...text];
  for (let change = random.integer(0, 2); change > 0; change--) {
    const at = random.integer(0, bytes.length - 1);
    bytes.splice(at, random.integer(0, 1), random.pick([...',[]{}":\\ \n1-.e"tn']));
  }
  return bytes.join('');
}

/** A tensor as JSON, nested or flat, with white space at any place where it may be. */
function write(values: unknown, random: Random): string {
  const space = () => (random.chance(0.1) ? random.pick([' ', '\n', '\t ', '\r\n']) : '');
  if (!Array.isArray(values)) return `${space()}${JSON.stringify(values)}${space()}`;
  return `${space()}[${values.map((one) => write(one, random)).join()}]${space()}`;
}

function nest(flat: readonly number[], shape: readonly number[]): unknown {
  if (shape.length === 0) return flat[0];
  const size = flat.length / shape[0]!;
  return Array.from({ length: shape[0]! }, (_, i) =>
    nest(flat.slice(i * size, (i + 1) * size), shape.slice(1)),
  );
}

/** What `JSON.parse` and a plain reading make of a request; `undefined` where it is wrong. */
function reference(text: string, shape: readonly number[]): number[] | undefined {
  try {
    const { inputs } = JSON.parse(text) as {
      inputs: { name: string; datatype: string; shape: number[]; data: unknown }[];
    };
    if (!Array.isArray(inputs) || inputs.length !== 1) return undefined;
    const [{ name, datatype, shape: given, data }] = inputs as [(typeof inputs)[0]];
    const isAsked = name === 'x' && datatype === 'FP64' && Array.isArray(given);
    if (!isAsked || JSON.stringify(given) !== JSON.stringify(shape) || !Array.isArray(data)) return undefined;
    const isNested = shape.length > 1 && Array.isArray(data[0]);
    return readNested(data, isNested ? shape : [shape.reduce((product, extent) => product * extent, 1)]);
  } catch {
    return undefined;
  }
}

function readNested(value: unknown, shape: readonly number[]): number[] | undefined {
  if (shape.length === 0) return Number.isFinite(value) ? [value as number] : undefined;
  if (!Array.isArray(value) || value.length !== shape[0]) return undefined;
  const parts = value.map((one) => readNested(one, shape.slice(1)));
  return parts.includes(undefined) ? undefined : (parts as number[][]).flat();
}

test('what is accepted, and its elements, are what JSON.parse makes of it', async () => {
  const seed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 31);
  process.stdout.write(`seed ${seed}\n`);
  const counts = { accepted: 0, refused: 0 };
  for (let round = 0; round < 3000; round++) {
    const random = new Random(seed + round);
    const shape = Array.from({ length: random.integer(1, 3) }, () => random.integer(1, 12));
    const size = shape.reduce((product, extent) => product * extent, 1);
    const flat = Array.from({ length: size }, () =>
      random.chance(0.5) ? random.integer(-9, 9) : random.uniform() * 10 ** random.integer(-30, 30),
    );
    const data = write(random.chance(0.7) ? nest(flat, shape) : flat, random);
    // Long enough not to be parsed at once.
    const text = damage(requestOf(shape, data), random) + ' '.repeat(4096);
    const expected = reference(text, shape);
    const actual = await decode(
      text,
      'float64',
      shape.map(() => ''),
    ).then(
      ({ elements }) => elements,
      () => undefined,
    );
    if (JSON.stringify(actual) !== JSON.stringify(expected)) {
      throw new Error(
        `seed ${seed + round}: ${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}: ${text}`,
      );
    }
    if (actual === undefined) counts.refused++;
    else counts.accepted++;
  }
  process.stdout.write(`${JSON.stringify(counts)}\n`);
  expect(Math.min(counts.accepted, counts.refused)).toBeGreaterThan(300);
});
