/** One node and what it reads, as the reference takes them. */
import { Illegal, isFloat, type ElementType, type RefTensor } from './tensor';

export type Attribute =
  | { readonly kind: 'int'; readonly value: bigint }
  | { readonly kind: 'ints'; readonly value: readonly bigint[] }
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'floats'; readonly value: readonly number[] }
  | { readonly kind: 'string'; readonly value: string }
  | { readonly kind: 'strings'; readonly value: readonly string[] }
  | { readonly kind: 'tensor'; readonly value: RefTensor };

export interface RefNode {
  readonly domain: string;
  readonly operator: string;
  /** Of the node's domain */
  readonly opset: number;
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** `undefined` for one that is left out */
  readonly inputs: readonly (RefTensor | undefined)[];
  readonly outputs: number;
}

/** Attributes and inputs by what the operator expects of them; types have been checked against the operator's schema. */
export class Node {
  #isTolerated = false;

  constructor(private readonly node: RefNode) {}

  /** Whether ONNX forbids something that other runtimes let pass: it may be refused, too. */
  get isTolerated(): boolean {
    return this.#isTolerated;
  }

  tolerate(): void {
    this.#isTolerated = true;
  }

  get operator(): string {
    return this.node.operator;
  }

  get opset(): number {
    return this.node.opset;
  }

  get outputs(): number {
    return this.node.outputs;
  }

  get inputs(): readonly RefTensor[] {
    return this.node.inputs.map((_, index) => this.input(index));
  }

  input(index: number): RefTensor {
    const input = this.optional(index);
    if (input === undefined) throw new Illegal(`no input ${index}`);
    return input;
  }

  optional(index: number): RefTensor | undefined {
    return this.node.inputs[index];
  }

  numbers(index: number): number[] {
    return this.input(index).data as number[];
  }

  /** An input of one element; ONNX asks for a scalar, and runtimes take a list of one for it. */
  one(index: number): number {
    const { dims, data } = this.input(index);
    if (data.length !== 1) throw new Illegal(`${data.length} elements as input ${index}`);
    if (dims.length > 0) this.tolerate();
    return Number(data[0]);
  }

  optionalOne(index: number): number | undefined {
    return this.optional(index) === undefined ? undefined : this.one(index);
  }

  /** The same node with other inputs. */
  with(inputs: readonly (RefTensor | undefined)[]): Node {
    return new Node({ ...this.node, inputs });
  }

  /** A list of integers that is an input, in one dimension. */
  list(index: number): number[] {
    const { dims, data } = this.input(index);
    // Other runtimes take a scalar for a list of one.
    if (dims.length === 0) this.tolerate();
    if (dims.length > 1) throw new Illegal(`input ${index} of rank ${dims.length}; it takes a list`);
    return data.map(Number);
  }

  optionalList(index: number): number[] | undefined {
    return this.optional(index) === undefined ? undefined : this.list(index);
  }

  has(name: string): boolean {
    return this.node.attributes[name] !== undefined;
  }

  integer(name: string, fallback?: number): number {
    const attribute = this.node.attributes[name];
    if (attribute?.kind === 'int') return Number(attribute.value);
    if (fallback === undefined) throw new Illegal(`no attribute ${name}`);
    return fallback;
  }

  /** An integer that means yes or no. */
  flag(name: string, fallback = false): boolean {
    const value = this.integer(name, Number(fallback));
    if (value === 0 || value === 1) return value === 1;
    throw new Illegal(`${name} of ${value}`);
  }

  integers(name: string): number[] | undefined {
    const attribute = this.node.attributes[name];
    return attribute?.kind === 'ints' ? attribute.value.map(Number) : undefined;
  }

  /** One integer, or several, of which doubles might lose bits. */
  longs(name: string): readonly bigint[] | undefined {
    const attribute = this.node.attributes[name];
    if (attribute?.kind === 'int') return [attribute.value];
    return attribute?.kind === 'ints' ? attribute.value : undefined;
  }

  float(name: string, fallback: number): number {
    const attribute = this.node.attributes[name];
    return Math.fround(attribute?.kind === 'float' ? attribute.value : fallback);
  }

  floats(name: string): number[] | undefined {
    const attribute = this.node.attributes[name];
    return attribute?.kind === 'floats' ? attribute.value.map(Math.fround) : undefined;
  }

  strings(name: string): readonly string[] | undefined {
    const attribute = this.node.attributes[name];
    return attribute?.kind === 'strings' ? attribute.value : undefined;
  }

  string<T extends string>(name: string, words: readonly T[]): T {
    const attribute = this.node.attributes[name];
    if (attribute?.kind !== 'string') return words[0]!;
    if ((words as readonly string[]).includes(attribute.value)) return attribute.value as T;
    throw new Illegal(`${name} of '${attribute.value}'`);
  }

  /** Any string. */
  text(name: string): string {
    const attribute = this.node.attributes[name];
    if (attribute?.kind === 'string') return attribute.value;
    throw new Illegal(`no attribute ${name}`);
  }

  tensor(name: string): RefTensor | undefined {
    const attribute = this.node.attributes[name];
    return attribute?.kind === 'tensor' ? attribute.value : undefined;
  }

  /** The name of an attribute that is there, of several of which one has to be. */
  only(names: readonly string[]): string {
    const given = names.filter((name) => this.has(name));
    if (given.length !== 1) throw new Illegal(`${given.length} of the attributes ${names}`);
    return given[0]!;
  }
}

/** Elements as numbers, of integers too. */
export function asNumbers({ type, data }: RefTensor): number[] {
  return isFloat(type) ? (data as number[]) : data.map(Number);
}

export function requireType(tensor: RefTensor, ...types: readonly ElementType[]): void {
  if (!types.includes(tensor.type)) throw new Illegal(`a tensor of ${tensor.type}`);
}
