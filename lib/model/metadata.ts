import type { DataType } from '../tensor/tensor';
import type { ValueInfo } from './graph';

/** What a model says of an input or output: onnxruntime-common's `ValueMetadata` of a tensor. */
export interface ValueMetadata {
  readonly name: string;
  readonly isTensor: true;
  readonly type: DataType;
  /** A dimension that each run chooses has its name, or an empty one */
  readonly shape: readonly (number | string)[];
}

export function metadataOf({ name, type, shape = [] }: ValueInfo): ValueMetadata {
  return Object.freeze({
    name,
    isTensor: true,
    type,
    shape: Object.freeze(shape.map((extent) => extent ?? '')),
  });
}
