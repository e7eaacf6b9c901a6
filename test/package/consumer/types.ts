// Compiled, never run: what a caller writes has these types, in a module of either kind.
import {
  Conv2d,
  InferenceSession,
  Tensor,
  WarpconvError,
  conv2d,
  conv2dSync,
  devices,
  memory,
} from 'warpconv';
import type { Conv2dOptions, DeviceInfo, TensorLike } from 'warpconv';
import { createServer, type Server } from 'node:http';
import { createHandler, serve, type ServedSession } from 'warpconv/serve';

export async function good(input: Tensor, weight: TensorLike, signal: AbortSignal): Promise<number> {
  const options: Conv2dOptions = { stride: [2, 1], padding: 'same', activation: { clip: [0, 6] }, signal };
  const output: Tensor = await conv2d(input, weight, options);
  const plan: Conv2d = await Conv2d.create(weight, { inputDims: [1, 3, 8, 8], device: 'cpu' });
  await plan.run(input, { output });
  plan.dispose();
  const found: DeviceInfo[] = devices();
  const dims: readonly number[] = conv2dSync(input, {
    type: 'float32',
    data: new Float32Array(9),
    dims: [1, 1, 3, 3],
  }).dims;
  return dims.length + found.length + memory().cpu;
}

/** A `Float16Array` in a program whose TypeScript has it. */
type Halves = typeof globalThis extends { Float16Array: { prototype: infer A } } ? A : Uint16Array;

export async function halves(numbers: Halves, bits: Uint16Array): Promise<ArrayLike<number>> {
  const inferred: Tensor = new Tensor(numbers, [1, 1, 2, 2]);
  const residual = new Tensor('float16', bits, inferred.dims);
  const input = new Tensor('float16', numbers, inferred.dims);
  const ones = new Tensor('float32', new Float32Array(1), [1, 1, 1, 1]);
  const output: Tensor<'float16'> = await conv2d(input, ones, { residual, precision: 'fp16' });
  const data: Halves | Uint16Array = output.data;
  const plan: Conv2d<'float16'> = await Conv2d.create(ones, { inputDims: input.dims, inputType: 'float16' });
  await plan.run(output);
  const session = await InferenceSession.create('model.onnx', {
    executionProviders: ['cuda', { name: 'warpconv', precision: 'fp16' }, { name: 'cpu', useArena: true }],
  });
  const { y } = await session.run({ x: output });
  // Of a type that only a run knows
  await conv2d(y!, ones);
  return data;
}

export function codeOf(error: unknown): `ERR_WARPCONV_${string}` | undefined {
  return error instanceof WarpconvError ? error.code : undefined;
}

export async function served(session: ServedSession): Promise<Server> {
  const { close } = await serve({ models: { a: session }, port: 0, closeOn: ['SIGTERM'] });
  await close();
  return createServer(createHandler({ models: { a: { session, maxBatch: 8 } }, timeout: 1000 }));
}

export const bad = [
  // @ts-expect-error: a misspelt option of the server
  (session: ServedSession) => createHandler({ models: { session }, maxQeue: 2 }),
  // @ts-expect-error: a tensor is not a session
  (tensor: Tensor) => createHandler({ models: { tensor } }),
  // @ts-expect-error: a misspelt option
  (tensor: Tensor) => conv2d(tensor, tensor, { strides: 2 }),
  // @ts-expect-error: three paddings
  (tensor: Tensor) => conv2d(tensor, tensor, { padding: [1, 1, 1] }),
  // @ts-expect-error: no such activation
  (tensor: Tensor) => conv2d(tensor, tensor, { activation: 'mish' }),
  // @ts-expect-error: a plan needs the shape of its input
  (tensor: Tensor) => Conv2d.create(tensor, {}),
  // @ts-expect-error: integers are not convolved
  (tensor: Tensor<'int8'>) => conv2d(tensor, tensor),
  // @ts-expect-error: nor are they weights
  (tensor: Tensor<'float32'>, weight: Tensor<'int8'>) => conv2dSync(tensor, weight),
  // @ts-expect-error: nor are they a plan's
  (weight: Tensor<'int8' | 'uint8'>) => Conv2d.create(weight, { inputDims: [1, 3, 8, 8] }),
  // @ts-expect-error: a misspelt option of the provider
  () => InferenceSession.create('a', { executionProviders: [{ name: 'warpconv', presicion: 'fp16' }] }),
  // @ts-expect-error: a promise is not a tensor
  (tensor: Tensor): Tensor => conv2d(tensor, tensor),
];
