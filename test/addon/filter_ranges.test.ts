/** What native code finds of the magnitudes of filters. */
import type { Done, NativeFailure } from '../../lib/addon';
import { addon } from '../../lib/load';

type Given = Parameters<ReturnType<typeof addon>['filterRanges']>;

function find(...[weights, filters, ranges]: [Given[0], Given[1], Given[2]]): Promise<void> {
  return new Promise((resolve, reject) => {
    const done: Done = (failure) => (failure === undefined ? resolve() : reject(failure as unknown as Error));
    addon().filterRanges(weights, filters, ranges, done);
  });
}

test('of each filter the largest and the smallest that is not 0', async () => {
  const ranges = [new Float32Array(4), new Float32Array(2), new Float32Array(0)];
  await find([Float32Array.of(1, -2, 0, 4), Float32Array.of(NaN, 1), new Float32Array(0)], [2, 1, 0], ranges);
  expect(ranges.map((list) => [...list])).toEqual([[2, 1, 4, 4], [NaN, NaN], []]);
});

test('of parts of an array those of the parts', async () => {
  const all = Float32Array.from({ length: 1000 }, (_, i) => i + 1);
  const starts = [0, 7, 500];
  const ranges = starts.map(() => new Float32Array(2));
  await find(
    starts.map((start) => all.subarray(start, start + 100)),
    starts.map(() => 1),
    ranges,
  );
  expect(ranges.map((list) => [...list])).toEqual([
    [100, 1],
    [107, 8],
    [600, 501],
  ]);
});

test.each<[string, unknown[]]>([
  ['lists of different lengths', [[new Float32Array(2)], [1], []]],
  ['filters that weights do not divide into', [[new Float32Array(3)], [2], [new Float32Array(4)]]],
  ['no filters of some weights', [[new Float32Array(3)], [0], [new Float32Array(0)]]],
  ['too small a list of ranges', [[new Float32Array(4)], [2], [new Float32Array(3)]]],
  ['other arrays than of floats', [[new Int32Array(4)], [2], [new Float32Array(4)]]],
  ['what is no array', [[null], [2], [new Float32Array(4)]]],
  ['a number of filters that is none', [[new Float32Array(4)], [-1], [new Float32Array(4)]]],
])('refuses %s', async (_, given) => {
  await expect(find(...(given as [never, never, never]))).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  } satisfies Partial<NativeFailure>);
});
