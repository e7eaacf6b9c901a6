/**
 * What ONNX says of the inputs of every operator that is known here: how many, of which types and of which shapes; and of
 * what kind attributes are. A node is held to it before anything is computed of it or for it, so that no operator reads a tensor for what it is not.
 *
 * A rule for each input, in order: its name in ONNX, `?` where it may be left out or `*` where any number may follow, its
 * type, and its shape where there is one to hold it to. Types that begin with an upper-case letter stand for any of a
 * class, inputs of the same such name having the same, but those of V each its own: see CLASSES.
 * A shape has an extent for each axis: names bind on their first use, `_` is any extent, and `...` stands for any number of
 * axes behind. In parentheses it is a list, for which a scalar may stand; `[]` is one element, whatever its rank.
 */
import { elementCount } from '../check';
import type { DataType } from '../tensor/tensor';
import type { GraphNode } from './graph';
import { invalidNode, unsupportedNode } from './refusals';

/** Rules from an opset on; the oldest hold before, too. */
type Versions = string | Readonly<Record<number, string>>;

const UNARY_FLOAT = 'X:F';
const UNARY = 'X:N';
const BINARY = 'A:N B:N';
const COMPARISON = 'A:T B:T';
const LOGIC = 'A:bool B:bool';
const MAPS = 'X:F[N,C,...]';
const RECURRENT = 'X:F[_,_,_] W:F[_,_,_] R:F[_,_,_] B?:F[_,_] sequence_lens?:int32[_] initial_h?:F[_,_,_]';
const WINDOW = 'size:I[]';
const REDUCTION = { 7: 'data:R', 18: 'data:R axes?:int64(_)' };
const LOGARITHMIC_REDUCTION = { ...REDUCTION, 28: 'data:F axes?:int64(_)' };
const EXTREME = { 7: 'data:E', 18: 'data:E axes?:int64(_)' };

const STANDARD: Readonly<Record<string, Versions>> = {
  Abs: UNARY,
  Acos: UNARY_FLOAT,
  Acosh: UNARY_FLOAT,
  Add: BINARY,
  AffineGrid: 'theta:F[N,_,_] size:int64(_)',
  And: LOGIC,
  ArgMax: 'data:N',
  ArgMin: 'data:N',
  Asin: UNARY_FLOAT,
  Asinh: UNARY_FLOAT,
  Atan: UNARY_FLOAT,
  Atanh: UNARY_FLOAT,
  Attention: 'Q:F K:F V:F1 attn_mask?:T past_key?:F past_value?:F1 nonpad_kv_seqlen?:int64[_]',
  AveragePool: MAPS,
  BatchNormalization: {
    7: 'X:F scale:F[C] B:F[C] mean:F[C] var:F[C]',
    14: 'X:F scale:F[C] B:F[C] input_mean:F1[C] input_var:F1[C]',
    15: 'X:F scale:F1[C] B:F1[C] input_mean:F2[C] input_var:F2[C]',
  },
  BitShift: { 7: 'X:U Y:U', 26: 'X:Z Y:Z' },
  BitwiseAnd: 'A:Z B:Z',
  BitwiseNot: 'X:Z',
  BitwiseOr: 'A:Z B:Z',
  BitwiseXor: 'A:Z B:Z',
  BitCast: 'input:A',
  BlackmanWindow: WINDOW,
  CausalConvWithState: 'input:H[N,C,_] weight:H[C,_,_] bias?:H[C] past_state?:H[N,C,_]',
  Cast: 'input:A',
  CastLike: 'input:A target_type:A1',
  Ceil: UNARY_FLOAT,
  Celu: UNARY_FLOAT,
  CenterCropPad: 'input_data:T shape:I(_)',
  Clip: { 7: 'input:N', 11: 'input:N min?:N[] max?:N[]' },
  Concat: 'inputs*:T',
  Constant: '',
  ConstantOfShape: 'input:int64(_)',
  Conv: 'X:F[N,C,...] W:F[K,...] B?:F[K]',
  Col2Im: 'input:T[N,C,_] image_shape:int64(_) block_shape:int64(_)',
  Compress: 'input:T condition:bool[_]',
  ConvInteger: 'x:B[N,C,...] w:B1[K,...] x_zero_point?:B[] w_zero_point?:B1(_)',
  ConvTranspose: 'X:F[N,C,...] W:F[C,...] B?:F[_]',
  Cos: UNARY_FLOAT,
  Cosh: UNARY_FLOAT,
  CumProd: 'x:R axis:I[]',
  CumSum: 'x:R axis:I[]',
  DeformConv: 'X:F[N,C,...] W:F[K,...] offset:F[N,...] B?:F[K] mask?:F[N,...]',
  DepthToSpace: 'input:T[N,C,H,W]',
  Det: 'X:F',
  DFT: { 17: 'input:F dft_length?:I[]', 20: 'input:F dft_length?:I[] axis?:int64[]' },
  DequantizeLinear: 'x:Q x_scale:W x_zero_point?:Q',
  Div: BINARY,
  Dropout: { 7: 'data:F', 12: 'data:F ratio?:F1[] training_mode?:bool[]' },
  DynamicQuantizeLinear: 'x:float32',
  Einsum: 'Inputs*:N',
  Elu: UNARY_FLOAT,
  Equal: COMPARISON,
  Erf: { 7: UNARY, 13: UNARY_FLOAT },
  Exp: UNARY_FLOAT,
  Expand: 'input:T shape:int64(_)',
  EyeLike: 'input:T',
  Flatten: 'input:A',
  Floor: UNARY_FLOAT,
  Gather: 'data:T indices:I',
  GatherElements: 'data:T indices:I',
  GatherND: 'data:T indices:int64',
  Gelu: UNARY_FLOAT,
  Gemm: { 7: 'A:N[_,_] B:N[_,_] C:N', 11: 'A:N[_,_] B:N[_,_] C?:N' },
  GlobalAveragePool: MAPS,
  GlobalLpPool: MAPS,
  GlobalMaxPool: MAPS,
  Greater: BINARY,
  GreaterOrEqual: BINARY,
  GridSample: 'X:F[N,C,...] grid:F1[N,...]',
  GroupNormalization: {
    7: 'X:F[N,C,...] scale:F[n] bias:F[n]',
    21: 'X:F[N,C,...] scale:F[C] bias:F[C]',
  },
  HammingWindow: WINDOW,
  HannWindow: WINDOW,
  Hardmax: UNARY_FLOAT,
  GRU: RECURRENT,
  HardSigmoid: UNARY_FLOAT,
  HardSwish: UNARY_FLOAT,
  Identity: 'input:A',
  If: 'cond:bool[]',
  InstanceNormalization: 'input:F[N,C,...] scale:F[C] B:F[C]',
  IsInf: UNARY_FLOAT,
  IsNaN: UNARY_FLOAT,
  LayerNormalization: 'X:F Scale:F B?:F',
  LeakyRelu: UNARY_FLOAT,
  Less: BINARY,
  LessOrEqual: BINARY,
  LinearAttention:
    'query:H[B,T,_] key:H[B,T,_] value:H[B,T,_] past_state?:H1[B,_,_,_] decay?:H[B,T,_] beta?:H[B,T,_]',
  Log: UNARY_FLOAT,
  LogSoftmax: 'input:F',
  LpNormalization: 'input:F',
  LpPool: MAPS,
  LRN: 'X:F[N,C,...]',
  LSTM: `${RECURRENT} initial_c?:F[_,_,_] P?:F[_,_]`,
  MatMul: BINARY,
  MatMulInteger: 'A:B B:B1 a_zero_point?:B b_zero_point?:B1',
  Max: 'data_0*:N',
  MaxPool: { 7: MAPS, 12: 'X:M[N,C,...]' },
  MaxUnpool: 'X:F I:int64 output_shape?:int64(_)',
  Loop: 'M?:int64[] cond?:bool[] v_initial*:V',
  Mean: 'data_0*:F',
  MeanVarianceNormalization: 'X:F',
  MelWeightMatrix:
    'num_mel_bins:I[] dft_length:I[] sample_rate:I[] lower_edge_hertz:F[] upper_edge_hertz:F[]',
  Min: 'data_0*:N',
  Mish: UNARY_FLOAT,
  Mod: BINARY,
  Mul: BINARY,
  Neg: 'X:S',
  NegativeLogLikelihoodLoss: 'input:F[N,C,...] target:I[N,...] weight?:F[C]',
  NonMaxSuppression:
    'boxes:float32[N,B,_] scores:float32[N,_,B] max_output_boxes_per_class?:int64[] iou_threshold?:float32[] score_threshold?:float32[]',
  NonZero: 'X:T',
  Not: 'X:bool',
  OneHot: 'indices:D depth:D1[] values:T[_]',
  Or: LOGIC,
  Pad: {
    7: 'data:F',
    11: 'data:N pads:int64(_) constant_value?:N[]',
    13: 'data:T pads:int64(_) constant_value?:T[]',
    18: 'data:A pads:int64(_) constant_value?:A[] axes?:I(_)',
  },
  Pow: { 7: 'X:F Y:F', 12: 'X:P Y:N1' },
  PRelu: 'X:N slope:N',
  QLinearConv:
    'x:B[N,C,...] x_scale:float32[] x_zero_point:B[] w:B1[K,...] w_scale:float32(_) w_zero_point:B1(_) y_scale:float32[] y_zero_point:B2[] B?:int32[K]',
  QLinearMatMul: 'a:B a_scale:F a_zero_point:B b:B1 b_scale:F b_zero_point:B1 y_scale:F[] y_zero_point:B2[]',
  QuantizeLinear: 'x:O y_scale:L y_zero_point?:Q',
  Range: 'start:N[] limit:N[] delta:N[]',
  Reciprocal: UNARY_FLOAT,
  ReduceL1: REDUCTION,
  ReduceL2: REDUCTION,
  ReduceLogSum: LOGARITHMIC_REDUCTION,
  ReduceLogSumExp: LOGARITHMIC_REDUCTION,
  ReduceMax: EXTREME,
  ReduceMean: REDUCTION,
  ReduceMin: EXTREME,
  ReduceProd: REDUCTION,
  ReduceSum: { 7: 'data:R', 13: 'data:R axes?:int64(_)' },
  ReduceSumSquare: REDUCTION,
  Relu: 'X:S',
  Reshape: 'data:A shape:int64(_)',
  Resize: { 10: 'X:T scales:float32(_)', 11: 'X:T roi?:G(_) scales?:float32(_) sizes?:int64(_)' },
  ReverseSequence: 'input:T sequence_lens:int64[_]',
  RNN: RECURRENT,
  RMSNormalization: 'X:F scale:F1',
  RoiAlign: 'X:F[N,C,H,W] rois:F[R,_] batch_indices:int64[R]',
  RotaryEmbedding: 'X:F cos_cache:F sin_cache:F position_ids?:int64',
  Round: UNARY_FLOAT,
  Scatter: 'data:T indices:I updates:T',
  ScatterElements: 'data:T indices:I updates:T',
  ScatterND: 'data:T indices:int64 updates:T',
  Scan: { 7: 'sequence_lens?:int64[_] initial_state_and_scan_inputs*:V', 9: 'inputs*:V' },
  Selu: UNARY_FLOAT,
  Shape: 'data:A',
  Shrink: 'input:D',
  Sigmoid: UNARY_FLOAT,
  Sign: UNARY,
  Silu: UNARY_FLOAT,
  Sin: UNARY_FLOAT,
  Sinh: UNARY_FLOAT,
  Size: 'data:A',
  Slice: { 7: 'data:T', 10: 'data:T starts:I(n) ends:I(n) axes?:I(n) steps?:I(n)' },
  Softmax: 'input:F',
  SoftmaxCrossEntropyLoss: 'scores:F[N,C,...] labels:I[N,...] weights?:F[C]',
  Softplus: UNARY_FLOAT,
  Softsign: UNARY_FLOAT,
  SpaceToDepth: 'input:T[N,C,H,W]',
  Split: { 7: 'input:T', 13: 'input:T split?:int64(_)' },
  Sqrt: UNARY_FLOAT,
  STFT: 'signal:F frame_step:I[] window?:F[_] frame_length?:I[]',
  Squeeze: { 7: 'data:A', 13: 'data:A axes?:int64(_)' },
  Sub: BINARY,
  Sum: 'data_0*:F',
  SwiGLU: 'A:F B:F',
  Swish: UNARY_FLOAT,
  Tan: UNARY_FLOAT,
  Tanh: UNARY_FLOAT,
  TensorScatter: 'past_cache:T update:T write_indices?:int64[_]',
  ThresholdedRelu: UNARY_FLOAT,
  Tile: 'input:T repeats:int64(_)',
  TopK: { 7: 'X:N', 10: 'X:N K:int64[]' },
  Transpose: 'data:A',
  Trilu: 'input:T k?:int64[]',
  Unique: 'X:T',
  Unsqueeze: { 7: 'data:A', 13: 'data:A axes:int64(_)' },
  Upsample: { 7: 'X:T', 9: 'X:T scales:float32(_)' },
  Where: 'condition:bool X:T Y:T',
  Xor: LOGIC,
};

/** As ONNX calls them in files. */
export type AttributeKind = 'FLOAT' | 'INT' | 'STRING' | 'TENSOR' | 'FLOATS' | 'INTS' | 'STRINGS';

/** ONNX gives a name one kind, whatever the operator; {@link attributeKind} has the exception. */
const ATTRIBUTES: Readonly<Record<AttributeKind, string>> = {
  FLOAT:
    'alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma lambd mask_filter_value max min momentum ratio scale softcap spatial_scale value_float',
  FLOATS: 'activation_alpha activation_beta activation_params scales value_floats',
  INT:
    'K N accuracy_level align_corners allowzero antialias axis batch_axis batch_dims block_size blocksize ceil_mode center_point_box count_include_pad detect_negative ' +
    'detect_positive dtype end exclude_outside exclusive fmod group hidden_size ignore_index input_forget interleaved inverse is_causal k keepdims kv_num_heads largest layout left_window_size linear_before_reset noop_with_empty_axes ' +
    'num_groups num_heads num_outputs onesided output_datatype output_dtype output_height output_width p periodic precision q_num_heads qk_matmul_output_mode right_window_size rotary_embedding_dim softmax_precision reverse sampling_ratio saturate seed select_last_index size sorted spatial start stash_type offset_group chunk_size bits channels_last opset transBatchA transBatchB unidirectional ' +
    'storage_order time_axis to training_mode transA transB upper value_int',
  INTS: 'axes dilations directions ends kernel_shape output_padding output_shape pads perm qkv_hidden_sizes split starts strides value_ints',
  STRING:
    'activation approximate auto_pad coordinate_transformation_mode direction equation keep_aspect_ratio_policy mode nearest_mode padding_mode ' +
    'reduction round_mode update_rule value_string',
  STRINGS: 'activations value_strings',
  TENSOR: 'value',
};

const KIND_BY_NAME: ReadonlyMap<string, AttributeKind> = new Map(
  Object.entries(ATTRIBUTES).flatMap(([kind, names]) =>
    names.split(' ').map((name) => [name, kind as AttributeKind] as const),
  ),
);

/** Kinds that attributes had before an opset. */
const OLDER_KINDS: ReadonlyMap<string, readonly [until: number, kind: AttributeKind]> = new Map([
  ['Cast.to', [6, 'STRING']],
  ['GlobalLpPool.p', [2, 'FLOAT']],
  ['LpPool.p', [2, 'FLOAT']],
]);

/** The kind that an attribute of a node must have; `undefined` where nothing is known of it. */
export function attributeKind(
  node: Pick<GraphNode, 'domain' | 'operator'>,
  name: string,
  opset: number,
): AttributeKind | undefined {
  if (!hasSchema(node)) return undefined;
  const older = OLDER_KINDS.get(`${node.operator}.${name}`);
  if (older !== undefined && opset < older[0]) return older[1];
  return node.operator === 'Pad' && name === 'value' ? 'FLOAT' : KIND_BY_NAME.get(name);
}

const CONVOLUTION = 'X:F[N,C,...] W:F[K,...] B?:F[K]';
const Q_UNARY = 'X:B X_scale:float32[] X_zero_point?:B[] Y_scale:float32[] Y_zero_point?:B[]';
const Q_BINARY =
  'A:B A_scale:float32[] A_zero_point?:B[] B:B B_scale:float32[] B_zero_point?:B[] C_scale:float32[] C_zero_point?:B[]';

const MICROSOFT: Readonly<Record<string, Versions>> = {
  Attention:
    'input:F[B,S,_] weights:F[_,_] bias?:F[_] mask_index?:int32 past?:F attention_bias?:F past_sequence_length?:int32',
  BiasGelu: 'A:F B:F[_]',
  DynamicQuantizeLSTM:
    'X:float32[_,_,_] W:B[_,_,_] R:B1[_,_,_] B?:float32[_,_] sequence_lens?:int32[_] initial_h?:float32[_,_,_] ' +
    'initial_c?:float32[_,_,_] P?:float32[_,_] W_scale:float32[_,...] W_zero_point:B[_,...] R_scale:float32[_,...] R_zero_point:B1[_,...]',
  DynamicQuantizeMatMul: 'A:float32 B:B b_scale:float32 b_zero_point?:B bias?:float32[_]',
  FastGelu: 'X:F bias?:F[_]',
  FusedConv: `${CONVOLUTION} Z?:F`,
  FusedMatMul: 'A:F B:F',
  Gelu: UNARY_FLOAT,
  MatMulIntegerToFloat:
    'A:B B:B1 a_scale:float32 b_scale:float32 a_zero_point?:B b_zero_point?:B1 bias?:float32[_]',
  MatMulNBits: 'A:F B:uint8 scales:F zero_points?:T g_idx?:int32 bias?:F[_]',
  MultiHeadAttention:
    'query:F key?:F value?:F bias?:F[_] key_padding_mask?:int32 attention_bias?:F past_key?:F past_value?:F',
  NhwcConv: 'X:F[N,...] W:F[K,...] B?:F[K]',
  QGemm:
    'A:B[_,_] a_scale:float32[] a_zero_point:B[] B:B1[_,_] b_scale:float32 b_zero_point:B1 C?:int32 y_scale?:float32[] y_zero_point?:B2[]',
  QLinearAdd: Q_BINARY,
  QLinearAveragePool: Q_UNARY,
  QLinearConcat: 'Y_scale:float32[] Y_zero_point:B[] inputs*:V',
  QLinearGlobalAveragePool: Q_UNARY,
  QLinearLeakyRelu: Q_UNARY,
  QLinearMul: Q_BINARY,
  QLinearSigmoid: Q_UNARY,
  QLinearSoftmax: Q_UNARY,
  QuickGelu: UNARY_FLOAT,
  SimplifiedLayerNormalization: 'X:F scale:F1',
  SkipLayerNormalization: 'input:F skip:F gamma:F[_] beta?:F[_] bias?:F[_]',
  SkipSimplifiedLayerNormalization: 'input:F skip:F gamma:F[_] bias?:F[_]',
};

const PREVIEW: Readonly<Record<string, Versions>> = {
  FlexAttention: 'Q:F[B,_,L,E] K:F[B,H,S,E] V:F[B,H,S,_]',
};

/** What nodes of opsets before 7 become that later ones have no operator for. */
const OLDER: Readonly<Record<string, Versions>> = {
  AlignAxis: 'A:V B:V',
  AlignChannels: 'X:V slope:V',
};

const SCHEMAS: Readonly<Record<string, Readonly<Record<string, Versions>>>> = {
  '': STANDARD,
  'ai.onnx.preview': PREVIEW,
  warpconv: OLDER,
  'com.microsoft': MICROSOFT,
};

const NARROW_FLOATS = ['float16', 'bfloat16', 'float32'];
const FLOATS = [...NARROW_FLOATS, 'float64'];
const SIGNED = ['int8', 'int16', 'int32', 'int64'];
const WIDE_INTEGERS = ['int32', 'uint32', 'int64', 'uint64'];
const INTEGERS = ['int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64'];

const ANY = [...FLOATS, ...INTEGERS, 'bool'];

const SMALL_FLOATS = ['float8e4m3fn', 'float8e4m3fnuz', 'float8e5m2', 'float8e5m2fnuz', 'float4e2m1'];
const SMALL_INTEGERS = ['int4', 'uint4', 'int2', 'uint2'];
/** A type of scales alone */
const POWERS = 'float8e8m0';

/** By the first letter of a type that stands for several. */
const CLASSES: Readonly<Record<string, { readonly types: readonly string[]; readonly said: string }>> = {
  F: { types: FLOATS, said: 'a float type' },
  I: { types: ['int32', 'int64'], said: 'int32 or int64' },
  N: { types: [...FLOATS, ...INTEGERS], said: 'a type of numbers' },
  S: { types: [...FLOATS, ...SIGNED], said: 'a type of numbers with a sign' },
  R: { types: [...FLOATS, ...WIDE_INTEGERS], said: 'a float type or integers of 32 or 64 bits' },
  E: {
    types: [...FLOATS, ...WIDE_INTEGERS, 'int8', 'uint8', 'bool'],
    said: 'a float type, bool or integers of 8, 32 or 64 bits',
  },
  B: { types: ['int8', 'uint8'], said: 'a type of integers of 8 bits' },
  U: { types: INTEGERS.filter((type) => type.startsWith('u')), said: 'a type of integers without a sign' },
  Z: { types: INTEGERS, said: 'a type of integers' },
  D: {
    types: ['float16', 'float32', 'float64', ...INTEGERS],
    said: 'a type of numbers, and not bfloat16',
  },
  G: { types: ['float16', 'float32', 'float64'], said: 'a float type, and not bfloat16' },
  H: { types: NARROW_FLOATS, said: 'a float type, and not float64' },
  M: { types: [...FLOATS, 'int8', 'uint8'], said: 'a float type, int8 or uint8' },
  P: { types: [...FLOATS, 'int32', 'int64'], said: 'a float type, int32 or int64' },
  A: { types: [...ANY, ...SMALL_FLOATS, ...SMALL_INTEGERS, POWERS], said: 'any type' },
  Q: {
    types: [
      ...INTEGERS.filter((type) => type === 'int32' || !WIDE_INTEGERS.includes(type)),
      ...[...SMALL_FLOATS, ...SMALL_INTEGERS],
    ],
    said: 'int32, a type of integers of 16 bits or less, or floats of 8 or 4 bits',
  },
  W: { types: [...NARROW_FLOATS, POWERS], said: 'a float type, and not float64' },
  O: { types: [...NARROW_FLOATS, 'int32'], said: 'int32, or a float type, and not float64' },
  L: { types: [...NARROW_FLOATS, POWERS, 'int32'], said: 'int32, or a float type, and not float64' },
  T: { types: ANY, said: 'a type of 8 bits or more that is no float of 8' },
  V: { types: ANY, said: 'a type of 8 bits or more that is no float of 8' },
};

interface Rule {
  readonly name: string;
  readonly isOptional: boolean;
  readonly isVariadic: boolean;
  readonly type: string;
  readonly shape: ShapeRule | undefined;
}

interface ShapeRule {
  readonly extents: readonly string[];
  /** Whether axes may follow */
  readonly isOpen: boolean;
  /** Whether a scalar stands for a list of one */
  readonly isList: boolean;
}

const RULE = /^(\w+)([?*]?):(\w+)(?:\[(.*)\]|\((.*)\))?$/;

function parseRule(text: string): Rule {
  const [, name, count, type, shape, list] = RULE.exec(text)!;
  const given = shape ?? list;
  const extents = given === undefined || given === '' ? [] : given.split(',');
  const isOpen = extents.at(-1) === '...';
  return {
    name: name!,
    isOptional: count === '?',
    isVariadic: count === '*',
    type: type!,
    shape:
      given === undefined
        ? undefined
        : { extents: isOpen ? extents.slice(0, -1) : extents, isOpen, isList: list !== undefined },
  };
}

const parsed = new Map<string, readonly Rule[]>();

function rulesOf(text: string): readonly Rule[] {
  let rules = parsed.get(text);
  if (rules === undefined) {
    rules = text.split(' ').filter(Boolean).map(parseRule);
    parsed.set(text, rules);
  }
  return rules;
}

function textFor(versions: Versions, opset: number): string {
  if (typeof versions === 'string') return versions;
  const since = Object.keys(versions).map(Number);
  return versions[since.findLast((version) => version <= opset) ?? since[0]!]!;
}

/** What is done along axes may take as long as the square of their number. NumPy has this limit, too. */
const MOST_AXES = 64;

/** A tensor's type and extents; `undefined` for an input that is left out. */
type Input = { readonly type: DataType; readonly dims: readonly number[] } | undefined;

/** Whether there are rules for an operator's inputs. */
export function hasSchema({ domain, operator }: Pick<GraphNode, 'domain' | 'operator'>): boolean {
  return Object.hasOwn(SCHEMAS, domain) && Object.hasOwn(SCHEMAS[domain]!, operator);
}

/**
 * Checks the inputs of a node of a known operator, in the node's order.
 *
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming node and input, `ERR_WARPCONV_UNSUPPORTED` for one of too many axes
 */
export function checkInputs(node: GraphNode, opset: number, inputs: readonly Input[]): void {
  const rules = rulesOf(textFor(SCHEMAS[node.domain]![node.operator]!, opset));
  const types = new Map<string, Bound<DataType>>();
  const extents = new Map<string, Bound<number>>();
  let required = 0;
  for (const { isOptional } of rules) if (!isOptional) required++;
  const count = Math.max(inputs.length, required);
  for (let i = 0; i < count; i++) {
    const rule = rules[i] ?? rules.findLast(({ isVariadic }) => isVariadic);
    const input = inputs[i];
    if (rule === undefined) {
      if (input === undefined) continue;
      throw invalidNode(node, `takes ${rules.length} inputs at most in opset ${opset}, got ${inputs.length}`);
    }
    if (input === undefined) {
      if (rule.isOptional) continue;
      throw invalidNode(node, `lacks its input ${i}, '${rule.name}'`);
    }
    if (input.dims.length > MOST_AXES) {
      throw unsupportedNode(node, `has an input of ${input.dims.length} axes; the most is ${MOST_AXES}`);
    }
    checkType(node, rule, input.type, types);
    if (rule.shape !== undefined) checkShape(node, rule, rule.shape, input.dims, extents);
  }
}

/** What a name stands for, and the input that it was bound by. */
interface Bound<T> {
  readonly value: T;
  readonly by: string;
}

function checkType(
  node: GraphNode,
  { name, type }: Rule,
  given: DataType,
  bound: Map<string, Bound<DataType>>,
): void {
  const group = CLASSES[type[0]!];
  if (group === undefined) {
    if (given === type) return;
    throw invalidNode(node, `takes ${type} as its input '${name}', got ${given}`);
  }
  if (!group.types.includes(given)) {
    throw invalidNode(node, `takes ${group.said} as its input '${name}', got ${given}`);
  }
  const other = bound.get(type);
  if (type === 'V') return;
  if (other === undefined) bound.set(type, { value: given, by: name });
  else if (other.value !== given) {
    throw invalidNode(
      node,
      `takes its inputs '${other.by}' and '${name}' of one type, got ${other.value} and ${given}`,
    );
  }
}

function checkShape(
  node: GraphNode,
  { name }: Rule,
  shape: ShapeRule,
  dims: readonly number[],
  bound: Map<string, Bound<number>>,
): void {
  const got = () => `got dims [${dims.join(', ')}]`;
  if (shape.extents.length === 0 && !shape.isOpen) {
    if (elementCount(dims) === 1) return;
    throw invalidNode(node, `takes one element as its input '${name}', ${got()}`);
  }
  const extents = shape.isList && dims.length === 0 ? [1] : dims;
  const rank = shape.extents.length;
  if (shape.isOpen ? extents.length < rank : extents.length !== rank) {
    const axes = `${rank} ${rank === 1 ? 'axis' : 'axes'}${shape.isOpen ? ' or more' : ''}`;
    throw invalidNode(node, `takes a tensor of ${axes} as its input '${name}', ${got()}`);
  }
  shape.extents.forEach((symbol, axis) => {
    if (symbol === '_') return;
    const extent = extents[axis]!;
    const other = bound.get(symbol);
    if (other === undefined) bound.set(symbol, { value: extent, by: name });
    else if (other.value !== extent) {
      throw invalidNode(
        node,
        `needs ${other.value} along axis ${axis} of its input '${name}', as its input '${other.by}' has it, ${got()}`,
      );
    }
  });
}
