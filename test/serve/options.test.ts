/** What may be served, and how; what is wrong is refused by name when the handler is made. */
import { createHandler, serve, type HandlerOptions, type ServedSession } from '../../lib/serve';
import { doublingSession, FakeSession, value } from './support/fake_session';

const models = { double: doublingSession() };
const fixed = new FakeSession([value('x', 'float32', [1, 2])], [value('y', 'float32', ['N'])], () => ({}));
const scalar = new FakeSession([value('x', 'float32', [])], [value('y', 'float32', [])], () => ({}));
const gram = new FakeSession(
  [value('x', 'float32', ['N', 2])],
  [value('y', 'float32', ['M', 'N'])],
  () => ({}),
);
const withInput = (metadata: object) =>
  new FakeSession([metadata as never], [value('y', 'float32', [1])], () => ({}));

test.each<[string, unknown, string]>([
  ['no options', undefined, 'options must be an object, got undefined'],
  [
    'no models',
    {},
    'options.models must be an object of sessions by the names of models, or a ModelFolder, got undefined',
  ],
  ['an empty set of models', { models: {} }, 'options.models must be'],
  ['a list of models', { models: [doublingSession()] }, 'options.models must be'],
  ['a model without a name', { models: { '': doublingSession() } }, 'the name of a model must be a string'],
  ['a path for a model', { models: { a: 'a.onnx' } }, `options.models.a must be an object, got 'a.onnx'`],
  [
    'a model without a session',
    { models: { a: {} } },
    'options.models.a.session must be an InferenceSession',
  ],
  [
    'a misspelt option of a model',
    { models: { a: { session: doublingSession(), maxbatch: 2 } } },
    `options.models.a.maxbatch is not known; did you mean 'maxBatch'?`,
  ],
  [
    'a version that is a number',
    { models: { a: { session: doublingSession(), version: 1 } } },
    'options.models.a.version must be a string that is not empty, got 1',
  ],
  [
    'no batch at all',
    { models: { a: { session: doublingSession(), maxBatch: 0 } } },
    'options.models.a.maxBatch must be a positive integer, got 0',
  ],
  [
    'batches of a model of fixed rows',
    { models: { a: { session: fixed, maxBatch: 4 } } },
    `options.models.a.maxBatch must be 1, got 4: 'x' has 1 row, always, so requests cannot be joined`,
  ],
  ['batches of scalars', { models: { a: { session: scalar, maxBatch: 4 } } }, `'x' has no dimensions`],
  [
    'batches of rows that depend on each other',
    { models: { a: { session: gram, maxBatch: 4 } } },
    `options.models.a.maxBatch must be 1, got 4: dimension 1 of 'y' is 'N', as the rows are, so requests cannot`,
  ],
  [
    'a session without a shape',
    { models: { a: withInput({ name: 'x', isTensor: true, type: 'bool' }) } },
    'shape must be a list',
  ],
  [
    'a session without one of its inputs',

    { models: { a: new FakeSession([, value('x', 'bool', [])] as never, [], () => ({})) } },
    `inputMetadata[0] must be the metadata of an input or output, got undefined`,
  ],
  [
    'a session with null for an input',
    { models: { a: withInput(null as never) } },
    `inputMetadata[0] must be the metadata of an input or output, got null`,
  ],
  [
    'a session with an input twice',
    { models: { a: new FakeSession([value('x', 'bool', []), value('x', 'bool', [])], [], () => ({})) } },
    `inputMetadata[1].name is 'x', which one before it has too`,
  ],
  ...[undefined, null, 1.5, NaN, 2n].map((extent): [string, unknown, string] => [
    `an extent that is ${extent}`,
    { models: { a: withInput(value('x', 'bool', [1, extent as never])) } },
    'inputMetadata[0].shape[1] must be an integer or a name, got',
  ]),
  [
    'a shape with a hole',

    { models: { a: withInput(value('x', 'bool', [, 2] as never)) } },
    'inputMetadata[0].shape[0] must be an integer or a name, got undefined',
  ],
  ['a misspelt option', { models, maxQeue: 1 }, `options.maxQeue is not known; did you mean 'maxQueue'?`],
  ['no queue', { models, maxQueue: 0 }, 'options.maxQueue must be a positive integer, got 0'],
  ['a timeout in words', { models, timeout: '30s' }, `options.timeout must be a positive integer, got '30s'`],
  ['an endless timeout', { models, timeout: 2 ** 31 }, 'positive integer of at most 2147483647'],
  ['a body that never fits', { models, maxHeldBytes: 10 }, 'options.maxHeldBytes is 10; a body of'],
  ['a logger that is none', { models, logger: {} }, 'options.logger must be an object with a method error'],
])('%s', (_, options, message) => {
  expect(() => createHandler(options as HandlerOptions)).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    }),
  );
});

test.each([
  ['strings', { name: 'x', isTensor: true, type: 'string', shape: [1] }, `'x' is a tensor of type 'string'`],
  ['sequences', { name: 'x', isTensor: false }, `'x' is not a tensor`],
])('a model of %s', (_, metadata, message) => {
  expect(() => createHandler({ models: { a: withInput(metadata) } })).toThrow(
    expect.objectContaining({ code: 'ERR_WARPCONV_UNSUPPORTED', message: expect.stringContaining(message) }),
  );
});

test.each<[object, string]>([
  [{ port: -1 }, 'options.port must be a non-negative integer, got -1'],
  [{ port: 65_536 }, 'options.port must be a non-negative integer of at most 65535'],
  [{ host: '' }, `options.host must be a string that is not empty, got ''`],
  [{ closeOn: 'SIGTERM' }, `options.closeOn must be a list of signals, got 'SIGTERM'`],
  [{ closeOn: ['SIGKILL'] }, `options.closeOn[0] must be 'SIGTERM', 'SIGINT' or 'SIGHUP', got 'SIGKILL'`],

  [{ closeOn: [, 'SIGTERM'] }, `options.closeOn[0] must be 'SIGTERM', 'SIGINT' or 'SIGHUP', got undefined`],
  [{ maxQeue: 1 }, `did you mean 'maxQueue'?`],
])('serve() with %o', async (options, message) => {
  await expect(serve({ models, ...options })).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringContaining(message),
  });
});

test('the types take what onnxruntime-node declares', () => {
  // As its declarations have it: a union of metadata, tensors of a class, and results in a mapped type.
  interface OrtTensor {
    readonly type: 'float32' | 'string';
    readonly dims: readonly number[];
    readonly data: Float32Array | string[];
    readonly location: 'none' | 'cpu' | 'gpu-buffer';
    getData(release?: boolean): Promise<Float32Array | string[]>;
    dispose(): void;
  }
  interface OrtSession {
    readonly inputNames: readonly string[];
    readonly outputNames: readonly string[];
    readonly inputMetadata: readonly (
      | { name: string; isTensor: false }
      | { name: string; isTensor: true; type: 'float32' | 'string'; shape: readonly (number | string)[] }
    )[];
    readonly outputMetadata: OrtSession['inputMetadata'];
    run(
      feeds: { [name: string]: OrtTensor },
      options?: { tag?: string },
    ): Promise<{ [name: string]: OrtTensor }>;
    run(
      feeds: { [name: string]: OrtTensor },
      fetches: readonly string[] | { [name: string]: OrtTensor | null },
      options?: { tag?: string },
    ): Promise<{ [name: string]: OrtTensor }>;
  }
  const accept = (session: OrtSession): ServedSession => session;
  expect(accept).toBeInstanceOf(Function);
});
