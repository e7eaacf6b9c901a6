/**
 * Nodes of opsets 1 to 6 as opset 7 has them, by ONNX's changelog. Most operators kept their meaning: `consumed_inputs`, which
 * let a kernel overwrite an input, says nothing of a result, and opset 7 broadcasts what was written for equal dims, or for
 * `broadcast` without an axis, to the same.
 */
import type { Attribute, ConstantTensor, GraphNode } from '../graph';
import { quote } from '../complaints';
import { invalidNode } from '../refusals';

/** That which nodes are brought to. */
export const BASE_OPSET = 7;

/** The domain of what has no operator in opset 7. */
export const OLDER_DOMAIN = 'warpconv';

type Attributes = Readonly<Record<string, Attribute>>;
type Upgrade = (node: GraphNode, opset: number) => GraphNode | readonly GraphNode[];

const SAME = (
  'Abs ArgMax ArgMin AveragePool Ceil Clip Constant Conv ConvTranspose DepthToSpace Elu Exp Flatten Floor GRU Gather Gemm ' +
  'GlobalAveragePool GlobalMaxPool HardSigmoid Hardmax Identity If InstanceNormalization LRN LSTM LeakyRelu Log LogSoftmax Loop ' +
  'LpNormalization MatMul Max MaxPool Mean Min Neg Not RNN Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ' +
  'ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Shape Sigmoid Size Slice Softmax Softplus Softsign SpaceToDepth ' +
  'Sqrt Squeeze Sum Tanh TopK Transpose Unsqueeze'
).split(' ');

const BROADCASTING = 'Add And Div Equal Greater Less Mul Or Pow Sub Xor'.split(' ');

/** With other attributes, or more of them. */
function having(node: GraphNode, more: Attributes): GraphNode {
  return { ...node, attributes: new Map([...node.attributes, ...Object.entries(more)]) };
}

/** With attributes that stand where there are none. */
function usual(node: GraphNode, defaults: Attributes): GraphNode {
  return { ...node, attributes: new Map([...Object.entries(defaults), ...node.attributes]) };
}

function refused(node: GraphNode, obstacle: string): GraphNode {
  return { ...node, obstacle };
}

/** The node reading something else as its second input, which another node makes. */
function withSecond(
  node: GraphNode,
  maker: Pick<GraphNode, 'operator' | 'domain' | 'inputs' | 'attributes'>,
) {
  const name = `${node.name}:${maker.operator}`;
  const inputs = node.inputs.toSpliced(1, 1, name);
  return [
    { ...maker, name, outputs: [name] },
    { ...node, inputs },
  ];
}

/** Where the axes of the second input begin among those of the first, an attribute says; opset 7 has them end with those. */
const aligned: Upgrade = (node) => {
  const { inputs, attributes } = node;
  const axis = attributes.get('axis');
  if (attributes.get('broadcast') !== 1 || axis === undefined) return node;
  const maker = {
    operator: 'AlignAxis',
    domain: OLDER_DOMAIN,
    inputs,
    attributes: new Map([['axis', axis]]),
  };
  return withSecond(node, maker);
};

/** A slope is one a channel. */
const slope: Upgrade = (node) => {
  const { inputs } = node;
  return withSecond(node, { operator: 'AlignChannels', domain: OLDER_DOMAIN, inputs, attributes: new Map() });
};

/** Where nothing is said, ONNX's own converter takes it for inference, too. */
const inferring: Upgrade = (node) =>
  node.attributes.get('is_test') === 0 ? refused(node, 'its is_test of 0 has it train') : node;

/** ONNX's names of types by its numbers for them. */
const TYPE_NAMES =
  'UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 COMPLEX64 COMPLEX128'.split(
    ' ',
  );

const cast: Upgrade = (node, opset) => {
  const name = node.attributes.get('to');
  if (opset >= 6 || typeof name !== 'string') return node;
  const to = TYPE_NAMES.indexOf(name);
  if (to <= 0) throw invalidNode(node, `casts to ${quote(name)}, which is no type of ONNX's`);
  return having(node, { to });
};

const reshape: Upgrade = (node, opset) => {
  if (opset >= 5) return node;
  const shape = node.attributes.get('shape');
  if (!isListOfNumbers(shape))
    throw invalidNode(node, "has no attribute 'shape', which must be a list of integers");
  const value: ConstantTensor = {
    type: 'int64',
    dims: [shape.length],
    data: BigInt64Array.from(shape, BigInt),
  };
  return withSecond(node, {
    operator: 'Constant',
    domain: '',
    inputs: [],
    attributes: new Map([['value', value]]),
  });
};

function isListOfNumbers(attribute: Attribute | undefined): attribute is readonly number[] {
  return Array.isArray(attribute) && attribute.every((one) => typeof one === 'number');
}

/** The text has all beginnings before all ends, as later opsets do; its example, which contradicts it, has not. */
const pad: Upgrade = (node, opset) => {
  const paddings = node.attributes.get('paddings');
  return opset < 2 && paddings !== undefined ? having(node, { pads: paddings }) : node;
};

const upsample: Upgrade = (node) => {
  const [height, width] = ['height_scale', 'width_scale'].map((name) => node.attributes.get(name));
  if (typeof height !== 'number' || typeof width !== 'number') {
    throw invalidNode(node, 'has no height_scale and width_scale, which must be numbers');
  }
  const mode = node.attributes.get('mode');
  return having(node, { scales: [1, 1, height, width], ...(mode === 'bilinear' ? { mode: 'linear' } : {}) });
};

/** Powers were floats at first. */
const norm: Upgrade = (node, opset) => {
  const p = node.attributes.get('p');
  if (opset >= 2 || typeof p !== 'number' || Number.isInteger(p)) return node;
  return refused(node, `its p of ${p} is no integer`);
};

const split: Upgrade = (node, opset) =>
  opset < 2 && node.inputs.length > 1 ? refused(node, 'its second input has the sizes, as floats') : node;

const tile: Upgrade = (node, opset) =>
  opset < 6 ? refused(node, 'it repeats one axis, which an input says') : node;

const UPGRADES: ReadonlyMap<string, Upgrade> = new Map<string, Upgrade>([
  ...SAME.map((name) => [name, (node: GraphNode) => node] as const),
  ...BROADCASTING.map((name) => [name, aligned] as const),
  ['BatchNormalization', inferring],
  ['Cast', cast],
  ['Concat', (node, opset) => (opset < 4 ? usual(node, { axis: 1 }) : node)],
  ['Dropout', inferring],
  ['GlobalLpPool', norm],
  ['LpPool', norm],
  ['PRelu', slope],
  ['Pad', pad],
  ['Reshape', reshape],
  ['Selu', (node, opset) => (opset < 6 ? usual(node, { alpha: 1.6732, gamma: 1.0507 }) : node)],
  ['Split', split],
  ['Tile', tile],
  ['Upsample', upsample],
]);

/**
 * The nodes that stand for one of an opset before 7. One that there is no reading for has an obstacle.
 *
 * @throws `ERR_WARPCONV_INVALID_MODEL` where an attribute that it needs is not there, or not of the type that it needs
 */
export function upgraded(node: GraphNode, opset: number): readonly GraphNode[] {
  if (node.domain !== '' || node.obstacle !== undefined) return [node];
  const upgrade = UPGRADES.get(node.operator);
  if (upgrade === undefined) return [refused(node, `it is none of opset ${opset} that has a reading here`)];
  return [upgrade(node, opset)].flat();
}
