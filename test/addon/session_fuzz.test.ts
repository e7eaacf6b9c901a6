/**
 * Damaged model files, all the way: each is refused with a code, or compiled and run, within seconds. Every file has a
 * seed of its own; to repeat a failure, set WARPCONV_FUZZ_SEED to the one in its message, and that file comes first. The
 * first seed is fixed, so that what a change breaks is seen with that change; other seeds are for hunting.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { InferenceSession, Tensor, type ValueMetadata } from '../../lib';
import { newArray } from '../../lib/tensor/tensor';
import { damage } from '../support/damage';
import { TEST_DEVICE } from '../support/gpu';
import { Random } from '../support/random';

const FILES = 2000;
const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? 1);

const file = path.join(__dirname, '..', 'fixtures', 'networks.json');
const { cases } = JSON.parse(readFileSync(file, 'utf8')) as {
  cases: { model: string; inputs: { dims: number[] }[] }[];
};
const MODELS = cases.map(({ model }) => new Uint8Array(Buffer.from(model, 'base64')));

/** Mostly what the undamaged network takes. */
function feedOf({ type, shape }: ValueMetadata, dims: readonly number[], random: Random): Tensor {
  const fits = shape.length === dims.length && random.chance(0.9);
  const extents = fits ? dims : shape.map((extent) => (typeof extent === 'number' ? extent : 2));
  const small = extents.map((extent) => Math.min(Math.max(extent, 0), 64));
  const size = small.reduce((product, extent) => product * extent, 1);
  return new Tensor(type, newArray(type, [Math.min(size, 2 ** 20)], 'a feed') as never, small);
}

const CODES = ['INVALID_MODEL', 'UNSUPPORTED', 'INVALID_ARGUMENT', 'OUT_OF_MEMORY', 'ABORTED'];

async function outcomeOf(seed: number): Promise<string> {
  const random = new Random(seed);
  const which = random.integer(0, MODELS.length - 1);
  const bytes = damage(MODELS[which]!, random, MODELS);
  try {
    await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
    const { inputs } = cases[which]!;
    const feeds = session.inputMetadata.map(
      (input, i) => [input.name, feedOf(input, inputs[i]?.dims ?? [], random)] as const,
    );
    // Nothing forbids a network that takes minutes.
    await session.run(Object.fromEntries(feeds), { signal: AbortSignal.timeout(2000) });
    return 'ran';
  } catch (error) {
    const code = String((error as { code?: string }).code).replace('ERR_WARPCONV_', '');
    if (CODES.includes(code)) return code;
    const repeat = `WARPCONV_FUZZ_SEED=${seed} npx jest test/addon/session_fuzz.test.ts`;
    throw new Error(`${String(error)}; repeat with ${repeat}`, { cause: error });
  }
}

test('damaged files are refused or run', async () => {
  const counts: Record<string, number> = {};
  for (let index = 0; index < FILES; index++) {
    const outcome = await outcomeOf((firstSeed + index) % 2 ** 32);
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  process.stdout.write(`damaged networks, first seed ${firstSeed}: ${JSON.stringify(counts)}\n`);
  // Were all refused, or none, the damage would be of no use.
  expect(counts.ran).toBeGreaterThan(0);
  expect(counts.INVALID_MODEL).toBeGreaterThan(0);
}, 300_000);
