/**
 * How operators compute in other types than float32. Halves become float32 on the way into an operator, and are rounded
 * once on the way out; where the next one computes too, it takes the float32 that a float16 was. All other types are computed by
 * steps for any type, one function at a time.
 */
import { resultOf, type Sliced } from '../../slices';
import { floatsByBits, smallFloatOf } from '../../tensor/small_floats';
import type { DataType } from '../../tensor/tensor';
import { computeOf, instruction, shapeOf } from '../builder';
import type { ConstantTensor } from '../graph';
import type { Lower, Lowering } from '../lowering';
import type { BinaryOperation, ComputeType, MapOperation, UnaryOperation } from '../steps';
import { convertedTo, typedArray } from '../typed_constants';
import { broadcastDims, type Value } from '../values';

type Half = 'float16' | 'bfloat16';

function isHalf(type: DataType | undefined): type is Half {
  return type === 'float16' || type === 'bfloat16';
}

/** The operators, for halves too. */
export function withHalves(operators: Readonly<Record<string, Lower>>): Record<string, Lower> {
  return Object.fromEntries(Object.entries(operators).map(([name, lower]) => [name, ofHalves(lower)]));
}

function ofHalves(lower: Lower): Lower {
  return (x) => {
    const isAny = x.node.inputs.some((_, i) => isHalf(x.optional(i)?.type));
    return isAny ? lowerHalves(lower, x) : lower(x);
  };
}

/** What ONNX has in float32, whatever the inputs are: by operator and output. */
const STATISTICS: Readonly<Record<string, readonly number[]>> = {
  LayerNormalization: [1, 2],
  SimplifiedLayerNormalization: [1],
  SkipLayerNormalization: [1, 2],
  SkipSimplifiedLayerNormalization: [1, 2],
};

/** The inputs that have the types of the results, by operator, where they are not all that of the first. */
const TYPED_BY: Readonly<Record<string, readonly number[]>> = {
  Attention: [0, 1, 2, 0],
  RMSNormalization: [1],
  SimplifiedLayerNormalization: [1],
};

function* lowerHalves(lower: Lower, x: Lowering): Sliced<readonly Value[]> {
  const inputs: (Value | undefined)[] = [];
  for (const i of x.node.inputs.keys()) {
    const value = x.optional(i);
    inputs.push(isHalf(value?.type) ? yield* widened(x, value!) : value);
  }
  const lowered = yield* resultOf(lower(x.with(inputs)));
  const statistics = STATISTICS[x.node.operator];
  return ('operand' in lowered ? [lowered] : lowered).map((value, i) => {
    const type = x.optional(TYPED_BY[x.node.operator]?.[i] ?? 0)?.type;
    const isRounded = isHalf(type) && value?.type === 'float32' && !statistics?.includes(i);
    return isRounded ? x.build.cast(value, type) : value;
  });
}

/** What is known is converted once a session. */
function* widened(x: Lowering, value: Value): Sliced<Value> {
  const { constant, dims } = value;
  if (constant === undefined) return x.build.cast(value, 'float32');
  return yield* x.deriveInSlices(`float32 of [${dims.join()}]`, [value], function* () {
    const data = yield* floatsOf(constant);
    return { type: 'float32', dims, data };
  });
}

const HALVES_AT_ONCE = 2 ** 18;

function* floatsOf({ type, data }: ConstantTensor): Sliced<Float32Array> {
  const table = floatsByBits(smallFloatOf(type)!);
  const floats = new Float32Array(data.length);
  for (let i = 0; i < floats.length; i++) {
    if (i % HALVES_AT_ONCE === 0) yield;
    floats[i] = table[data[i] as number]!;
  }
  return floats;
}

/** As float32: parameters may be of another type of numbers than the data. */
export function asFloat32(x: Lowering, value: Value): Value<'float32'> {
  return asType(x, value, 'float32');
}

/** As another type; what is known is converted once a session. */
export function asType<T extends DataType>(x: Lowering, value: Value, type: T): Value<T> {
  if (value.type === (type as DataType)) return value as Value<T>;
  const { constant, dims } = value;
  if (constant === undefined) return x.build.cast(value, type);
  return x.derive(`${type} of [${dims.join()}]`, [value], () => {
    return { type, dims, data: convertedTo(type, constant) };
  });
}

/** A number that follows from the node, or from a constant that it has. */
export function scalar<T extends DataType>(
  x: Lowering,
  type: T,
  number: number,
  ...from: readonly (Value | undefined)[]
): Value<T> {
  const given = from.filter((value) => value !== undefined);
  return x.derive(`${type} ${number}`, given, () => ({ type, dims: [], data: typedArray(type, [number]) }));
}

interface Parameters {
  readonly p?: number;
  readonly q?: number;
}

/** A function of one tensor, or of two that are broadcast to each other, in the type that they have. */
export function apply(
  x: Lowering,
  operation: (UnaryOperation | BinaryOperation) & MapOperation,
  values: readonly Value[],
  parameters: Parameters = {},
): Value {
  const { type } = values[0]!;
  if (type !== 'float32') return mapped(x, operation, values, type, parameters);
  return x.build.elementwise(x.node, values, [
    instruction(operation, { b: values.length - 1, ...parameters }),
  ]);
}

/** A function that chains do not have, as a step of its own. */
export function mapped<T extends DataType>(
  x: Lowering,
  operation: MapOperation,
  values: readonly Value[],
  outputType: T,
  options: Parameters & { readonly compute?: ComputeType } = {},
): Value<T> {
  const own = computeOf(values[0]!.type);
  // Functions that integers have no arithmetic for are those of numbers, cut towards zero.
  const compute = own.startsWith('float') || OF_INTEGERS.has(operation) ? own : 'float64';
  return x.build.map(operation, values, { outputType, compute, ...options });
}

/** What is computed of integers as such. */
const OF_INTEGERS: ReadonlySet<MapOperation> = new Set<MapOperation>([
  ...(['identity', 'add', 'subtract', 'multiply', 'divide', 'modulo', 'remainder'] as const),
  ...(['minimum', 'maximum', 'power', 'prelu', 'select', 'negate', 'absolute', 'sign', 'relu'] as const),
  ...(['bitAnd', 'bitOr', 'bitXor', 'bitNot', 'shiftLeft', 'shiftRight'] as const),
  ...(['equal', 'less', 'lessOrEqual', 'greater', 'greaterOrEqual'] as const),
  ...(['logicalAnd', 'logicalOr', 'logicalXor', 'logicalNot', 'isNaN', 'isInfinite'] as const),
]);

/** What is broadcast to a tensor may not make it any larger. */
export function requireWithin(x: Lowering, value: Value | undefined, dims: readonly number[]): void {
  if (value === undefined || broadcastDims(value.dims, dims)?.join() === dims.join()) return;
  throw x.invalid(`has ${shapeOf(value)} for a tensor of [${dims.join(', ')}]`);
}

/** Of one where the condition holds, and else of the other. */
export function choose(x: Lowering, condition: Value, one: Value, other: Value): Value {
  return x.build.map('select', [condition, one, other], {
    outputType: one.type,
    compute: computeOf(one.type),
  });
}
