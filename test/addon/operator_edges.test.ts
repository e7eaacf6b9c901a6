/** Operators where a number is at the edge of its type, or an attribute at that of what ONNX allows. */
import { InferenceSession, Tensor } from '../../lib';
import { AttributeProto_AttributeType as Kind } from '../../lib/model/onnx/onnx_pb';
import { CONSTRUCTORS, type DataType } from '../../lib/tensor/tensor';
import { bitsIn } from '../support/float16_bits';
import { TEST_DEVICE } from '../support/gpu';
import {
  attribute,
  float,
  node,
  onnxModel,
  typedTensor,
  value,
  type AttributeValue,
} from '../support/onnx_builder';

interface Given {
  readonly type: DataType;
  readonly dims: readonly number[];
  readonly elements: readonly (number | bigint)[];
  readonly isInitializer?: boolean;
}

interface Model {
  readonly operator: string;
  readonly opset: number;
  readonly inputs: readonly Given[];
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
  readonly outputs?: number;
}

/** A model of one node, of which nobody says what types its outputs have. */
async function compute({ operator, opset, inputs, attributes = {}, outputs = 1 }: Model) {
  const names = inputs.map((_, i) => `x${i}`);
  const results = Array.from({ length: outputs }, (_, i) => `y${i}`);
  const fed = inputs.flatMap((input, i) => (input.isInitializer ? [] : [[names[i]!, input] as const]));
  const bytes = onnxModel({
    opset,
    inputs: fed.map(([name, { dims, type }]) => value(name, dims, type)),
    initializers: inputs.flatMap(({ isInitializer, dims, elements, type }, i) =>
      isInitializer ? [typedTensor(names[i]!, dims, elements, type)] : [],
    ),
    nodes: [node(operator, names, results, attributes)],
    outputs: results.map((name) => value(name)),
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const feeds = fed.map(([name, { type, dims, elements }]) => {
    const Elements = CONSTRUCTORS[type] as unknown as { from(list: readonly unknown[]): Float32Array };
    const isBig = type.endsWith('int64');
    return [
      name,
      new Tensor(type as 'float32', Elements.from(isBig ? elements.map(BigInt) : elements), dims),
    ];
  });
  const made = await session.run(Object.fromEntries(feeds) as Record<string, Tensor>);
  return results.map(
    (name) => `${made[name]!.type}[${made[name]!.dims.join()}] ${bitsIn(made[name]!.data).join()}`,
  );
}

const list = (...numbers: number[]) => attribute({ type: Kind.INTS, ints: numbers.map(BigInt) });

function fed(type: DataType, dims: readonly number[], ...elements: (number | bigint)[]): Given {
  return { type, dims, elements };
}

function known(type: DataType, dims: readonly number[], ...elements: (number | bigint)[]): Given {
  return { type, dims, elements, isInitializer: true };
}

const LONG = 2n ** 60n + 2n ** 36n + 1n;
const FAR = 2n ** 60n + 2n ** 52n + 1n;

type Computed = readonly [what: string, model: Model, outputs: readonly string[]];

const COMPUTED: readonly Computed[] = [
  [
    'attributes that are left out are float32, as those of a file are',
    { operator: 'HardSigmoid', opset: 22, inputs: [fed('float64', [1], 1)] },
    [`float64[1] ${Math.fround(0.2) + 0.5}`],
  ],
  [
    'the mean and the deviation of halves are float32',
    {
      operator: 'LayerNormalization',
      opset: 17,
      inputs: [fed('float16', [1, 2], 0x3c00, 0x3c00), fed('float16', [2], 0x3c00, 0x3c00)],
      attributes: { epsilon: float(0.25) },
      outputs: 3,
    },
    ['float16[1,2] 0,0', 'float32[1,1] 1', 'float32[1,1] 2'],
  ],
  [
    'a sample on the outermost line that counts is counted: the fourth of nine, at -1',
    {
      operator: 'RoiAlign',
      opset: 22,
      inputs: [
        fed('float64', [1, 1, 1, 1], 81),
        fed('float64', [1, 4], 0.5, 0.5, 0.5, 0.5 - 18 / 7),
        fed('int64', [1], 0),
      ],
      attributes: { sampling_ratio: 9 },
    },
    ['float64[1,1,1,1] 36'],
  ],
  ...(
    [
      [fed('float32', [], 2), 'float32[2,2] -2,2,-2,2'],
      [fed('float32', [2, 1], 2, 3), 'float32[2,2] -2,2,-3,3'],
    ] as const
  ).map(([scale, output]): Computed => [
    `a layer is scaled by [${scale.dims.join()}]`,
    {
      operator: 'LayerNormalization',
      opset: 17,
      inputs: [fed('float32', [2, 2], 1, 3, 5, 7), scale],
      attributes: { epsilon: float(0) },
    },
    [output],
  ]),
  ...(
    [
      [fed('float32', [1, 2], 2, 2), fed('float16', [2], 0x3800, 0x4200), `float16[1,2] ${0x3800},${0x4200}`],
      [fed('float16', [1, 2], 0x4000, 0x4000), fed('float32', [2], 0.5, 3), 'float32[1,2] 0.5,3'],
      [fed('float64', [1, 2], 2, 2), fed('float32', [2], 0.5, 3), 'float32[1,2] 0.5,3'],
    ] as const
  ).map(([input, scale, output]): Computed => [
    `a root mean square of ${input.type} gives the type of its scale, ${scale.type}`,
    { operator: 'RMSNormalization', opset: 23, inputs: [input, scale], attributes: { epsilon: float(0) } },
    [output],
  ]),
  [
    'a depth is cut towards zero',
    {
      operator: 'OneHot',
      opset: 11,
      inputs: [fed('int64', [1], 1), known('float32', [], 2.5), fed('float32', [2], 0, 1)],
    },
    ['float32[1,2] 0,1'],
  ],
  [
    'an index beyond the depth is none, however long it is',
    {
      operator: 'OneHot',
      opset: 11,
      inputs: [fed('uint64', [1], 2n ** 64n - 1n), known('int64', [], 2), fed('float32', [2], 0, 1)],
    },
    ['float32[1,2] 0,0'],
  ],
  [
    'an index that is known and infinite is none',
    {
      operator: 'OneHot',
      opset: 11,
      inputs: [known('float32', [2], -Infinity, 1e30), known('int64', [], 2), fed('float32', [2], 0, 1)],
    },
    ['float32[2,2] 0,0,0,0'],
  ],
  [
    'integers of 64 bits shrink by integers',
    {
      operator: 'Shrink',
      opset: 9,
      inputs: [fed('int64', [3], 2n ** 53n + 1n, -1, -(2n ** 53n) - 1n)],
      attributes: { lambd: float(1.5), bias: float(1) },
    },
    [`int64[3] ${2n ** 53n},0,${-(2n ** 53n)}`],
  ],
  [
    'halves that are added up in one place are rounded once',
    {
      operator: 'ScatterElements',
      opset: 18,
      inputs: [fed('bfloat16', [1], 0x3f80), fed('int64', [2], 0, 0), fed('bfloat16', [2], 0x3b80, 0x3b80)],
      attributes: { reduction: 'add' },
    },
    [`bfloat16[1] ${0x3f81}`],
  ],
  [
    'long integers that differ in their last bit are two',
    {
      operator: 'Unique',
      opset: 11,
      inputs: [fed('int64', [2], 2n ** 63n - 1n, 2n ** 63n - 2n)],
      outputs: 2,
    },
    [`int64[2] ${2n ** 63n - 2n},${2n ** 63n - 1n}`, 'int64[2] 1,0'],
  ],
  [
    'a range of long integers counts by ones',
    {
      operator: 'Range',
      opset: 11,
      inputs: [fed('int64', [], LONG), fed('int64', [], LONG + 3n), fed('int64', [], 1)],
    },
    [`int64[3] ${LONG},${LONG + 1n},${LONG + 2n}`],
  ],
  ...[fed, known].map(
    (given) =>
      [
        `a long integer that is ${given.name} is rounded to float32 once`,
        { operator: 'Cast', opset: 13, inputs: [given('int64', [2], LONG, -LONG)], attributes: { to: 1n } },
        [`float32[2] ${2 ** 60 + 2 ** 37},${-(2 ** 60) - 2 ** 37}`],
      ] as const,
  ),
  ...[fed, known].map(
    (given) =>
      [
        `a long integer that is ${given.name} is rounded to bfloat16 once`,
        { operator: 'Cast', opset: 13, inputs: [given('int64', [2], FAR, -FAR)], attributes: { to: 16n } },
        [`bfloat16[2] ${0x5d81},${0xdd81}`],
      ] as const,
  ),
  [
    'no maximum is in the padding',
    {
      operator: 'MaxPool',
      opset: 12,
      inputs: [fed('uint8', [1, 1, 2], 0, 0)],
      attributes: { kernel_shape: list(2), pads: list(1, 0) },
      outputs: 2,
    },
    ['uint8[1,1,2] 0,0', 'int64[1,1,2] 0,0'],
  ],
  [
    'a constant has all bits of its integer',
    { operator: 'Constant', opset: 13, inputs: [], attributes: { value_int: 2n ** 63n - 1n } },
    [`int64[] ${2n ** 63n - 1n}`],
  ],
  // As onnxruntime, which divides integers: a window is cut off where it reaches beyond the input by less than a stride.
  ...(['MaxPool', 'AveragePool'] as const).flatMap((operator) =>
    (['float32', 'float64'] as const).map(
      (type) =>
        [
          `a window of ${operator} that is larger than the input of ${type} sees what there is`,
          {
            operator,
            opset: 19,
            inputs: [fed(type, [1, 1, 2, 2], 1, 2, 3, 4)],
            attributes: { kernel_shape: list(3, 1), strides: list(2, 1) },
          },
          [`${type}[1,1,1,2] ${operator === 'MaxPool' ? '3,4' : '2,3'}`],
        ] as const,
    ),
  ),
  ...(['MaxPool', 'AveragePool'] as const).flatMap((operator) =>
    (['float32', 'float64'] as const).map(
      (type) =>
        [
          `a window of ${operator} that is a stride larger than the input of ${type} makes nothing`,
          {
            operator,
            opset: 19,
            inputs: [fed(type, [1, 1, 2, 2], 1, 2, 3, 4)],
            attributes: { kernel_shape: list(3, 1) },
          },
          [`${type}[1,1,0,2] `],
        ] as const,
    ),
  ),
];

const REFUSED: readonly (readonly [what: string, model: Model, code: string])[] = [
  [
    'integers times a fraction',
    {
      operator: 'Gemm',
      opset: 13,
      inputs: [fed('int32', [1, 1], 4), fed('int32', [1, 1], 4)],
      attributes: { alpha: float(0.5) },
    },
    'ERR_WARPCONV_UNSUPPORTED',
  ],
  [
    'a range without an end',
    {
      operator: 'Range',
      opset: 11,
      inputs: [fed('float32', [], 0), fed('float32', [], Infinity), fed('float32', [], 1)],
    },
    'ERR_WARPCONV_INVALID_MODEL',
  ],
  [
    'a range by NaN',
    {
      operator: 'Range',
      opset: 11,
      inputs: [fed('float32', [], 0), fed('float32', [], 3), fed('float32', [], NaN)],
    },
    'ERR_WARPCONV_INVALID_MODEL',
  ],
  [
    'sequences of no steps',
    {
      operator: 'RNN',
      opset: 14,
      inputs: [fed('float32', [0, 1, 1]), fed('float32', [1, 1, 1], 1), fed('float32', [1, 1, 1], 1)],
      attributes: { hidden_size: 1n },
    },
    'ERR_WARPCONV_UNSUPPORTED',
  ],
  [
    'negative batch_dims',
    {
      operator: 'GatherND',
      opset: 13,
      inputs: [fed('float32', [2, 2], 1, 2, 3, 4), fed('int64', [2, 1], 0, 1)],
      attributes: { batch_dims: -1n },
    },
    'ERR_WARPCONV_INVALID_MODEL',
  ],
  [
    'output_padding of a stride and more',
    {
      operator: 'ConvTranspose',
      opset: 11,
      inputs: [fed('float32', [1, 1, 2, 2], 1, 2, 3, 4), fed('float32', [1, 1, 1, 1], 1)],
      attributes: { output_padding: list(1, 0) },
    },
    'ERR_WARPCONV_INVALID_MODEL',
  ],
  [
    'scales and sizes',
    {
      operator: 'Resize',
      opset: 13,
      inputs: [
        fed('float32', [2], 1, 2),
        known('float32', [0]),
        known('float32', [1], 2),
        known('int64', [1], 4),
      ],
    },
    'ERR_WARPCONV_INVALID_MODEL',
  ],
  [
    'a window that is two strides larger than the input',
    {
      operator: 'MaxPool',
      opset: 19,
      inputs: [fed('float32', [1, 1, 2, 2], 1, 2, 3, 4)],
      attributes: { kernel_shape: list(4, 1) },
    },
    'ERR_WARPCONV_INVALID_MODEL',
  ],
];

test.each(COMPUTED)('%s', async (_, model, outputs) => {
  expect(await compute(model)).toEqual(outputs);
});

test.each(REFUSED)('%s: refused', async (_, model, code) => {
  await expect(compute(model)).rejects.toMatchObject({ code });
});
