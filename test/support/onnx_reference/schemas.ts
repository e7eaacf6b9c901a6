/**
 * The operators' signatures, by the opset since which each is so. Inputs read `X:T W:T B:T?`, the last one `…` where any
 * number may follow; those of one letter are of one type. Attributes read `axis:int pads:ints!`, with `!` for what has to
 * be there. Types that no tensor here can have, such as strings, are left out.
 */
import { SIGNED, SMALL_FLOATS, UNSIGNED, type ElementType } from './tensor';

type Types = readonly ElementType[];

const HALF: Types = ['float16', 'float32', 'float64'];
const FLOAT: Types = [...HALF, 'bfloat16'];
const INTEGER: Types = [...SIGNED, ...UNSIGNED];
const WIDE: Types = ['int32', 'int64', 'uint32', 'uint64'];
const NUMBER: Types = [...INTEGER, ...HALF];
const NUMBER_13: Types = [...INTEGER, ...FLOAT];
const ANY: Types = [...NUMBER, 'bool'];
const ANY_13: Types = [...NUMBER_13, 'bool'];
const INDEX: Types = ['int32', 'int64'];
const INT64: Types = ['int64'];
const BOOL: Types = ['bool'];
const BYTES: Types = ['int8', 'uint8'];
/** What numbers are quantised to, by the opset since which it is so. */
const QUANTIZED_19: Types = [...BYTES, ...SMALL_FLOATS.filter((type) => type !== 'float4e2m1')];
const QUANTIZED_21: Types = [...QUANTIZED_19, 'int16', 'uint16', 'int4', 'uint4'];
const QUANTIZED_23: Types = [...QUANTIZED_21, 'float4e2m1'];
const QUANTIZED_25: Types = [...QUANTIZED_23, 'int2', 'uint2'];

export interface Input {
  readonly name: string;
  readonly group: string;
  readonly optional: boolean;
  readonly variadic: boolean;
}

export interface Schema {
  readonly since: number;
  readonly inputs: readonly Input[];
  readonly types: Readonly<Record<string, Types>>;
  readonly attributes: Readonly<Record<string, { readonly kind: string; readonly required: boolean }>>;
  /** The most outputs */
  readonly outputs: number;
  /** ONNX took the operator out here */
  readonly until?: number;
}

type Row = readonly [
  since: number,
  inputs: string,
  types: Readonly<Record<string, Types>>,
  attributes?: string,
  more?: { readonly outputs?: number; readonly until?: number },
];

function schemaOf([since, inputs, types, attributes = '', more = {}]: Row): Schema {
  const words = (text: string) => text.split(' ').filter((word) => word !== '');
  const parsed = words(inputs).map((word): Input => {
    const [, name, group, mark] = /^(\w+):(\w+)([?…]?)$/.exec(word)!;
    return { name: name!, group: group!, optional: mark === '?', variadic: mark === '…' };
  });
  const kinds = words(attributes).map((word) => {
    const [, name, kind, mark] = /^(\w+):(\w+)(!?)$/.exec(word)!;
    return [name!, { kind: kind!, required: mark === '!' }] as const;
  });
  return { since, inputs: parsed, types, attributes: Object.fromEntries(kinds), outputs: 1, ...more };
}

const unary = (since: number, attributes = '', later = 22): Row[] => [
  [since, 'X:T', { T: HALF }, attributes],
  [later, 'X:T', { T: FLOAT }, attributes],
];
const arithmetic: Row[] = [
  [7, 'A:T B:T', { T: [...WIDE, ...HALF] }],
  [13, 'A:T B:T', { T: [...WIDE, ...FLOAT] }],
  [14, 'A:T B:T', { T: NUMBER_13 }],
];
const comparison = (since: number): Row[] => [
  ...(since < 9 ? [[since, 'A:T B:T', { T: HALF }] as const] : []),
  [Math.max(since, 9), 'A:T B:T', { T: NUMBER }],
  [since === 12 ? 16 : 13, 'A:T B:T', { T: NUMBER_13 }],
];
const logic: Row[] = [[7, 'A:T B:T', { T: BOOL }]];
const bitwise: Row[] = [[18, 'A:T B:T', { T: INTEGER }]];
const extreme: Row[] = [
  [6, 'X:T…', { T: HALF }],
  [12, 'X:T…', { T: NUMBER }],
  [13, 'X:T…', { T: NUMBER_13 }],
];
const reduction = (more: Types = [], inputSince = 18): Row[] => [
  [1, 'X:T', { T: [...WIDE, ...HALF] }, 'axes:ints keepdims:int'],
  ...(inputSince > 13
    ? [[13, 'X:T', { T: [...WIDE, ...FLOAT, ...more] }, 'axes:ints keepdims:int'] as const]
    : []),
  [
    inputSince,
    'X:T axes:I?',
    { T: [...WIDE, ...FLOAT, ...more], I: INT64 },
    'keepdims:int noop_with_empty_axes:int',
  ],
];
const [oldestReduction, ...newerReductions] = reduction(['int8', 'uint8']);
const extremeReduction: Row[] = [
  oldestReduction!,
  [12, 'X:T', { T: [...WIDE, ...HALF, 'int8', 'uint8'] }, 'axes:ints keepdims:int'],
  ...newerReductions,
  [
    20,
    'X:T axes:I?',
    { T: [...WIDE, ...FLOAT, 'int8', 'uint8', 'bool'], I: INT64 },
    'keepdims:int noop_with_empty_axes:int',
  ],
];
const logarithmicReduction: Row[] = [
  ...reduction(),
  [28, 'X:T axes:I?', { T: FLOAT, I: INT64 }, 'keepdims:int noop_with_empty_axes:int'],
];
const argument: Row[] = [
  [1, 'X:T', { T: NUMBER }, 'axis:int keepdims:int'],
  [12, 'X:T', { T: NUMBER }, 'axis:int keepdims:int select_last_index:int'],
  [13, 'X:T', { T: NUMBER_13 }, 'axis:int keepdims:int select_last_index:int'],
];
const softmax: Row[] = [
  [1, 'X:T', { T: HALF }, 'axis:int'],
  [13, 'X:T', { T: FLOAT }, 'axis:int'],
];
const RECURRENT =
  'activation_alpha:floats activation_beta:floats activations:strings clip:float direction:string hidden_size:int';
/** @param states - of one kind of cell alone */
function recurrent(states: string, attributes: string, outputs: number): Row[] {
  const inputs = `X:T W:T R:T B:T? lengths:L? H:T?${states}`;
  const older = `${RECURRENT} ${attributes}`;
  return [
    [7, inputs, { T: HALF, L: ['int32'] }, older, { outputs }],
    [14, inputs, { T: HALF, L: ['int32'] }, `${older} layout:int`, { outputs }],
    [22, inputs, { T: FLOAT, L: ['int32'] }, `${older} layout:int`, { outputs }],
  ];
}
const WINDOW = 'auto_pad:string pads:ints strides:ints';
const moved = (inputs: string, types: Readonly<Record<string, Types>>, attributes = ''): Row[] => [
  [1, inputs, { T: ANY, ...types }, attributes],
  [13, inputs, { T: ANY_13, ...types }, attributes],
];
const product: Row[] = [
  [1, 'A:T B:T', { T: HALF }],
  [9, 'A:T B:T', { T: [...HALF, ...WIDE] }],
  [13, 'A:T B:T', { T: [...FLOAT, ...WIDE] }],
];
const NARROW_FLOAT: Types = ['float16', 'bfloat16', 'float32'];
const QUANTIZABLE = { X: [...NARROW_FLOAT, 'int32'], S: [...NARROW_FLOAT, 'int32'] } as const;
const cosineWindow: Row[] = [[17, 'size:I', { I: INDEX }, 'output_datatype:int periodic:int']];
const CONVOLUTION = `${WINDOW} dilations:ints group:int kernel_shape:ints`;
const DEFORMED = 'dilations:ints group:int kernel_shape:ints offset_group:int pads:ints strides:ints';
const TRANSPOSED = `${CONVOLUTION} output_padding:ints output_shape:ints`;
const RESIZE_11 =
  'coordinate_transformation_mode:string cubic_coeff_a:float exclude_outside:int extrapolation_value:float mode:string nearest_mode:string';
const REGIONS = 'mode:string output_height:int output_width:int sampling_ratio:int spatial_scale:float';
const ATTENDED = 'Q:Q K:Q V:W mask:U? past_key:Q? past_value:W?';
const ATTENDED_TYPES = { Q: FLOAT, W: FLOAT, U: ANY_13, I: INT64 } as const;
const ATTENTION =
  'is_causal:int kv_num_heads:int q_num_heads:int qk_matmul_output_mode:int scale:float softcap:float softmax_precision:int';
const CONSTANTS = 'value:tensor value_float:float value_floats:floats value_int:int value_ints:ints';

const STANDARD: Readonly<Record<string, readonly Row[]>> = {
  Abs: [
    [6, 'X:T', { T: NUMBER }],
    [13, 'X:T', { T: NUMBER_13 }],
  ],
  Acos: unary(7),
  Acosh: unary(9),
  Add: arithmetic,
  AffineGrid: [[20, 'theta:T size:I', { T: FLOAT, I: INT64 }, 'align_corners:int']],
  And: logic,
  ArgMax: argument,
  ArgMin: argument,
  Asin: unary(7),
  Asinh: unary(9),
  Atan: unary(7),
  Atanh: unary(9),
  Attention: [
    [23, ATTENDED, ATTENDED_TYPES, ATTENTION, { outputs: 4 }],
    [24, `${ATTENDED} lengths:I?`, ATTENDED_TYPES, ATTENTION, { outputs: 4 }],
    [
      25,
      `${ATTENDED} lengths:I?`,
      ATTENDED_TYPES,
      `${ATTENTION} left_window_size:int right_window_size:int`,
      { outputs: 4 },
    ],
  ],
  AveragePool: [
    [7, 'X:T', { T: HALF }, `${WINDOW} count_include_pad:int kernel_shape:ints!`],
    [10, 'X:T', { T: HALF }, `${WINDOW} ceil_mode:int count_include_pad:int kernel_shape:ints!`],
    [
      19,
      'X:T',
      { T: HALF },
      `${WINDOW} ceil_mode:int count_include_pad:int dilations:ints kernel_shape:ints!`,
    ],
    [
      22,
      'X:T',
      { T: FLOAT },
      `${WINDOW} ceil_mode:int count_include_pad:int dilations:ints kernel_shape:ints!`,
    ],
  ],
  BatchNormalization: [
    [7, 'X:T S:T B:T M:T V:T', { T: HALF }, 'epsilon:float momentum:float spatial:int', { outputs: 5 }],
    [9, 'X:T S:T B:T M:T V:T', { T: HALF }, 'epsilon:float momentum:float', { outputs: 5 }],
    [
      14,
      'X:T S:T B:T M:U V:U',
      { T: FLOAT, U: FLOAT },
      'epsilon:float momentum:float training_mode:int',
      { outputs: 3 },
    ],
    [
      15,
      'X:T S:S B:S M:U V:U',
      { T: FLOAT, S: FLOAT, U: FLOAT },
      'epsilon:float momentum:float training_mode:int',
      { outputs: 3 },
    ],
  ],
  BlackmanWindow: cosineWindow,
  BitCast: [[26, 'X:T', { T: ANY_13 }, 'to:int!']],
  BitShift: [
    [11, 'X:T Y:T', { T: UNSIGNED }, 'direction:string!'],
    [28, 'X:T Y:T', { T: INTEGER }, 'direction:string!'],
  ],
  BitwiseAnd: bitwise,
  BitwiseNot: [[18, 'X:T', { T: INTEGER }]],
  BitwiseOr: bitwise,
  BitwiseXor: bitwise,
  Cast: [
    [6, 'X:T', { T: ANY }, 'to:int!'],
    [13, 'X:T', { T: ANY_13 }, 'to:int!'],
    [19, 'X:T', { T: ANY_13 }, 'saturate:int to:int!'],
    [24, 'X:T', { T: ANY_13 }, 'round_mode:string saturate:int to:int!'],
  ],
  CausalConvWithState: [
    [27, 'X:T W:T B:T? past:T?', { T: NARROW_FLOAT }, 'activation:string', { outputs: 2 }],
  ],
  CastLike: [
    [15, 'X:T Y:U', { T: ANY_13, U: ANY_13 }],
    [19, 'X:T Y:U', { T: ANY_13, U: ANY_13 }, 'saturate:int'],
    [24, 'X:T Y:U', { T: ANY_13, U: ANY_13 }, 'round_mode:string saturate:int'],
  ],
  Ceil: unary(6, '', 13),
  CenterCropPad: [[18, 'X:T shape:I', { T: ANY_13, I: INDEX }, 'axes:ints']],
  Celu: [
    [12, 'X:T', { T: ['float32'] }, 'alpha:float'],
    [28, 'X:T', { T: FLOAT }, 'alpha:float'],
  ],
  Clip: [
    [6, 'X:T', { T: HALF }, 'max:float min:float'],
    [11, 'X:T min:T? max:T?', { T: HALF }],
    [12, 'X:T min:T? max:T?', { T: NUMBER }],
    [13, 'X:T min:T? max:T?', { T: NUMBER_13 }],
  ],
  Col2Im: [[18, 'X:T image:I block:I', { T: ANY_13, I: INT64 }, 'dilations:ints pads:ints strides:ints']],
  Compress: [
    [9, 'X:T C:B', { T: ANY, B: BOOL }, 'axis:int'],
    [28, 'X:T C:B', { T: ANY_13, B: BOOL }, 'axis:int'],
  ],
  Concat: moved('X:T…', {}, 'axis:int!'),
  Constant: [
    [1, '', {}, 'value:tensor!'],
    [11, '', {}, 'value:tensor'],
    [12, '', {}, CONSTANTS],
  ],
  ConstantOfShape: [[9, 'shape:I', { I: INT64 }, 'value:tensor']],
  Conv: [
    [1, 'X:T W:T B:T?', { T: HALF }, CONVOLUTION],
    [22, 'X:T W:T B:T?', { T: FLOAT }, CONVOLUTION],
  ],
  ConvTranspose: [
    [1, 'X:T W:T B:T?', { T: HALF }, TRANSPOSED],
    [22, 'X:T W:T B:T?', { T: FLOAT }, TRANSPOSED],
  ],
  ConvInteger: [[10, 'X:X W:W x_zero:X? w_zero:W?', { X: BYTES, W: BYTES }, CONVOLUTION]],
  Cos: unary(7),
  Cosh: unary(9),
  CumProd: [[26, 'X:T axis:I', { T: [...WIDE, ...FLOAT], I: INDEX }, 'exclusive:int reverse:int']],
  CumSum: [
    [11, 'X:T axis:I', { T: [...WIDE, 'float32', 'float64'], I: INDEX }, 'exclusive:int reverse:int'],
    [14, 'X:T axis:I', { T: [...WIDE, ...FLOAT], I: INDEX }, 'exclusive:int reverse:int'],
  ],
  DFT: [
    [17, 'X:T length:I?', { T: FLOAT, I: INDEX }, 'axis:int inverse:int onesided:int'],
    [20, 'X:T length:I? axis:J?', { T: FLOAT, I: INDEX, J: INT64 }, 'inverse:int onesided:int'],
  ],
  DeformConv: [
    [19, 'X:T W:T offset:T B:T? mask:T?', { T: HALF }, DEFORMED],
    [22, 'X:T W:T offset:T B:T? mask:T?', { T: FLOAT }, DEFORMED],
  ],
  DepthToSpace: [
    [1, 'X:T', { T: ANY }, 'blocksize:int!'],
    [11, 'X:T', { T: ANY }, 'blocksize:int! mode:string'],
    [13, 'X:T', { T: ANY_13 }, 'blocksize:int! mode:string'],
  ],
  DequantizeLinear: [
    [10, 'X:Q scale:S zero:Q?', { Q: [...BYTES, 'int32'], S: ['float32'] }],
    [13, 'X:Q scale:S zero:Q?', { Q: [...BYTES, 'int32'], S: ['float32'] }, 'axis:int'],
    [19, 'X:Q scale:S zero:Q?', { Q: [...QUANTIZED_19, 'int32'], S: NARROW_FLOAT }, 'axis:int'],
    [
      21,
      'X:Q scale:S zero:Q?',
      { Q: [...QUANTIZED_21, 'int32'], S: NARROW_FLOAT },
      'axis:int block_size:int',
    ],
    [
      23,
      'X:Q scale:S zero:Q?',
      { Q: [...QUANTIZED_23, 'int32'], S: NARROW_FLOAT },
      'axis:int block_size:int output_dtype:int',
    ],
    [
      25,
      'X:Q scale:S zero:Q?',
      { Q: [...QUANTIZED_25, 'int32'], S: NARROW_FLOAT },
      'axis:int block_size:int output_dtype:int',
    ],
  ],
  Det: [
    [11, 'X:T', { T: HALF }],
    [22, 'X:T', { T: FLOAT }],
  ],
  Div: arithmetic,
  Dropout: [
    [7, 'X:T', { T: HALF }, 'ratio:float', { outputs: 2 }],
    [10, 'X:T', { T: HALF }, 'ratio:float', { outputs: 2 }],
    [12, 'X:T ratio:R? training_mode:B?', { T: HALF, R: HALF, B: BOOL }, 'seed:int', { outputs: 2 }],
    [13, 'X:T ratio:R? training_mode:B?', { T: FLOAT, R: HALF, B: BOOL }, 'seed:int', { outputs: 2 }],
    [22, 'X:T ratio:R? training_mode:B?', { T: FLOAT, R: FLOAT, B: BOOL }, 'seed:int', { outputs: 2 }],
  ],
  DynamicQuantizeLinear: [[11, 'X:X', { X: ['float32'] }, '', { outputs: 3 }]],
  Einsum: [
    [12, 'X:T…', { T: NUMBER }, 'equation:string!'],
    [28, 'X:T…', { T: NUMBER_13 }, 'equation:string!'],
  ],
  Elu: unary(6, 'alpha:float'),
  Equal: [
    [7, 'A:T B:T', { T: ['bool', 'int32', 'int64'] }],
    [11, 'A:T B:T', { T: ANY }],
    [13, 'A:T B:T', { T: ANY_13 }],
  ],
  Erf: [
    [9, 'X:T', { T: NUMBER }],
    [13, 'X:T', { T: FLOAT }],
  ],
  Exp: unary(6, '', 13),
  Expand: [
    [8, 'X:T shape:I', { T: ANY, I: INT64 }],
    [13, 'X:T shape:I', { T: ANY_13, I: INT64 }],
  ],
  EyeLike: [
    [9, 'X:T', { T: ANY }, 'dtype:int k:int'],
    [22, 'X:T', { T: ANY_13 }, 'dtype:int k:int'],
  ],
  Flatten: [
    [1, 'X:T', { T: HALF }, 'axis:int'],
    [9, 'X:T', { T: ANY }, 'axis:int'],
    [13, 'X:T', { T: ANY_13 }, 'axis:int'],
  ],
  Floor: unary(6, '', 13),
  GRU: recurrent('', 'linear_before_reset:int', 2),
  Gather: moved('X:T indices:I', { I: INDEX }, 'axis:int'),
  GatherElements: [
    [11, 'X:T indices:I', { T: ANY, I: INDEX }, 'axis:int'],
    [13, 'X:T indices:I', { T: ANY_13, I: INDEX }, 'axis:int'],
  ],
  GatherND: [
    [11, 'X:T indices:I', { T: ANY, I: INT64 }],
    [12, 'X:T indices:I', { T: ANY, I: INT64 }, 'batch_dims:int'],
    [13, 'X:T indices:I', { T: ANY_13, I: INT64 }, 'batch_dims:int'],
  ],
  Gelu: [[20, 'X:T', { T: FLOAT }, 'approximate:string']],
  Gemm: [
    [7, 'A:T B:T C:T', { T: HALF }, 'alpha:float beta:float transA:int transB:int'],
    [9, 'A:T B:T C:T', { T: [...HALF, ...WIDE] }, 'alpha:float beta:float transA:int transB:int'],
    [11, 'A:T B:T C:T?', { T: [...HALF, ...WIDE] }, 'alpha:float beta:float transA:int transB:int'],
    [13, 'A:T B:T C:T?', { T: [...FLOAT, ...WIDE] }, 'alpha:float beta:float transA:int transB:int'],
  ],
  GlobalAveragePool: unary(1),
  GlobalLpPool: unary(2, 'p:int'),
  GlobalMaxPool: unary(1),
  Greater: comparison(7),
  GreaterOrEqual: comparison(12),
  // Maps of other types, which it may take from, are left out.
  GridSample: [
    [16, 'X:T grid:G', { T: HALF, G: HALF }, 'align_corners:int mode:string padding_mode:string'],
    [22, 'X:T grid:G', { T: FLOAT, G: FLOAT }, 'align_corners:int mode:string padding_mode:string'],
  ],
  GroupNormalization: [
    [18, 'X:T S:T B:T', { T: FLOAT }, 'epsilon:float num_groups:int!'],
    [21, 'X:T S:T B:T', { T: FLOAT }, 'epsilon:float num_groups:int! stash_type:int'],
  ],
  HammingWindow: cosineWindow,
  HannWindow: cosineWindow,
  HardSigmoid: unary(6, 'alpha:float beta:float'),
  HardSwish: unary(14),
  Hardmax: softmax,
  Identity: moved('X:T', {}),
  InstanceNormalization: [
    [6, 'X:T S:T B:T', { T: HALF }, 'epsilon:float'],
    [22, 'X:T S:T B:T', { T: FLOAT }, 'epsilon:float'],
  ],
  IsInf: [
    [10, 'X:T', { T: ['float32', 'float64'] }, 'detect_negative:int detect_positive:int'],
    [20, 'X:T', { T: FLOAT }, 'detect_negative:int detect_positive:int'],
  ],
  IsNaN: unary(9, '', 13),
  LRN: unary(1, 'alpha:float beta:float bias:float size:int!', 13),
  LSTM: recurrent(' C:T? P:T?', 'input_forget:int', 3),
  LayerNormalization: [
    [17, 'X:T S:T B:T?', { T: FLOAT }, 'axis:int epsilon:float stash_type:int', { outputs: 3 }],
  ],
  LeakyRelu: unary(6, 'alpha:float', 16),
  Less: comparison(7),
  LessOrEqual: comparison(12),
  LinearAttention: [
    [
      27,
      'Q:T K:T V:T past:S? decay:T? beta:T?',
      { T: NARROW_FLOAT, S: NARROW_FLOAT },
      'chunk_size:int kv_num_heads:int! q_num_heads:int! scale:float update_rule:string',
      { outputs: 2 },
    ],
  ],
  Log: unary(6, '', 13),
  LogSoftmax: softmax,
  LpNormalization: unary(1, 'axis:int p:int'),
  LpPool: [
    [2, 'X:T', { T: HALF }, `${WINDOW} kernel_shape:ints! p:int`],
    [18, 'X:T', { T: HALF }, `${WINDOW} ceil_mode:int dilations:ints kernel_shape:ints! p:int`],
    [22, 'X:T', { T: FLOAT }, `${WINDOW} ceil_mode:int dilations:ints kernel_shape:ints! p:int`],
  ],
  MatMul: product,
  MatMulInteger: [[10, 'A:A B:B a_zero:A? b_zero:B?', { A: BYTES, B: BYTES }]],
  Max: extreme,
  MaxPool: [
    [1, 'X:T', { T: HALF }, `${WINDOW} kernel_shape:ints!`],
    [8, 'X:T', { T: HALF }, `${WINDOW} kernel_shape:ints! storage_order:int`, { outputs: 2 }],
    [
      10,
      'X:T',
      { T: HALF },
      `${WINDOW} ceil_mode:int dilations:ints kernel_shape:ints! storage_order:int`,
      { outputs: 2 },
    ],
    [
      12,
      'X:T',
      { T: [...HALF, 'int8', 'uint8'] },
      `${WINDOW} ceil_mode:int dilations:ints kernel_shape:ints! storage_order:int`,
      { outputs: 2 },
    ],
    [
      22,
      'X:T',
      { T: [...FLOAT, 'int8', 'uint8'] },
      `${WINDOW} ceil_mode:int dilations:ints kernel_shape:ints! storage_order:int`,
      { outputs: 2 },
    ],
  ],
  MaxUnpool: [
    [9, 'X:T I:I shape:I?', { T: HALF, I: INT64 }, 'kernel_shape:ints! pads:ints strides:ints'],
    [22, 'X:T I:I shape:I?', { T: FLOAT, I: INT64 }, 'kernel_shape:ints! pads:ints strides:ints'],
  ],
  Mean: [
    [6, 'X:T…', { T: HALF }],
    [13, 'X:T…', { T: FLOAT }],
  ],
  MeanVarianceNormalization: unary(9, 'axes:ints', 13),
  MelWeightMatrix: [
    [17, 'bands:I length:I rate:I low:F high:F', { I: INDEX, F: FLOAT }, 'output_datatype:int'],
  ],
  Min: extreme,
  Mish: unary(18),
  Mod: [
    [10, 'A:T B:T', { T: NUMBER }, 'fmod:int'],
    [13, 'A:T B:T', { T: NUMBER_13 }, 'fmod:int'],
  ],
  Mul: arithmetic,
  Neg: [
    [6, 'X:T', { T: [...SIGNED, ...HALF] }],
    [13, 'X:T', { T: [...SIGNED, ...FLOAT] }],
  ],
  NegativeLogLikelihoodLoss: [
    [12, 'X:T target:I weight:T?', { T: HALF, I: INDEX }, 'ignore_index:int reduction:string'],
    [22, 'X:T target:I weight:T?', { T: FLOAT, I: INDEX }, 'ignore_index:int reduction:string'],
  ],
  NonMaxSuppression: [
    [
      10,
      'boxes:F scores:F most:I? overlap:F? score:F?',
      { F: ['float32'], I: INT64 },
      'center_point_box:int',
    ],
  ],
  NonZero: [
    [9, 'X:T', { T: ANY }],
    [13, 'X:T', { T: ANY_13 }],
  ],
  Not: [[1, 'X:T', { T: BOOL }]],
  OneHot: [
    [9, 'indices:I depth:D values:T', { I: NUMBER, D: NUMBER, T: ANY }, 'axis:int'],
    [28, 'indices:I depth:D values:T', { I: NUMBER, D: NUMBER, T: ANY_13 }, 'axis:int'],
  ],
  Or: logic,
  PRelu: [
    [7, 'X:T slope:T', { T: HALF }],
    [9, 'X:T slope:T', { T: [...HALF, ...WIDE] }],
    [16, 'X:T slope:T', { T: [...FLOAT, ...WIDE] }],
  ],
  Pad: [
    [2, 'X:T', { T: HALF }, 'mode:string pads:ints! value:float'],
    [11, 'X:T pads:I value:T?', { T: NUMBER, I: INT64 }, 'mode:string'],
    [13, 'X:T pads:I value:T?', { T: ANY_13, I: INT64 }, 'mode:string'],
    [18, 'X:T pads:I value:T? axes:A?', { T: ANY_13, I: INT64, A: INDEX }, 'mode:string'],
  ],
  Pow: [
    [7, 'X:T Y:T', { T: HALF }],
    [12, 'X:T Y:U', { T: ['int32', 'int64', ...HALF], U: NUMBER }],
    [13, 'X:T Y:U', { T: ['int32', 'int64', ...FLOAT], U: NUMBER }],
    [15, 'X:T Y:U', { T: ['int32', 'int64', ...FLOAT], U: NUMBER_13 }],
  ],
  QLinearConv: [
    [
      10,
      'X:X Xs:F Xz:X W:W Ws:F Wz:W Ys:F Yz:Y B:B?',
      { X: BYTES, W: BYTES, Y: BYTES, F: ['float32'], B: ['int32'] },
      CONVOLUTION,
    ],
  ],
  // Floats of 8 bits, which it takes since opset 21, are left out.
  QLinearMatMul: [
    [10, 'A:A As:F Az:A B:B Bs:F Bz:B Ys:F Yz:Y', { A: BYTES, B: BYTES, Y: BYTES, F: ['float32'] }],
    [21, 'A:A As:F Az:A B:B Bs:F Bz:B Ys:F Yz:Y', { A: BYTES, B: BYTES, Y: BYTES, F: NARROW_FLOAT }],
  ],
  QuantizeLinear: [
    [10, 'X:X scale:S zero:Z?', { X: ['float32', 'int32'], S: ['float32'], Z: BYTES }],
    [13, 'X:X scale:S zero:Z?', { X: ['float32', 'int32'], S: ['float32'], Z: BYTES }, 'axis:int'],
    [19, 'X:X scale:S zero:Z?', { ...QUANTIZABLE, Z: QUANTIZED_19 }, 'axis:int saturate:int'],
    [
      21,
      'X:X scale:S zero:Z?',
      { ...QUANTIZABLE, Z: QUANTIZED_21 },
      'axis:int block_size:int output_dtype:int saturate:int',
    ],
    [
      23,
      'X:X scale:S zero:Z?',
      { ...QUANTIZABLE, Z: QUANTIZED_23 },
      'axis:int block_size:int output_dtype:int precision:int saturate:int',
    ],
    [
      25,
      'X:X scale:S zero:Z?',
      { ...QUANTIZABLE, Z: QUANTIZED_25 },
      'axis:int block_size:int output_dtype:int precision:int saturate:int',
    ],
  ],
  RNN: recurrent('', '', 2),
  Range: [
    [11, 'start:T limit:T delta:T', { T: ['float32', 'float64', 'int16', 'int32', 'int64'] }],
    [27, 'start:T limit:T delta:T', { T: [...FLOAT, 'int16', 'int32', 'int64'] }, 'stash_type:int'],
  ],
  Reciprocal: unary(6, '', 13),
  ReduceL1: reduction(),
  ReduceL2: reduction(),
  ReduceLogSum: logarithmicReduction,
  ReduceLogSumExp: logarithmicReduction,
  ReduceMax: extremeReduction,
  ReduceMean: reduction(),
  ReduceMin: extremeReduction,
  ReduceProd: reduction(),
  ReduceSum: reduction([], 13),
  ReduceSumSquare: reduction(),
  Relu: [
    [6, 'X:T', { T: HALF }],
    [13, 'X:T', { T: FLOAT }],
    [14, 'X:T', { T: [...FLOAT, ...SIGNED] }],
  ],
  Reshape: [
    [5, 'X:T shape:I', { T: ANY, I: INT64 }],
    [13, 'X:T shape:I', { T: ANY_13, I: INT64 }],
    [14, 'X:T shape:I', { T: ANY_13, I: INT64 }, 'allowzero:int'],
  ],
  Resize: [
    [10, 'X:T scales:S', { T: ANY, S: ['float32'] }, 'mode:string'],
    [11, 'X:T roi:R? scales:S? sizes:I?', { T: ANY, R: HALF, S: ['float32'], I: INT64 }, RESIZE_11],
    [13, 'X:T roi:R? scales:S? sizes:I?', { T: ANY_13, R: HALF, S: ['float32'], I: INT64 }, RESIZE_11],
    [
      18,
      'X:T roi:R? scales:S? sizes:I?',
      { T: ANY_13, R: HALF, S: ['float32'], I: INT64 },
      `${RESIZE_11} antialias:int axes:ints keep_aspect_ratio_policy:string`,
    ],
  ],
  ReverseSequence: [
    [10, 'X:T lengths:I', { T: ANY, I: INT64 }, 'batch_axis:int time_axis:int'],
    [28, 'X:T lengths:I', { T: ANY_13, I: INT64 }, 'batch_axis:int time_axis:int'],
  ],
  RMSNormalization: [[23, 'X:T S:S', { T: FLOAT, S: FLOAT }, 'axis:int epsilon:float stash_type:int']],
  RoiAlign: [
    [10, 'X:T rois:T images:I', { T: HALF, I: INT64 }, REGIONS],
    [16, 'X:T rois:T images:I', { T: HALF, I: INT64 }, `${REGIONS} coordinate_transformation_mode:string`],
    [22, 'X:T rois:T images:I', { T: FLOAT, I: INT64 }, `${REGIONS} coordinate_transformation_mode:string`],
  ],
  RotaryEmbedding: [
    [
      23,
      'X:T cosines:T sines:T ids:I?',
      { T: NARROW_FLOAT, I: INT64 },
      'interleaved:int num_heads:int rotary_embedding_dim:int',
    ],
  ],
  Round: unary(11),
  Scatter: [[9, 'X:T indices:I updates:T', { T: ANY, I: INDEX }, 'axis:int', { until: 11 }]],
  ScatterElements: [
    [11, 'X:T indices:I updates:T', { T: ANY, I: INDEX }, 'axis:int'],
    [13, 'X:T indices:I updates:T', { T: ANY_13, I: INDEX }, 'axis:int'],
    [16, 'X:T indices:I updates:T', { T: ANY_13, I: INDEX }, 'axis:int reduction:string'],
  ],
  ScatterND: [
    [11, 'X:T indices:I updates:T', { T: ANY, I: INT64 }],
    [13, 'X:T indices:I updates:T', { T: ANY_13, I: INT64 }],
    [16, 'X:T indices:I updates:T', { T: ANY_13, I: INT64 }, 'reduction:string'],
  ],
  Selu: unary(6, 'alpha:float gamma:float'),
  Shape: [
    [1, 'X:T', { T: ANY }],
    [13, 'X:T', { T: ANY_13 }],
    [15, 'X:T', { T: ANY_13 }, 'end:int start:int'],
  ],
  Shrink: [[9, 'X:T', { T: NUMBER }, 'bias:float lambd:float']],
  Sigmoid: unary(6, '', 13),
  Sign: [
    [9, 'X:T', { T: NUMBER }],
    [13, 'X:T', { T: NUMBER_13 }],
  ],
  // Not one of ONNX's: some exporters write it.
  Silu: [[7, 'X:T', { T: FLOAT }]],
  Sin: unary(7),
  Sinh: unary(9),
  Size: [
    [1, 'X:T', { T: ANY }],
    [13, 'X:T', { T: ANY_13 }],
  ],
  Slice: [
    [1, 'X:T', { T: ANY }, 'axes:ints ends:ints! starts:ints!'],
    [10, 'X:T starts:I ends:I axes:I? steps:I?', { T: ANY, I: INDEX }],
    [13, 'X:T starts:I ends:I axes:I? steps:I?', { T: ANY_13, I: INDEX }],
  ],
  Softmax: softmax,
  SoftmaxCrossEntropyLoss: [
    [
      12,
      'X:T target:I weight:T?',
      { T: HALF, I: INDEX },
      'ignore_index:int reduction:string',
      { outputs: 2 },
    ],
    [
      13,
      'X:T target:I weight:T?',
      { T: FLOAT, I: INDEX },
      'ignore_index:int reduction:string',
      { outputs: 2 },
    ],
  ],
  Softplus: unary(1),
  Softsign: unary(1),
  SpaceToDepth: [
    ...moved('X:T', {}, 'blocksize:int!'),
    [28, 'X:T', { T: ANY_13 }, 'blocksize:int! mode:string'],
  ],
  Split: [
    [2, 'X:T', { T: ANY }, 'axis:int split:ints', { outputs: Infinity }],
    [13, 'X:T split:I?', { T: ANY_13, I: INT64 }, 'axis:int', { outputs: Infinity }],
    [18, 'X:T split:I?', { T: ANY_13, I: INT64 }, 'axis:int num_outputs:int', { outputs: Infinity }],
  ],
  Sqrt: unary(6, '', 13),
  STFT: [[17, 'X:T step:I window:T? length:I?', { T: FLOAT, I: INDEX }, 'onesided:int']],
  Squeeze: [
    [1, 'X:T', { T: ANY }, 'axes:ints'],
    [13, 'X:T axes:I?', { T: ANY_13, I: INT64 }],
  ],
  Sub: arithmetic,
  Sum: [
    [6, 'X:T…', { T: HALF }],
    [13, 'X:T…', { T: FLOAT }],
  ],
  SwiGLU: [[28, 'A:T B:T', { T: FLOAT }, 'alpha:float']],
  Swish: [[24, 'X:T', { T: FLOAT }, 'alpha:float']],
  Tan: unary(7),
  Tanh: unary(6, '', 13),
  TensorScatter: [[24, 'X:T update:T starts:I?', { T: ANY_13, I: INT64 }, 'axis:int mode:string']],
  ThresholdedRelu: unary(10, 'alpha:float'),
  Tile: moved('X:T repeats:I', { I: INT64 }),
  TopK: [
    [1, 'X:T', { T: HALF }, 'axis:int k:int!', { outputs: 2 }],
    [10, 'X:T K:I', { T: HALF, I: INT64 }, 'axis:int', { outputs: 2 }],
    [11, 'X:T K:I', { T: NUMBER, I: INT64 }, 'axis:int largest:int sorted:int', { outputs: 2 }],
    [24, 'X:T K:I', { T: NUMBER_13, I: INT64 }, 'axis:int largest:int sorted:int', { outputs: 2 }],
  ],
  Transpose: moved('X:T', {}, 'perm:ints'),
  Trilu: [[14, 'X:T k:I?', { T: ANY_13, I: INT64 }, 'upper:int']],
  Unique: [
    [11, 'X:T', { T: ANY }, 'axis:int sorted:int', { outputs: 4 }],
    [28, 'X:T', { T: ANY_13 }, 'axis:int sorted:int', { outputs: 4 }],
  ],
  Unsqueeze: [
    [1, 'X:T', { T: ANY }, 'axes:ints!'],
    [13, 'X:T axes:I', { T: ANY_13, I: INT64 }],
  ],
  Upsample: [
    [7, 'X:T', { T: ANY }, 'mode:string scales:floats!', { until: 10 }],
    [9, 'X:T scales:S', { T: ANY, S: ['float32'] }, 'mode:string', { until: 10 }],
  ],
  Where: [
    [9, 'C:B X:T Y:T', { B: BOOL, T: ANY }],
    [16, 'C:B X:T Y:T', { B: BOOL, T: ANY_13 }],
  ],
  Xor: logic,
};

const FLOAT32: Types = ['float32'];
const qLinear = (inputs: string, attributes = ''): Row[] => [
  [1, `${inputs} Ys:F Yz:T?`, { T: BYTES, F: FLOAT32 }, attributes],
];
const Q_UNARY = 'X:T Xs:F Xz:T?';
const Q_BINARY = 'A:T As:F Az:T? B:T Bs:F Bz:T?';

/** By onnxruntime's texts; floats may be of any type, though each of its kernels takes only some. */
const MICROSOFT: Readonly<Record<string, readonly Row[]>> = {
  Attention: [
    [
      1,
      'X:T W:T B:T? mask:I? past:T? added:T? length:I?',
      { T: FLOAT, I: ['int32'] },
      'mask_filter_value:float num_heads:int! qkv_hidden_sizes:ints scale:float unidirectional:int',
    ],
  ],
  BiasGelu: [[1, 'X:T B:T', { T: FLOAT }]],
  DynamicQuantizeLSTM: [
    [
      1,
      'X:F W:W R:R B:F? lengths:L? H:F? C:F? P:F? Ws:F Wz:W Rs:F Rz:R',
      { F: FLOAT32, W: BYTES, R: BYTES, L: ['int32'] },
      `${RECURRENT} input_forget:int`,
      { outputs: 3 },
    ],
  ],
  DynamicQuantizeMatMul: [[1, 'A:F B:B Bs:F Bz:B? bias:F?', { F: FLOAT32, B: BYTES }]],
  FastGelu: [[1, 'X:T B:T?', { T: FLOAT }]],
  FusedConv: [
    [1, 'X:T W:T B:T? Z:T?', { T: FLOAT }, `${CONVOLUTION} activation:string activation_params:floats`],
  ],
  FusedMatMul: [
    [1, 'A:T B:T', { T: FLOAT }, 'alpha:float transA:int transB:int transBatchA:int transBatchB:int'],
  ],
  MatMulIntegerToFloat: [[1, 'A:A B:B As:F Bs:F Az:A? Bz:B? bias:F?', { A: BYTES, B: BYTES, F: FLOAT32 }]],
  MatMulNBits: [
    [
      1,
      'A:T B:B scales:T zeros:Z? order:I? bias:T?',
      { T: FLOAT, B: ['uint8'], Z: ['uint8', ...FLOAT], I: ['int32'] },
      'K:int! N:int! accuracy_level:int bits:int block_size:int!',
    ],
  ],
  MultiHeadAttention: [
    [
      1,
      'Q:T K:T? V:T? B:T? mask:I? added:T? pastK:T? pastV:T?',
      { T: FLOAT, I: ['int32'] },
      'mask_filter_value:float num_heads:int! scale:float unidirectional:int',
    ],
  ],
  NhwcConv: [[1, 'X:T W:T B:T?', { T: FLOAT }, `${CONVOLUTION} activation:string activation_params:floats`]],
  QGemm: [
    [
      1,
      'A:A As:F Az:A B:B Bs:F Bz:B C:C? Ys:F? Yz:Y?',
      { A: BYTES, B: BYTES, C: ['int32'], F: FLOAT32, Y: BYTES },
      'alpha:float transA:int transB:int',
    ],
  ],
  QLinearAdd: qLinear(Q_BINARY),
  QLinearAveragePool: qLinear(
    Q_UNARY,
    `${WINDOW} ceil_mode:int channels_last:int count_include_pad:int kernel_shape:ints!`,
  ),
  QLinearConcat: [
    [1, 'Ys:F Yz:T inputs:V…', { T: BYTES, F: FLOAT32, V: [...BYTES, 'float32'] }, 'axis:int!'],
  ],
  QLinearGlobalAveragePool: qLinear(Q_UNARY, 'channels_last:int'),
  QLinearLeakyRelu: qLinear(Q_UNARY, 'alpha:float'),
  QLinearMul: qLinear(Q_BINARY),
  QLinearSigmoid: qLinear(Q_UNARY),
  QLinearSoftmax: qLinear(Q_UNARY, 'axis:int opset:int!'),
  Gelu: [[1, 'X:T', { T: FLOAT }]],
  QuickGelu: [[1, 'X:T', { T: FLOAT }, 'alpha:float']],
  SimplifiedLayerNormalization: [
    [1, 'X:T S:S', { T: FLOAT, S: FLOAT }, 'axis:int epsilon:float stash_type:int', { outputs: 2 }],
  ],
  SkipLayerNormalization: [[1, 'X:T Y:T S:T B:T? bias:T?', { T: FLOAT }, 'epsilon:float', { outputs: 4 }]],
  SkipSimplifiedLayerNormalization: [
    [1, 'X:T Y:T S:T bias:T?', { T: FLOAT }, 'epsilon:float', { outputs: 4 }],
  ],
};

const SCHEMAS: ReadonlyMap<string, readonly Schema[]> = new Map([
  ...Object.entries(STANDARD).map(([name, rows]) => [name, rows.map(schemaOf)] as const),
  ...Object.entries(MICROSOFT).map(([name, rows]) => [`com.microsoft.${name}`, rows.map(schemaOf)] as const),
]);

/** Of ONNX's own operators and Microsoft's, `com.microsoft.` in front of the name. */
export function schemasOf(operator: string): readonly Schema[] {
  const schemas = SCHEMAS.get(operator);
  if (schemas === undefined) throw new Error(`no schema of ${operator}`);
  return schemas;
}

/** The operators that there are schemas of. */
export function schemaNames(): string[] {
  return [...SCHEMAS.keys()];
}

/** The signature in an opset; `undefined` where the opset has no such operator. */
export function schemaIn(operator: string, opset: number): Schema | undefined {
  const schema = schemasOf(operator).findLast(({ since }) => since <= opset);
  return schema !== undefined && opset < (schema.until ?? Infinity) ? schema : undefined;
}
