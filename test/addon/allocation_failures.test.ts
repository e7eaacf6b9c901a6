/**
 * Memory that native code cannot have: every failed allocation is the package's own error, and everything works
 * afterwards. A compiled allocator fails them, in processes of their own, so that a crash is a failure.
 *
 * WARPCONV_ALLOCATION_FAILURES=all fails every one also where the operation is the first of its process.
 */
import { rmSync } from 'node:fs';

import { runChild } from '../support/child';
import { buildFailingAllocator } from '../support/failing_allocator';

const allocator = buildFailingAllocator();
const unavailable = typeof allocator === 'string' ? allocator : undefined;
const folder = typeof allocator === 'string' ? undefined : allocator.folder;
const env = typeof allocator === 'string' ? {} : allocator.env;
afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
});
const every = process.env.WARPCONV_ALLOCATION_FAILURES === 'all';

const OPERATIONS = [
  'conv2dSync',
  'conv2d',
  'atOnce',
  'aborted',
  'create',
  'tuned',
  'run',
  'runs',
  'runSync',
  'explain',
  'algorithms',
  'facts',
  'session',
  'sessionRun',
  'sessionRunSync',
  'sessionExplain',
];
/** How many fail in a row: more than any operation makes, so that no memory is had from one point on. */
const [ONE, ALL] = ['1', '1000000'];
const [ON_ANY, ON_THIS, ON_OTHERS] = ['0', '1', '2'];

interface Failures {
  readonly length: string;
  readonly threads?: string;
  readonly first?: number;
  readonly step?: number;
  readonly warmUps?: number;
}

async function survivors(
  operation: string,
  { length, threads = ON_ANY, first = 1, step = 1, warmUps = 2 }: Failures,
): Promise<number> {
  const numbers = [length, threads, first, step, warmUps].map(String);
  const ending = await runChild(['allocation_failures.cjs', operation, ...numbers], { env });
  // Standard error ends with the point at which a process crashed.
  expect(ending).toMatchObject({
    code: 0,
    signal: null,
    stdout: expect.stringMatching(/^\d+ survived\n$/) as string,
  });
  return Number.parseInt(ending.stdout, 10);
}

if (unavailable !== undefined) test.skip(`${unavailable}`, () => {});
else {
  test.each(OPERATIONS)('%s survives each failed allocation', async (operation) => {
    expect(await survivors(operation, { length: ONE })).toBeGreaterThan(0);
  });

  test.each(OPERATIONS)(
    '%s survives where no more memory is had from some allocation on',
    async (operation) => {
      await survivors(operation, { length: ALL, step: every ? 1 : 3 });
    },
  );

  test.each([
    ['of the event loop', ON_THIS],
    ['of the executor', ON_OTHERS],
  ])('calls survive where only threads %s get no memory', async (_, threads) => {
    for (const operation of ['runs', 'session'])
      await survivors(operation, { length: ALL, threads, step: 3 });
  });

  // What is allocated once in a process is allocated then.
  test.each(['conv2dSync', 'conv2d', 'create', 'session', 'facts'])(
    '%s survives failed allocations as the first call of a process',
    async (operation) => {
      const points = every ? Array.from({ length: 400 }, (_, i) => i + 1) : [1, 2, 4, 8, 16, 32];
      for (const first of points) await survivors(operation, { length: ONE, first, warmUps: 0 });
    },
  );
}
