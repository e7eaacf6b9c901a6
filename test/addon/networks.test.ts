/** Small networks that PyTorch exported, against what PyTorch made of them in double precision. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { InferenceSession, Tensor } from '../../lib';
import { expectWithinBudget } from '../support/compare';
import { TEST_DEVICE } from '../support/gpu';

interface Packed {
  readonly type: 'float32' | 'float64' | 'int64';
  readonly dims: readonly number[];
  readonly data: string;
}

interface Fixture {
  readonly name: string;
  readonly model: string;
  readonly inputs: readonly Packed[];
  readonly output: Packed;
}

const file = path.join(__dirname, '..', 'fixtures', 'networks.json');
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: Fixture[] };

/** The bytes on a boundary of any element. */
function bytesOf(text: string): ArrayBuffer {
  return new Uint8Array(Buffer.from(text, 'base64')).buffer;
}

function feedsOf({ inputs }: Fixture): Record<string, Tensor> {
  return Object.fromEntries(
    inputs.map(({ dims, data }, i) => [`input${i}`, new Tensor(new Float32Array(bytesOf(data)), dims)]),
  );
}

/**
 * What rounding may do to a network: a few hundred units in the last place of its largest output. A wrong formula, edge
 * or order of elements is off by orders of magnitude more.
 */
function expectClose(actual: Float32Array, expected: Float64Array, name: string): void {
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const bound = new Float64Array(expected.length).fill(largest);
  expectWithinBudget(actual, { y: expected, bound }, name, 2e-5);
}

test.each(cases.map((fixture) => [fixture.name, fixture] as const))('%s', async (name, fixture) => {
  const model = new Uint8Array(bytesOf(fixture.model));
  await using session = await InferenceSession.create(model, { device: TEST_DEVICE });
  const { output } = await session.run(feedsOf(fixture));
  expect(output!.dims).toEqual(fixture.output.dims);
  const expected = bytesOf(fixture.output.data);
  if (fixture.output.type === 'int64') expect(output!.data).toEqual(new BigInt64Array(expected));
  else expectClose(output!.data as Float32Array, new Float64Array(expected), name);
});
