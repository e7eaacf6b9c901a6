/** What a run writes, and what it gives back. */
import type { NativeGpuBuffer } from '../addon';
import { areSameDims, describe, invalid, unreadable } from '../check';
import type { Compiled, Port } from '../model/compile';
import { newOutputArray } from '../tensor/outputs';
import { tensorOver, type Tensor } from '../tensor/tensor';
import { readLocation, requireApart, requireStable, type TensorLike } from '../tensor/tensor_like';
import type { TypedArray } from '../tensor/typed_array';
import { checkData, type Feed } from './feeds';
import type { RunArguments } from './session_options';

/** What the outputs are written into: arrays of the caller, and new ones. */
export function outputsFor(
  { outputs: ports }: Compiled,
  inputs: readonly Feed[],
  fetches: RunArguments['fetches'],
): TypedArray[] {
  const outputs = ports.map((port) => outputFor(port, fetches?.get(port.name)));
  // New ones lie apart from everything.
  const given = ports.flatMap(({ name }, i) =>
    fetches?.get(name) ? [{ name: `fetches.${name}`, elements: outputs[i]! }] : [],
  );
  if (given.length > 0) requireOutputsApart(given, inputs);
  return outputs;
}

function requireOutputsApart(
  given: readonly { readonly name: string; readonly elements: TypedArray }[],
  inputs: readonly Feed[],
): void {
  const others = inputs.flatMap(({ name, elements }) =>
    [elements]
      .flat()
      .map((one) => ({ name: `feeds.${name}`, elements: one as TypedArray | NativeGpuBuffer })),
  );
  for (const output of given) {
    requireApart(output, others);
    others.push(output);
  }
}

/** The tensors of those that were asked for. */
export function byName(
  { outputs: ports }: Compiled,
  outputs: readonly TypedArray[],
  fetches: RunArguments['fetches'],
): Record<string, Tensor> {
  const entries: [string, Tensor][] = [];
  for (let i = 0; i < ports.length; i++) {
    const { name, type, dims } = ports[i]!;
    if (fetches === undefined || fetches.has(name))
      entries.push([name, fetches?.get(name) ?? tensorOver(type, outputs[i]!, dims)]);
  }
  return Object.fromEntries(entries);
}

function outputFor(port: Port, given: Tensor | null | undefined): TypedArray {
  if (!given) return newOutputArray(port.type, port.dims);
  const called = `fetches.${port.name}`;
  try {
    requireFit(called, port, given);
    const data = checkData(called, given.data, port.type, port.dims);
    requireStable(called, data);
    return data;
  } catch (error) {
    throw unreadable(called, error);
  }
}

function requireFit(called: string, port: Port, given: TensorLike): void {
  const location = readLocation(called, given);
  const { type, dims } = given;
  const hasDims = Array.isArray(dims) && areSameDims(dims as readonly number[], port.dims);
  if (location === 'cpu' && type === port.type && hasDims) return;
  throw invalid(
    `${called} must be a ${port.type} tensor of dims ${describe(port.dims)} in CPU memory, ` +
      `got type ${describe(type)}, dims ${describe(dims)} and location '${location}'`,
  );
}
