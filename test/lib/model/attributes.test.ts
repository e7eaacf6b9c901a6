import { flag, float, floats, integer, integers, string, tensor } from '../../../lib/model/attributes';
import type { Attribute, GraphNode } from '../../../lib/model/graph';

const VALUE = { type: 'int64', dims: [1], data: BigInt64Array.of(3n) } as const;

function conv(attributes: Record<string, Attribute>): GraphNode {
  return {
    name: 'stem',
    operator: 'Conv',
    domain: '',
    inputs: [],
    outputs: [],
    attributes: new Map(Object.entries(attributes)),
  };
}

const node = conv({
  group: 2,
  alpha: 0.5,
  strides: [1, 2],
  scales: [0.5, 2],
  auto_pad: 'SAME_UPPER',
  value: VALUE,
  names: ['a'],
  none: [],
});

test('attributes are read by the type that the operator gives them', () => {
  expect(integer(node, 'group')).toBe(2);
  expect(integers(node, 'strides')).toEqual([1, 2]);
  expect(integers(node, 'none')).toEqual([]);
  expect(float(node, 'alpha')).toBe(0.5);
  expect(float(node, 'group')).toBe(2);
  expect(floats(node, 'scales')).toEqual([0.5, 2]);
  expect(string(node, 'auto_pad', ['NOTSET', 'SAME_UPPER'])).toBe('SAME_UPPER');
  expect(tensor(node, 'value')).toBe(VALUE);
  expect(flag(conv({ ceil_mode: 1 }), 'ceil_mode', false)).toBe(true);
  expect(flag(conv({ ceil_mode: 0 }), 'ceil_mode', true)).toBe(false);
});

test('a fallback stands for a missing attribute', () => {
  expect(integer(node, 'missing', 1)).toBe(1);
  expect(integers(node, 'missing', null)).toBeNull();
  expect(float(node, 'missing', 0.25)).toBe(0.25);
  expect(floats(node, 'missing', [1])).toEqual([1]);
  expect(string(node, 'missing', ['NOTSET', 'VALID'], 'NOTSET')).toBe('NOTSET');
  expect(tensor(node, 'missing', null)).toBeNull();
  expect(flag(node, 'missing', true)).toBe(true);
});

test.each<[string, () => unknown, string]>([
  [
    'a missing one',
    () => integer(node, 'axis'),
    "Conv 'stem' has no attribute 'axis', which must be an integer",
  ],
  [
    'a fraction',
    () => integer(node, 'alpha'),
    "attribute 'alpha' of Conv 'stem' must be an integer, got 0.5",
  ],
  ['a list for an integer', () => integer(node, 'strides', 1), 'must be an integer, got [1, 2]'],
  ['an integer for a list', () => integers(node, 'group'), 'must be a list of integers, got 2'],
  ['fractions', () => integers(node, 'scales'), 'must be a list of integers, got [0.5, 2]'],
  ['a string for a number', () => float(node, 'auto_pad'), "must be a number, got 'SAME_UPPER'"],
  ['strings for numbers', () => floats(node, 'names'), "must be a list of numbers, got ['a']"],
  [
    'an unknown word',
    () => string(node, 'auto_pad', ['NOTSET', 'VALID']),
    "must be 'NOTSET' or 'VALID', got 'SAME_UPPER'",
  ],
  [
    'a tensor for an integer',
    () => integer(node, 'value'),
    'must be an integer, got a tensor of int64 with dims [1]',
  ],
  ['a list for a tensor', () => tensor(node, 'strides'), 'must be a tensor, got [1, 2]'],
  ['a two for a flag', () => flag(node, 'group', false), 'must be 0 or 1, got 2'],
])('%s is refused', (_, read, message) => {
  expect(read).toThrow(
    expect.objectContaining({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringContaining(message),
    }),
  );
});

test('a node of another domain is named with it', () => {
  const fused = { ...node, operator: 'FusedConv', domain: 'com.microsoft' };
  expect(() => integer(fused, 'axis')).toThrow("com.microsoft.FusedConv 'stem' has no attribute");
});
