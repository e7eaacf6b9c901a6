/** The recipes of models of one node, so that what they draw are values that a model has already. */
import { foldedNames } from '../../../lib/model/fold';
import { schemaIn, type Schema } from '../onnx_reference/schemas';
import { sizeOf, type Dims, type ElementType, type RefTensor } from '../onnx_reference/tensor';
import { typeNumber } from '../onnx_reference/elementwise';
import { Draw, int } from '../operator_fuzz/draw';
import { OPERATORS } from '../operator_fuzz/generate';
import { RECIPES } from '../operator_fuzz/recipes';
import type { DimsOptions, Kind } from '../operator_fuzz/values';
import type { Random } from '../random';
import { Unsuited, type GraphBuilder } from './builder';

const MOST_DRAWN = 200;

/** Draws tensors of the type and the dims that a value has, so that the value can take their place. */
class ChainDraw extends Draw {
  /** Tensors of which the recipe says no more than type and dims */
  readonly free = new Set<RefTensor>();

  constructor(
    random: Random,
    operator: string,
    opset: number,
    schema: Schema,
    private readonly source: RefTensor,
  ) {
    super(random, operator, opset, schema);
  }

  override type(group = 'T'): ElementType {
    const { type } = this.source;
    return this.schema.types[group]!.includes(type) && this.random.chance(0.9) ? type : super.type(group);
  }

  override dims(options: DimsOptions = {}): number[] {
    const { least = 0, most = 5, isEmptyAllowed = true } = options;
    const { dims } = this.source;
    const fits = dims.length >= least && dims.length <= most && (isEmptyAllowed || !dims.includes(0));
    if (fits && this.random.chance(0.9)) return [...dims];
    for (;;) {
      const drawn = super.dims(options);
      if (sizeOf(drawn) <= MOST_DRAWN) return drawn;
    }
  }

  override tensor(dims: Dims, type: ElementType = this.type(), kind?: Kind): RefTensor {
    if (sizeOf(dims) > 4 * MOST_DRAWN) throw new Unsuited('large');
    // Numbers far from one soon make what a model computes infinite.
    const tame = kind === undefined || kind === 'special' || kind === 'wide';
    const tensor = super.tensor(dims, type, tame && this.random.chance(0.95) ? 'unit' : kind);
    this.free.add(tensor);
    return tensor;
  }
}

const FOLDED = foldedNames();

/** A node of any operator that there is a recipe for. */
export function addDrawn(builder: GraphBuilder): void {
  const { random, opset, names } = builder;
  // What is computed ahead too is more often asked for: of constants, and of dims.
  const operator = random.pick(random.chance(0.2) ? FOLDED.filter((name) => RECIPES.has(name)) : OPERATORS);
  const isForeign = operator.startsWith('com.microsoft.');
  const schema = schemaIn(operator, isForeign ? 1 : opset);
  const recipe = RECIPES.get(operator);
  if (schema === undefined || recipe === undefined) throw new Unsuited(`no ${operator}`);
  const source = random.pick(names.length > 3 && random.chance(0.6) ? names.slice(-3) : names);
  const draw = new ChainDraw(random, operator, opset, schema, builder.of(source));
  const { inputs, attributes = {}, outputs = 1, unnamed = [] } = recipe(draw);
  const group = schema.inputs[0]?.group;
  const types = group === undefined ? [] : schema.types[group]!;
  const placed = inputs.map((tensor) => {
    if (tensor === undefined) return '';
    if (draw.free.has(tensor)) return placeFree(builder, tensor, source);
    return placeGiven(builder, tensor);
  });
  if (types.length > 0 && !placed.some((name) => names.includes(name)) && random.chance(0.8)) {
    throw new Unsuited('it reads nothing of the model');
  }
  const name = operator.replace('com.microsoft.', '');
  const domain = isForeign ? 'com.microsoft' : '';
  builder.addAll(name, withoutTrailing(placed), attributes, outputs, { domain, unnamed });
}

function withoutTrailing(inputs: readonly string[]): string[] {
  const result = [...inputs];
  while (result.at(-1) === '') result.pop();
  return result;
}

/** A value of the type and the dims that were drawn, or one that is brought to them. */
function placeFree(builder: GraphBuilder, tensor: RefTensor, source: string): string {
  const { random, names } = builder;
  const isAlike = (name: string) => {
    const { type, dims } = builder.of(name);
    return type === tensor.type && dims.join() === tensor.dims.join();
  };
  if (isAlike(source) && random.chance(0.8)) return source;
  const alike = names.filter(isAlike);
  if (alike.length > 0 && random.chance(0.5)) return random.pick(alike);
  const { type } = builder.of(source);
  if (random.chance(type === tensor.type ? 0.5 : 0.1) && sizeOf(tensor.dims) > 0) {
    const cast =
      type === tensor.type ? source : builder.add('Cast', [source], { to: int(typeNumber(tensor.type)) });
    return builder.brought(cast, tensor.dims);
  }
  return builder.given(tensor);
}

/** Of lists of extents and places some elements come from the dims of values. */
function placeGiven(builder: GraphBuilder, tensor: RefTensor): string {
  const { random } = builder;
  const isList = tensor.type === 'int64' && tensor.dims.length === 1 && tensor.data.length > 0;
  if (!isList || tensor.data.length > 6 || random.chance(0.7)) return builder.given(tensor, 0.1);
  return listOfExtents(builder, tensor.data.map(Number));
}

export function listOfExtents(builder: GraphBuilder, values: readonly number[]): string {
  const parts = values.map((wanted) => extentOf(builder, wanted) ?? builder.list([wanted]));
  return parts.length === 1 ? parts[0]! : builder.add('Concat', parts, { axis: int(0) });
}

/** A list of one extent that some value has. */
function extentOf(builder: GraphBuilder, wanted: number): string | undefined {
  const found = builder.names.filter((name) => builder.of(name).dims.includes(wanted));
  if (found.length === 0) return undefined;
  const name = builder.random.pick(found);
  const shape = builder.add('Shape', [name]);
  const axis = builder.of(name).dims.indexOf(wanted);
  if (builder.random.chance(0.3)) return builder.part(shape, axis, axis + 1);
  if (builder.random.chance(0.4))
    return builder.add('Gather', [shape, builder.list([axis])], { axis: int(0) });
  const place: RefTensor = { type: 'int64', dims: [], data: [BigInt(axis)] };
  const extent = builder.add('Gather', [shape, builder.constant(place)], { axis: int(0) });
  return builder.along('Unsqueeze', extent, [0]);
}
