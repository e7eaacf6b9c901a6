/** What clients see of a model as plain data, which can go to another thread. */
import type { DataType } from '../../tensor/tensor';
import { datatypeOf } from '../datatypes';
import type { ImageSpec, ModelDescription, ValueSpec } from '../model';
import type { BatchedModel } from '../queues';

type PlainSpec = Omit<ValueSpec, 'datatype'> & { readonly type: DataType };

export interface PlainModel extends Pick<BatchedModel, 'name' | 'version' | 'place' | 'waiting'> {
  readonly inputs: readonly PlainSpec[];
  readonly outputs: readonly PlainSpec[];
  readonly image: (Omit<ImageSpec, 'spec'> & { readonly spec: PlainSpec }) | undefined;
}

export function plainModel({ inputs, outputs, image, ...model }: BatchedModel): PlainModel {
  const { name, version, place, waiting } = model;
  return {
    ...{ name, version, place, waiting, inputs: inputs.map(plainSpec), outputs: outputs.map(plainSpec) },
    image: image && { ...image, spec: plainSpec(image.spec) },
  };
}

export function modelOf({ name, version, inputs, outputs, image }: PlainModel): ModelDescription {
  return {
    ...{ name, version, inputs: inputs.map(specOf), outputs: outputs.map(specOf) },
    image: image && { ...image, spec: specOf(image.spec) },
  };
}

function plainSpec({ name, datatype, dims }: ValueSpec): PlainSpec {
  return { name, type: datatype.type, dims };
}

function specOf({ name, type, dims }: PlainSpec): ValueSpec {
  return { name, datatype: datatypeOf(type)!, dims };
}
