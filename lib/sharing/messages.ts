/** What goes between the thread that has a session and one that shares it. */
import type { WarpconvErrorCode } from '../errors';
import type { ValueInfo } from '../model/graph';
import { copyOf, type DataType } from '../tensor/tensor';
import type { TypedArray } from '../tensor/typed_array';

/** A value whose elements the receiver gets. */
export interface Parcel {
  readonly name: string;
  readonly type: DataType;
  readonly dims: readonly number[];
  /** In parts along dimension 0 where it is a list */
  readonly elements: TypedArray | readonly TypedArray[];
}

export interface Failure {
  /** `undefined` for errors of other classes than WarpconvError */
  readonly code: WarpconvErrorCode | undefined;
  readonly message: string;
}

export type ToOwner =
  | {
      readonly kind: 'run';
      readonly id: number;
      readonly inputs: readonly Parcel[];
      /** `undefined` for all outputs */
      readonly fetches: readonly string[] | undefined;
    }
  | { readonly kind: 'cancel'; readonly id: number };

export type FromOwner =
  /** The first one */
  | {
      readonly kind: 'session';
      readonly inputs: readonly ValueInfo[];
      readonly outputs: readonly ValueInfo[];
      readonly device: string;
    }
  | { readonly kind: 'ran'; readonly id: number; readonly outputs: readonly Parcel[] }
  | { readonly kind: 'failed'; readonly id: number; readonly failure: Failure };

/** A copy to be transferred: the sender goes on with its own. */
export function copied({ name, type, dims, elements }: Parcel): Parcel {
  // Not by their own `slice`: that of a Buffer copies nothing.
  const copy = (array: TypedArray) => copyOf(type, array, dims);
  const isWhole = ArrayBuffer.isView(elements);
  return { name, type, dims, elements: isWhole ? copy(elements as TypedArray) : elements.map(copy) };
}

export function buffersOf(parcels: readonly Parcel[]): ArrayBuffer[] {
  return parcels.flatMap(({ elements }) =>
    ([elements].flat() as TypedArray[]).map(({ buffer }) => buffer as ArrayBuffer),
  );
}
