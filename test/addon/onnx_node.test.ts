/**
 * ONNX's own node tests, where a developer has them: scripts/dump_onnx_tests.py writes them from the onnx package, and
 * WARPCONV_ONNX_TESTS names their folder. Tests of what is not supported count as such only when that is what we say.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { fromBinary } from '@bufbuild/protobuf';

import { InferenceSession, type Tensor } from '../../lib';
import type { ConstantTensor } from '../../lib/model/graph';
import { TensorProtoSchema } from '../../lib/model/onnx/onnx_pb';
import { readTensor } from '../../lib/model/onnx/tensors';
import { operatorNames } from '../../lib/model/operators';
import { atOnce } from '../../lib/slices';
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
 * Where ONNX's data are further from the exact result than its bound: an inverse transform in float32, of elements up to
 * 99, has 2e-7 for 0. Half a unit of their last place is let pass.
 */
const ROUNDED: Readonly<Record<string, number>> = {
  test_dft_inverse: 99 * 2 ** -24,
  test_dft_inverse_opset19: 99 * 2 ** -24,
};

function expectClose(actual: Tensor, expected: ConstantTensor, { rtol, atol }: Meta): void {
  expect([actual.type, ...actual.dims]).toEqual([expected.type, ...expected.dims]);
  Array.from(expected.data as ArrayLike<number | bigint>, Number).forEach((wanted, i) => {
    const got = Number(actual.data[i]);
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
    const feeds = Object.fromEntries(readAll(test, 'input').map(({ name, tensor }) => [name, tensor]));
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
  const known = new Set(operatorNames());
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
  return { ...meta, atol: Math.max(meta.atol, ROUNDED[name] ?? 0) };
}
