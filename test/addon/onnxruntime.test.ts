/** As a backend of onnxruntime, by way of its own classes. */
import * as ort from 'onnxruntime-common';

import { backend } from '../../lib/onnxruntime';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';

const model = onnxModel({
  inputs: [value('x', ['N', 2])],
  initializers: [tensor('w', [2, 3], [1, 2, 3, 4, 5, 6])],
  nodes: [node('MatMul', ['x', 'w'], ['y']), node('ArgMax', ['y'], ['most'], { axis: 1, keepdims: 0 })],
  outputs: [value('y', ['N', 3]), value('most', ['N'], 'int64')],
});

function create(options: object = { name: 'warpconv', device: 'cpu' }): Promise<ort.InferenceSession> {
  return ort.InferenceSession.create(model, { executionProviders: [options] } as never);
}

test('a session of onnxruntime runs on it', async () => {
  const session = await create();
  expect(session.inputNames).toEqual(['x']);
  expect(session.outputMetadata).toMatchObject([{ name: 'y', shape: ['N', 3] }, { name: 'most' }]);
  const x = new ort.Tensor('float32', Float32Array.of(1, 0, 0, -1), [2, 2]);
  const { y, most } = await session.run({ x });
  expect(y).toBeInstanceOf(ort.Tensor);
  expect([...(y!.data as Float32Array)]).toEqual([1, 2, 3, -4, -5, -6]);
  expect([...(most!.data as BigInt64Array)]).toEqual([2n, 0n]);
  expect(Object.keys(await session.run({ x }, ['most']))).toEqual(['most']);
  await session.release();
});

test('its options are checked as ours are', async () => {
  await expect(create({ name: 'warpconv', devise: 'cpu' })).rejects.toThrow(/did you mean 'device'/);
});

test('the backend can be registered elsewhere', () => {
  expect(Object.keys(backend)).toEqual(['init', 'createInferenceSessionHandler']);
});
