/** Networks in halves on a GPU, against float32 on the CPU. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { devices, InferenceSession, Tensor, type GpuInfo } from '../../lib';
import { describeGpu } from '../support/gpu';
import { HALF_NETWORKS } from '../support/half_networks';
import { Random } from '../support/random';

interface Network {
  readonly model: Uint8Array;
  readonly feeds: Readonly<Record<string, Tensor>>;
}

const random = new Random(11);
const reals = (dims: readonly number[]) =>
  new Tensor(
    Float32Array.from(
      { length: dims.reduce((product, extent) => product * extent, 1) },
      () => 2 * random.uniform() - 1,
    ),
    dims,
  );

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'));

interface Fixtures {
  readonly cases: readonly {
    readonly name: string;
    readonly model: string;
    readonly inputs: readonly { readonly dims: readonly number[]; readonly data: string }[];
  }[];
}

const file = path.join(__dirname, '..', 'fixtures', 'networks.json');
const fixtures = (JSON.parse(readFileSync(file, 'utf8')) as Fixtures).cases.map(
  ({ name, model, inputs }): [string, Network] => {
    const feeds = inputs.map(({ dims, data }, i) => {
      return [`input${i}`, new Tensor(new Float32Array(bytesOf(data).buffer), dims)] as const;
    });
    return [name, { model: bytesOf(model), feeds: Object.fromEntries(feeds) }];
  },
);
const networks = Object.entries(HALF_NETWORKS).map(([name, { model, dims }]): [string, Network] => {
  return [name, { model, feeds: { x: reals(dims) } }];
});

/** What roundings of a half may do in some twenty layers, of the largest output */
const BOUNDS = { fp16: 4e-3, bf16: 4e-2 } as const;

function requireClose(actual: Tensor, expected: Tensor, bound: number): void {
  expect(actual.dims).toEqual(expected.dims);
  if (expected.type !== 'float32') {
    expect(actual.data).toEqual(expected.data);
    return;
  }
  const [found, wanted] = [actual.data as Float32Array, expected.data as Float32Array];
  const largest = wanted.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const isClose = wanted.every((value, i) => Math.abs(value - found[i]!) <= bound * largest);
  expect(isClose).toBe(true);
}

describeGpu('a session in halves', () => {
  const gpu = devices().find((device): device is GpuInfo => device.type === 'cuda');
  const hasHalves = gpu?.computeCapability === '9.0';

  describe.each([...networks, ...fixtures])('%s', (_, { model, feeds }) => {
    test.each(['fp16', 'bf16'] as const)('in %s', async (precision) => {
      await using exact = await InferenceSession.create(model, { device: 'cpu' });
      await using session = await InferenceSession.create(model, { device: 'cuda', precision });
      const expected = await exact.run(feeds);
      // Later runs replay their launches as graphs.
      for (let runs = 0; runs < 4; runs++) {
        const outputs = await session.run(feeds);
        for (const name of session.outputNames)
          requireClose(outputs[name]!, expected[name]!, BOUNDS[precision]);
      }
      const own = (await session.profile(feeds)).precision;
      expect(own).toBe(hasHalves ? precision : 'fp32');
    });
  });
});
