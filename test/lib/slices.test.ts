/** Long work that lets the event loop turn, by a clock that the tests set. */
import type * as Slices from '../../lib/slices';
import type { Sliced } from '../../lib/slices';

let mockTime = 0;
jest.mock('../../lib/turn', () => ({
  onNextTurn: (resume: () => void) => {
    if (mockFailure !== undefined) throw mockFailure;
    mockTurns.push(resume);
  },
}));
// The module takes the clock when it loads.
jest.spyOn(performance, 'now').mockImplementation(() => mockTime);
const { atOnce, inSlices, isSliced, resultOf } = jest.requireActual<typeof Slices>('../../lib/slices');

const mockTurns: (() => void)[] = [];
let mockFailure: Error | undefined;
const log: string[] = [];

beforeEach(() => {
  mockTurns.length = 0;
  mockFailure = undefined;
  log.length = 0;
  // Nothing has gone on for a while.
  mockTime += 100;
});

/** Work of so many parts, each of which takes so long. */
function* work(name: string, parts: number, milliseconds: number): Sliced<string> {
  for (let part = 0; part < parts; part++) {
    yield;
    mockTime += milliseconds;
    log.push(name);
  }
  return `${name} is done`;
}

/** All that was done before somebody asked for a turn is one string. */
async function turn(): Promise<string> {
  await settled();
  const done = log.splice(0).join('');
  mockTurns.shift()?.();
  return done;
}

async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

test('is done at once where somebody wants that', () => {
  expect(atOnce(work('a', 50, 1))).toBe('a is done');
  expect(mockTurns).toHaveLength(0);
});

test('is done in the calling turn where it is short', async () => {
  const result = inSlices(work('a', 9, 0.1));
  expect(log).toHaveLength(9);
  expect(await result).toBe('a is done');
  expect(mockTurns).toHaveLength(0);
});

test('stops when a slice is over, and goes on in the next turn', async () => {
  const result = inSlices(work('a', 10, 0.25));
  expect([await turn(), await turn(), await turn()]).toEqual(['aaaa', 'aaaa', 'aa']);
  expect(await result).toBe('a is done');
  expect(mockTurns).toHaveLength(0);
});

test('stops after each part that takes longer than a slice', async () => {
  const result = inSlices(work('a', 3, 7));
  expect([await turn(), await turn(), await turn()]).toEqual(['a', 'a', 'a']);
  await turn();
  expect(await result).toBe('a is done');
});

test('takes turns with other work, so that a turn has one slice in all', async () => {
  const results = Promise.all([
    inSlices(work('a', 8, 0.5)),
    inSlices(work('b', 4, 0.5)),
    inSlices(work('c', 2, 0.5)),
  ]);
  const turns = [];
  for (let i = 0; i < 8; i++) turns.push(await turn());
  expect(turns).toEqual(['aa', 'aa', 'bb', 'cc', 'aa', 'bb', 'aa', '']);
  expect(await results).toEqual(['a is done', 'b is done', 'c is done']);
});

test('goes on in a new slice where nothing has gone on for a while', async () => {
  await inSlices(work('a', 1, 0.9));
  const soon = inSlices(work('b', 2, 0.1));
  expect([await turn(), await turn()]).toEqual(['ab', 'b']);
  await soon;
  mockTime += 5;
  await inSlices(work('c', 9, 0.1));
  expect(mockTurns).toHaveLength(0);
});

test('rejects with what it throws, in whatever slice', async () => {
  function* failing(parts: number): Sliced<never> {
    yield* work('a', parts, 0.5);
    throw new Error('after all');
  }
  await expect(inSlices(failing(1))).rejects.toThrow('after all');
  const late = expect(inSlices(failing(5))).rejects.toThrow('after all');
  while (await turn());
  await late;
});

test('rejects where the loop cannot be asked to turn, whoever waits', async () => {
  const first = inSlices(work('a', 4, 1));
  const second = inSlices(work('b', 4, 1));
  await settled();
  mockFailure = new Error('no memory');
  mockTurns.shift()!();
  await expect(second).rejects.toThrow('no memory');
  await expect(first).rejects.toThrow('no memory');
  mockFailure = undefined;
  mockTime += 100;
  expect(await inSlices(work('c', 1, 0.1))).toBe('c is done');
});

test('tells what is there from what is still to be made', () => {
  const made = { value: 1 };
  expect([isSliced(made), isSliced(undefined), isSliced(work('a', 0, 0))]).toEqual([false, false, true]);
  expect(atOnce(resultOf(made))).toBe(made);
  expect(
    atOnce(
      resultOf<{ value: number }>(
        (function* () {
          yield;
          return made;
        })(),
      ),
    ),
  ).toBe(made);
  expect(atOnce(resultOf(undefined))).toBeUndefined();
});
