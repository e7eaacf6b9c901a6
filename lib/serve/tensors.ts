/** Tensors of requests and of answers. */
import type { TypedArray } from '../tensor/typed_array';

export interface InputTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: TypedArray;
  readonly location: 'cpu';
}

export interface OutputTensor {
  readonly dims: readonly number[];
  readonly elements: TypedArray;
}
