import { nearest } from '../../lib/nearest';

test.each([
  ['treads', 'threads'],
  ['sec', 'seconds'],
  ['jsno', 'json'],
  ['Batch', 'batch'],
  ['verbose', undefined],
  ['x', undefined],
  ['', undefined],
  ['thread'.repeat(1e5), undefined],
])('the nearest to %.40s is %s', (word, expected) => {
  expect(nearest(word, ['threads', 'seconds', 'json', 'batch'])).toBe(expected);
});

test('a word of two letters is near where one of them is right', () => {
  expect(nearest('pp', ['p', 'q'])).toBe('p');
  expect(nearest('rs', ['p', 'q'])).toBeUndefined();
});
