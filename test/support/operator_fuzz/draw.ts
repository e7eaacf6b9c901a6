/** What recipes draw models of one node with. */
import type { Attribute } from '../onnx_reference/node';
import type { Schema } from '../onnx_reference/schemas';
import type { Dims, ElementType, RefTensor } from '../onnx_reference/tensor';
import type { Random } from '../random';
import { anyDims, anyTensor, shuffled, type DimsOptions, type Kind } from './values';

/** What an operator's recipe draws with. */
export class Draw {
  constructor(
    readonly random: Random,
    readonly operator: string,
    readonly opset: number,
    readonly schema: Schema,
  ) {}

  /** A type of a group of inputs: more often float32, which most is computed in. */
  type(group = 'T'): ElementType {
    const types = this.schema.types[group]!;
    return types.includes('float32') && this.random.chance(0.6) ? 'float32' : this.random.pick(types);
  }

  dims(options?: DimsOptions): number[] {
    return anyDims(this.random, options);
  }

  tensor(dims: Dims, type = this.type(), kind?: Kind): RefTensor {
    return anyTensor(this.random, type, dims, kind);
  }

  /** An axis in either way of counting, where the operator knows both. */
  axis(axis: number, rank: number, negativeSince = 11): bigint {
    const isNegative = this.opset >= negativeSince && this.random.chance(0.4);
    return BigInt(isNegative ? axis - rank : axis);
  }

  someAxes(rank: number): number[] {
    return shuffled([...Array(rank).keys()], this.random).slice(
      0,
      this.random.integer(rank === 0 ? 0 : 1, rank),
    );
  }

  /** What there is now and then, if the operator knows it in this opset. */
  maybe(name: string, make: () => Attribute, probability = 0.6): Attributes {
    return name in this.schema.attributes && this.random.chance(probability) ? { [name]: make() } : {};
  }

  /** Some of the outputs, which are all optional, and never all. */
  someOutputs(outputs: number): number[] {
    if (outputs === 1 || this.random.chance(0.6)) return [];
    const order = shuffled([...Array(outputs).keys()], this.random);
    return order.slice(0, this.random.integer(1, outputs - 1));
  }

  integers(length: number, low: number, high: number): bigint[] {
    return Array.from({ length }, () => BigInt(this.random.integer(low, high)));
  }
}

/** `undefined` stands for one that is left out. */
export type Attributes = Readonly<Record<string, Attribute | undefined>>;

export interface Drawn {
  readonly attributes?: Attributes;
  readonly inputs: readonly (RefTensor | undefined)[];
  readonly outputs?: number;
  /** Of the outputs those that have no name */
  readonly unnamed?: readonly number[];
}

export type Recipe = (draw: Draw) => Drawn;

export const int = (value: number | bigint): Attribute => ({ kind: 'int', value: BigInt(value) });
export const ints = (value: readonly (number | bigint)[]): Attribute => ({
  kind: 'ints',
  value: value.map(BigInt),
});
export const float = (value: number): Attribute => ({ kind: 'float', value: Math.fround(value) });
export const string = (value: string): Attribute => ({ kind: 'string', value });

/** One recipe for several operators. */
export function recipes(recipe: Recipe, names: string): Record<string, Recipe> {
  return Object.fromEntries(names.split(' ').map((name) => [name, recipe]));
}
