import { digits, inBytes, scaled, table } from '../../../lib/commands/table';

test('columns are as wide as their cells, and numbers are at the right', () => {
  const rows = [
    ['ms', 'node'],
    ['1', 'a'],
    ['100', 'bcd'],
  ];
  expect(table(rows, ['ms'])).toBe(' ms  node\n  1  a\n100  bcd\n');
});

test.each([
  [0, '0'],
  [999, '999'],
  [27_648, '27.6 k'],
  [999_999, '1.00 M'],
  [2e18, '2000 P'],
])('%d is scaled to %s', (value, expected) => {
  expect(scaled(value)).toBe(expected);
});

test.each([
  [0.1234, '0.123'],
  [0.01234, '0.0123'],
  [0.9999, '1.00'],
  [12.34, '12.3'],
  [1234.5, '1235'],
])('%d has the digits %s', (value, expected) => {
  expect(digits(value)).toBe(expected);
});

test.each([
  [0, '0 bytes'],
  [1023, '1023 bytes'],
  [123_947, '121 KiB'],
  [4_745_517, '4.53 MiB'],
])('%d bytes are %s', (bytes, expected) => {
  expect(inBytes(bytes)).toBe(expected);
});
