import { integer, integers } from '../attributes';
import { invalidModel, title } from '../complaints';
import type { ConstantTensor, GraphNode } from '../graph';
import type { WarpconvError } from '../../errors';
import { isFloat, valueOf, type Value } from './values';

/** A node with the tensors that it reads: `undefined` for an optional input that it leaves out. */
export class Operands {
  constructor(
    readonly node: GraphNode,
    private readonly tensors: readonly (ConstantTensor | undefined)[],
  ) {}

  invalid(complaint: string): WarpconvError {
    return invalidModel(`${title(this.node)} ${complaint}`);
  }

  has(index: number): boolean {
    return this.tensors[index] !== undefined;
  }

  tensor(index: number): ConstantTensor {
    const tensor = this.tensors[index];
    if (tensor === undefined) throw this.invalid(`lacks its input ${index}`);
    return tensor;
  }

  value(index: number): Value {
    return valueOf(this.tensor(index));
  }

  /** All inputs from `first` on, at least one, of one type. */
  alike(first = 0): [Value, ...Value[]] {
    const values = this.tensors.slice(first).map((_, index) => this.value(first + index));
    const [value = this.value(first), ...others] = values;
    for (const { type } of others) {
      if (type !== value.type) throw this.invalid(`takes inputs of one type, got ${value.type} and ${type}`);
    }
    return [value, ...others];
  }

  /** The only element of an input. */
  scalar(index: number): Value['elements'][number] {
    const { elements } = this.value(index);
    if (elements.length !== 1)
      throw this.invalid(`takes one element as input ${index}, got ${elements.length}`);
    return elements[0]!;
  }

  /** An input that is a list of integers, rounded where a double cannot hold them. */
  list(index: number): number[] {
    const { type, dims, elements } = this.value(index);
    if (isFloat(type) || type === 'bool' || dims.length > 1) {
      throw this.invalid(`takes a list of integers as input ${index}, got ${type} of rank ${dims.length}`);
    }
    return Array.from(elements, Number);
  }

  /** A list that is an attribute in older opsets and an input in newer ones. */
  optionalList(attribute: string, index: number): readonly number[] | undefined {
    return integers(this.node, attribute, null) ?? (this.has(index) ? this.list(index) : undefined);
  }

  /** The attribute `axis`, counted from the front. */
  axisAttribute(rank: number, fallback?: number): number {
    return this.axis(integer(this.node, 'axis', fallback), rank);
  }

  /** An axis, counted from the front. */
  axis(axis: number, rank: number): number {
    if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
    throw this.invalid(`has axis ${axis} for rank ${rank}`);
  }

  /** Different axes, counted from the front. */
  axes(axes: readonly number[], rank: number): number[] {
    const normal = axes.map((axis) => this.axis(axis, rank));
    if (new Set(normal).size < normal.length) throw this.invalid('has the same axis twice');
    return normal;
  }
}
