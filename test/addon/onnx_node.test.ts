/**
 * ONNX's own node tests, where a developer has them: scripts/dump_onnx_tests.py writes them from the onnx package, and
 * WARPCONV_ONNX_TESTS names their folder. Tests of what is not supported count as such only when that is what we say.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { fromBinary } from '@bufbuild/protobuf';

import { InferenceSession, Tensor } from '../../lib';
import { elementCount } from '../../lib/check';
import type { ConstantTensor } from '../../lib/model/graph';
import { TensorProtoSchema } from '../../lib/model/onnx/onnx_pb';
import { readTensor } from '../../lib/model/onnx/tensors';
import { foldedNames } from '../../lib/model/fold';
import { hostedNames } from '../../lib/model/hosted';
import { operatorNames } from '../../lib/model/operators';
import { atOnce } from '../../lib/slices';
import { packedBits, unpackTo } from '../../lib/tensor/packed';
import { fromBits, smallFloatOf } from '../../lib/tensor/small_floats';
import { CONSTRUCTORS } from '../../lib/tensor/tensor';
import { bitsIn } from '../support/float16_bits';
import { TEST_DEVICE } from '../support/gpu';

const folder = process.env.WARPCONV_ONNX_TESTS;

interface Meta {
  readonly operators: readonly string[];
  readonly rtol: number;
  readonly atol: number;
}

function read(file: string): { name: string; tensor: ConstantTensor } {
  const proto = fromBinary(TensorProtoSchema, readFileSync(file));
  return { name: proto.name, tensor: atOnce(readTensor(file, proto, undefined)) };
}

function readAll(test: string, kind: 'input' | 'output') {
  const list = [];
  for (let i = 0; existsSync(path.join(test, `${kind}_${i}.pb`)); i++) {
    list.push(read(path.join(test, `${kind}_${i}.pb`)));
  }
  return list;
}

/**
 * Where ONNX's data are further from the exact result than its bound. An inverse transform in float32, of elements up to
 * 99, has 2e-7 for 0: half a unit of their last place is let pass. Attention in 16 bits was rounded after every operation
 * inside Softmax, and is rounded once here: two steps of the type are let pass.
 */
const ROUNDED: readonly (readonly [tests: RegExp, bounds: Partial<Pick<Meta, 'rtol' | 'atol'>>])[] = [
  [/^test_dft_inverse(_opset19)?$/, { atol: 99 * 2 ** -24 }],
  [/^test_attention_.*_bf16(_expanded)?$/, { rtol: 2 * 2 ** -7 }],
  [/^test_attention_4d_causal_fp16_expanded$/, { rtol: 2 * 2 ** -10 }],
];

/** The numbers that elements stand for, each in an element of its own. */
function numbersOf({ type, data }: Pick<ConstantTensor, 'type' | 'data'>): number[] {
  const numbers = Array.from(data as ArrayLike<number | bigint>, Number);
  const format = smallFloatOf(type);
  return format === undefined ? numbers : numbers.map((bits) => fromBits(bits, format));
}

/** As `read` gives them: types of less than 8 bits with a byte an element. */
function unpacked({ type, dims, data }: Tensor): Pick<ConstantTensor, 'type' | 'data'> {
  if (packedBits(type) === undefined) return { type, data: bitsIn(data) };
  const elements = new CONSTRUCTORS[type](elementCount(dims)) as Uint8Array;
  unpackTo(elements, type, data as Uint8Array, 0, elements.length);
  return { type, data: elements };
}

function fed(tensor: ConstantTensor): Tensor {
  const isPacked = packedBits(tensor.type) !== undefined;
  return new Tensor(tensor.type, (isPacked ? numbersOf(tensor) : tensor.data) as never, tensor.dims);
}

function expectClose(actual: Tensor, expected: ConstantTensor, { rtol, atol }: Meta): void {
  expect([actual.type, ...actual.dims]).toEqual([expected.type, ...expected.dims]);
  const numbers = numbersOf(unpacked(actual));
  numbersOf(expected).forEach((wanted, i) => {
    const got = numbers[i]!;
    const isSame = Object.is(got, wanted) || Math.abs(got - wanted) <= atol + rtol * Math.abs(wanted);
    if (!isSame && got !== wanted) throw new Error(`element ${i} is ${got}, should be ${wanted}`);
  });
}

/** Whether warpconv said that it does not support something. */
async function run(test: string, meta: Meta): Promise<'passed' | 'unsupported'> {
  try {
    // First, since it refuses what holds types that readAll does not know.
    await using session = await InferenceSession.create(path.join(test, 'model.onnx'), {
      device: TEST_DEVICE,
    });
    const feeds = Object.fromEntries(readAll(test, 'input').map(({ name, tensor }) => [name, fed(tensor)]));
    const results = await session.run(feeds);
    const expected = readAll(test, 'output');
    session.outputNames.forEach((name, i) => expectClose(results[name]!, expected[i]!.tensor, meta));
    return 'passed';
  } catch (error) {
    if ((error as { code?: string }).code === 'ERR_WARPCONV_UNSUPPORTED') return 'unsupported';
    throw error;
  }
}

const described = folder === undefined ? describe.skip : describe;

described("ONNX's node tests (WARPCONV_ONNX_TESTS names their folder)", () => {
  const known = new Set([
    ...['', 'ai.onnx.preview'].flatMap((domain) => operatorNames(domain)),
    ...hostedNames(),
    ...foldedNames(),
    'If',
  ]);
  const tests = (folder === undefined ? [] : readdirSync(folder)).filter((name) => {
    const { operators } = metaOf(name);
    return operators.every((operator) => known.has(operator));
  });
  const outcomes: string[] = [];

  test.each(tests.length > 0 ? tests : ['none'])('%s', async (name) => {
    outcomes.push(await run(path.join(folder!, name), metaOf(name)));
  });

  test('most are supported', () => {
    const passed = outcomes.filter((outcome) => outcome === 'passed').length;
    console.log(
      `${passed} of ${outcomes.length} of ONNX's tests of these operators passed, the others are unsupported`,
    );
    expect(passed).toBeGreaterThan(outcomes.length / 2);
  });
});

function metaOf(name: string): Meta {
  const meta = JSON.parse(readFileSync(path.join(folder!, name, 'meta.json'), 'utf8')) as Meta;
  return { ...meta, ...ROUNDED.find(([tests]) => tests.test(name))?.[1] };
}
