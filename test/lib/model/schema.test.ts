/** The rules for operators' inputs, apart from what computes them. */
import { foldedNames } from '../../../lib/model/fold';
import type { GraphNode } from '../../../lib/model/graph';
import { operatorNames } from '../../../lib/model/operators';
import { checkInputs, hasSchema } from '../../../lib/model/schema';
import type { DataType } from '../../../lib/tensor/tensor';

type Input = readonly [type: DataType, ...dims: number[]] | undefined;

const f32 = (...dims: number[]): Input => ['float32', ...dims];
const i64 = (...dims: number[]): Input => ['int64', ...dims];

function check(operator: string, opset: number, inputs: readonly Input[]): void {
  const names = inputs.map((input, i) => (input === undefined ? '' : `input${i}`));
  const node: GraphNode = {
    name: 'n',
    operator,
    domain: '',
    inputs: names,
    outputs: ['y'],
    attributes: new Map(),
  };
  checkInputs(
    node,
    opset,
    inputs.map((input) => input && { type: input[0], dims: input.slice(1) as number[] }),
  );
}

function complaint(operator: string, opset: number, inputs: readonly Input[]): string {
  try {
    check(operator, opset, inputs);
  } catch (error) {
    expect(error).toMatchObject({ code: 'ERR_WARPCONV_INVALID_MODEL' });
    return (error as Error).message;
  }
  throw new Error(`${operator} was accepted`);
}

test('every operator has rules', () => {
  const all = [...operatorNames(), ...foldedNames()];
  expect(all.filter((operator) => !hasSchema({ domain: '', operator }))).toEqual([]);
  expect(hasSchema({ domain: 'com.microsoft', operator: 'QuickGelu' })).toBe(true);
  expect(hasSchema({ domain: '', operator: 'constructor' })).toBe(false);
  expect(hasSchema({ domain: 'toString', operator: 'Add' })).toBe(false);
});

test.each<[string, number, readonly Input[]]>([
  ['Conv', 11, [f32(1, 2, 5, 5), f32(4, 2, 3, 3)]],
  ['Conv', 11, [f32(1, 2, 5, 5), f32(4, 2, 3, 3), undefined]],
  ['Conv', 11, [f32(1, 2, 5, 5), f32(4, 2, 3, 3), f32(4)]],
  ['Clip', 13, [f32(3), undefined, f32()]],
  ['Clip', 13, [f32(3), f32(1)]],
  ['Clip', 10, [f32(3)]],
  ['Pow', 12, [f32(3), i64()]],
  ['BatchNormalization', 14, [f32(1, 2), f32(2), f32(2), ['float64', 2], ['float64', 2]]],
  ['BatchNormalization', 15, [f32(1, 2), ['float16', 2], ['float16', 2], f32(2), f32(2)]],
  ['Sum', 13, [f32(3)]],
  ['Sum', 13, [f32(3), f32(1), f32(2, 3)]],
  ['Slice', 13, [f32(3), i64(1), i64(1), i64(1), i64(1)]],
  ['Slice', 13, [f32(3), i64(), i64(1)]],
  ['Slice', 9, [f32(3)]],
  ['Constant', 13, []],
  ['Where', 13, [['bool', 3], i64(3), i64()]],
  ['GlobalAveragePool', 13, [f32(2, 3)]],
])('%s of opset %d takes %j', (operator, opset, inputs) => {
  expect(() => check(operator, opset, inputs)).not.toThrow();
});

test.each<[string, number, readonly Input[], RegExp]>([
  ['Conv', 11, [f32(1, 2, 5, 5)], /lacks its input 1, 'W'/],
  ['Conv', 11, [undefined, f32(1, 2, 5, 5)], /lacks its input 0, 'X'/],
  ['Conv', 11, [f32(1, 2), f32(2, 2), f32(3)], /needs 2 along axis 0 of its input 'B'/],
  ['Conv', 11, [f32(2), f32(2, 2)], /2 axes or more as its input 'X', got dims \[2\]/],
  [
    'Conv',
    11,
    [f32(1, 2, 5, 5), ['float16', 4, 2, 3, 3]],
    /'X' and 'W' of one type, got float32 and float16/,
  ],
  ['Clip', 13, [f32(3), f32(2)], /one element as its input 'min', got dims \[2\]/],
  ['Clip', 13, [f32(3), i64()], /'input' and 'min' of one type/],
  ['Clip', 10, [f32(3), f32()], /takes 1 inputs at most in opset 10, got 2/],
  ['Pow', 11, [f32(3), i64()], /a float type as its input 'Y'/],
  ['BatchNormalization', 9, [f32(1, 2), f32(2), f32(2), ['float64', 2], ['float64', 2]], /one type/],
  [
    'BatchNormalization',
    9,
    [f32(1, 2), f32(2), f32(1), f32(2), f32(2)],
    /needs 2 along axis 0 of its input 'B'/,
  ],
  ['Sum', 13, [], /lacks its input 0/],
  ['Sum', 13, [f32(3), undefined], /lacks its input 1/],
  ['Sum', 13, [f32(3), ['float64', 3]], /one type/],
  ['Slice', 13, [f32(3), i64(1), i64(2)], /needs 1 along axis 0 of its input 'ends'/],
  ['Slice', 13, [f32(3), f32(1), f32(1)], /int32 or int64 as its input 'starts'/],
  ['Reshape', 13, [f32(3), ['int32', 1]], /int64 as its input 'shape', got int32/],
  ['Reshape', 13, [f32(3), i64(1, 1)], /1 axis as its input 'shape'/],
  ['And', 13, [f32(3), f32(3)], /bool/],
  [
    'Add',
    13,
    [
      ['bool', 3],
      ['bool', 3],
    ],
    /a type of numbers as its input 'A', got bool/,
  ],
  ['DepthToSpace', 13, [f32(1, 4, 2)], /4 axes/],
])('%s of opset %d does not take %j', (operator, opset, inputs, expected) => {
  expect(complaint(operator, opset, inputs)).toMatch(expected);
});
