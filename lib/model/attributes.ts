/**
 * Attributes of a node by the type that its operator gives them. A fallback stands for an attribute that is missing;
 * without one it has to be there, and `null` is the fallback of one that may be missing.
 *
 * All throw `ERR_WARPCONV_INVALID_MODEL`, naming node and attribute, for a value of another type.
 */
import { alternatives, describe } from '../check';
import { invalidModel, quote, title } from './complaints';
import type { Attribute, ConstantTensor, GraphNode } from './graph';

export function integer<F = never>(node: GraphNode, name: string, fallback?: F): number | F {
  return read(node, name, 'an integer', isInteger, fallback);
}

export function integers<F = never>(node: GraphNode, name: string, fallback?: F): readonly number[] | F {
  return read(node, name, 'a list of integers', isListOf(isInteger), fallback);
}

/** A number is the nearest float32: files have no other floats. */
export function float<F = never>(node: GraphNode, name: string, fallback?: F): number | F {
  const value = read(node, name, 'a number', isNumber, fallback);
  return typeof value === 'number' ? Math.fround(value) : value;
}

export function floats<F = never>(node: GraphNode, name: string, fallback?: F): readonly number[] | F {
  return read(node, name, 'a list of numbers', isListOf(isNumber), fallback);
}

/** An integer that is 0 or 1. */
export function flag(node: GraphNode, name: string, fallback: boolean): boolean {
  return read(node, name, '0 or 1', isBit, Number(fallback)) === 1;
}

/** One of `words`. */
export function string<T extends string>(
  node: GraphNode,
  name: string,
  words: readonly T[],
  fallback?: T,
): T {
  const isWord = (value: Attribute): value is T => words.includes(value as T);
  return read(node, name, alternatives(words), isWord, fallback);
}

export function strings<F = never>(node: GraphNode, name: string, fallback?: F): readonly string[] | F {
  return read(node, name, 'a list of strings', isListOfStrings, fallback);
}

export function tensor<F = never>(node: GraphNode, name: string, fallback?: F): ConstantTensor | F {
  return read(node, name, 'a tensor', isTensor, fallback);
}

function read<T extends Attribute, F>(
  node: GraphNode,
  name: string,
  expected: string,
  accepts: (value: Attribute) => value is T,
  fallback: F | undefined,
): T | F {
  const value = node.attributes.get(name);
  if (value === undefined) {
    if (fallback !== undefined) return fallback;
    throw invalidModel(`${title(node)} has no attribute ${quote(name)}, which must be ${expected}`);
  }
  if (accepts(value)) return value;
  throw invalidModel(`attribute ${quote(name)} of ${title(node)} must be ${expected}, got ${show(value)}`);
}

function isNumber(value: Attribute): value is number {
  return typeof value === 'number';
}

function isInteger(value: Attribute): value is number {
  return Number.isInteger(value);
}

function isBit(value: Attribute): value is 0 | 1 {
  return value === 0 || value === 1;
}

function isTensor(value: Attribute): value is ConstantTensor {
  return typeof value === 'object' && !isList(value);
}

// Array.isArray does not narrow to a list that is read-only.
function isList(value: Attribute): value is readonly number[] | readonly string[] {
  return Array.isArray(value);
}

function isListOf(accepts: (value: Attribute) => value is number) {
  return (value: Attribute): value is readonly number[] => isList(value) && value.every(accepts);
}

function isListOfStrings(value: Attribute): value is readonly string[] {
  return isList(value) && value.every((one) => typeof one === 'string');
}

function show(value: Attribute): string {
  return isTensor(value) ? `a tensor of ${value.type} with dims ${describe(value.dims)}` : describe(value);
}
