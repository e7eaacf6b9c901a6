/** Graphs that run again and again. */
import { elementCount } from '../../check';
import { integer, integers } from '../attributes';
import type { Body, ConstantTensor, GraphNode } from '../graph';
import { invalidNode } from '../refusals';
import type { BodyRun, Hosted } from './hosted';
import { axisOf, elementsOf, int64s, required, scalarOf, takeSlices, zeros } from './tensors';

function bodyOf(node: GraphNode): Body {
  const body = node.bodies?.get('body');
  if (body === undefined) throw invalidNode(node, 'has no body');
  return body;
}

/** The branch that the condition chooses. */
export const branch: Hosted = function* (node, inputs) {
  const isTrue = scalarOf(node, inputs, 0, 0) !== 0;
  const body = node.bodies?.get(isTrue ? 'then_branch' : 'else_branch');
  if (body === undefined) throw invalidNode(node, 'has not both branches');
  return [...(yield { body, inputs: [] })];
};

export const loop: Hosted = function* (node, inputs) {
  const body = bodyOf(node);
  const trips = scalarOf(node, inputs, 0, Infinity);
  let goesOn = scalarOf(node, inputs, 1, 1) !== 0;
  let carried = node.inputs.slice(2).map((_, i) => required(node, inputs, i + 2));
  const states = carried.length;
  const collected = body.outputs.slice(1 + states).map((): ConstantTensor[] => []);
  if (body.inputs.length !== states + 2 || node.outputs.length > states + collected.length) {
    throw invalidNode(node, `carries ${states} values, and its body takes ${body.inputs.length} inputs`);
  }
  for (let trip = 0; trip < trips && goesOn; trip++) {
    const condition: ConstantTensor = { type: 'bool', dims: [], data: Uint8Array.of(1) };
    const outputs = yield { body, inputs: [int64s([], [trip]), condition, ...carried] };
    goesOn = outputs[0]!.data[0] !== 0;
    carried = outputs.slice(1, 1 + states);
    collected.forEach((list, i) => list.push(outputs[1 + states + i]!));
  }
  return [...carried, ...collected.map((list) => stacked(node, list, 0))];
};

/** One behind the other along a new axis. */
function stacked(node: GraphNode, parts: readonly ConstantTensor[], axis: number): ConstantTensor {
  const [first] = parts;
  // What a body that never runs would make is not known.
  if (first === undefined) return zeros('float32', [0]);
  if (parts.some(({ type, dims }) => type !== first.type || dims.join() !== first.dims.join())) {
    throw invalidNode(node, 'makes outputs of different dims in different rounds');
  }
  const place = axis < 0 ? axis + first.dims.length + 1 : axis;
  const whole = zeros(first.type, first.dims.toSpliced(place, 0, parts.length));
  const inner = elementCount(first.dims.slice(place));
  for (const [i, { data }] of parts.entries()) {
    for (let from = 0, outer = 0; from < data.length; from += inner, outer++) {
      const piece = (data as Uint8Array).subarray(from, from + inner);
      (whole.data as Uint8Array).set(piece, (outer * parts.length + i) * inner);
    }
  }
  return whole;
}

export const scan: Hosted = function* (node, inputs, opset) {
  return yield* opset < 9 ? scanBatches(node, inputs) : scanAxes(node, inputs);
};

type Inputs = readonly (ConstantTensor | undefined)[];
type Running<T> = Generator<BodyRun, T, readonly ConstantTensor[]>;

/** What is gone through along an axis. */
interface Sequence {
  readonly tensor: ConstantTensor;
  readonly axis: number;
  readonly isReversed: boolean;
}

/** As opset 9 and later have it. */
function* scanAxes(node: GraphNode, inputs: Inputs): Running<ConstantTensor[]> {
  const { states, tensors } = scannedOf(node, inputs);
  const axes = listOf(node, 'scan_input_axes', tensors.length);
  const directions = listOf(node, 'scan_input_directions', tensors.length);
  const sequences = tensors.map((tensor, i): Sequence => {
    return { tensor, axis: axisOf(node, axes[i]!, tensor.dims.length), isReversed: directions[i] === 1 };
  });
  const { carried, collected } = yield* scanSteps(node, states, sequences);
  const [outputAxes, outputDirections] = [
    listOf(node, 'scan_output_axes', collected.length),
    listOf(node, 'scan_output_directions', collected.length),
  ];
  const made = collected.map((parts, i) => {
    return stacked(node, outputDirections[i] === 1 ? parts.reverse() : parts, outputAxes[i]!);
  });
  return [...carried, ...made];
}

/**
 * As opset 8 has it: lengths first, and then states and sequences, whose first axis are batches and whose second is gone
 * through. Each batch is scanned on its own, a reversed one from its own end. What it makes beyond its length ONNX leaves open:
 * here it is 0.
 */
function* scanBatches(node: GraphNode, [given, ...inputs]: Inputs): Running<ConstantTensor[]> {
  const { states, tensors } = scannedOf(node, inputs);
  const directions = listOf(node, 'directions', tensors.length);
  const [batch, most] = tensors[0]?.dims ?? [];
  if (batch === undefined || most === undefined) throw invalidNode(node, 'scans nothing of two axes or more');
  if ([...states, ...tensors].some(({ dims }) => dims[0] !== batch)) {
    throw invalidNode(node, 'has inputs of different batches');
  }
  const lengths =
    given === undefined ? new Array<number>(batch).fill(most) : Array.from(elementsOf(given), Number);
  if (lengths.length !== batch || lengths.some((length) => length < 0 || length > most)) {
    throw invalidNode(
      node,
      `has sequence_lens [${lengths.join(', ')}] for ${batch} sequences of ${most} steps`,
    );
  }
  const made: Scanned[] = [];
  for (const [b, length] of lengths.entries()) {
    const places = Array.from({ length }, (_, i) => i);
    const sequences = tensors.map((tensor, i): Sequence => {
      const own = takeSlices(sliceOf(tensor, 0, b), 0, places);
      return { tensor: own, axis: 0, isReversed: directions[i] === 1 };
    });
    const first = states.map((state) => sliceOf(state, 0, b));
    made.push(yield* scanSteps(node, first, sequences));
  }
  const last = states.map((state, i) =>
    batch === 0
      ? state
      : stacked(
          node,
          made.map(({ carried }) => carried[i]!),
          0,
        ),
  );
  const outputs = bodyOf(node).outputs.slice(states.length);
  return [
    ...last,
    ...outputs.map((_, i) =>
      batchesOf(
        node,
        made.map(({ collected }) => collected[i]!),
        most,
      ),
    ),
  ];
}

/** Stacks the outputs of all batches, each padded with zeros to `steps` steps. */
function batchesOf(
  node: GraphNode,
  batches: readonly (readonly ConstantTensor[])[],
  steps: number,
): ConstantTensor {
  const [like] = batches.flat();
  if (like === undefined) return zeros('float32', [batches.length, 0]);
  const filled = batches.map((parts) => {
    const rest = Array.from({ length: steps - parts.length }, () => zeros(like.type, like.dims));
    return stacked(node, [...parts, ...rest], 0);
  });
  return stacked(node, filled, 0);
}

function listOf(node: GraphNode, name: string, length: number): readonly number[] {
  const list = integers(node, name, new Array<number>(length).fill(0));
  if (list.length === length) return list;
  throw invalidNode(node, `has ${name} [${list.join(', ')}]; it takes ${length} of them`);
}

function scannedOf(node: GraphNode, inputs: Inputs) {
  const body = bodyOf(node);
  const count = integer(node, 'num_scan_inputs');
  const states = inputs.length - count;
  if (states < 0 || body.inputs.length !== inputs.length) {
    throw invalidNode(
      node,
      `scans ${count} of ${inputs.length} inputs, and its body takes ${body.inputs.length}`,
    );
  }
  const all = inputs.map((_, i) => required(node, inputs, i));
  return { states: all.slice(0, states), tensors: all.slice(states) };
}

/** The states behind the last step, and of each other output what each step made. */
interface Scanned {
  readonly carried: readonly ConstantTensor[];
  readonly collected: readonly ConstantTensor[][];
}

function* scanSteps(
  node: GraphNode,
  states: readonly ConstantTensor[],
  sequences: readonly Sequence[],
): Running<Scanned> {
  const body = bodyOf(node);
  const lengths = sequences.map(({ tensor, axis }) => tensor.dims[axis]!);
  const length = lengths[0] ?? 0;
  if (lengths.some((other) => other !== length)) throw invalidNode(node, 'scans inputs of different lengths');
  let carried = states;
  const collected = body.outputs.slice(states.length).map((): ConstantTensor[] => []);
  for (let step = 0; step < length; step++) {
    const current = sequences.map(({ tensor, axis, isReversed }) => {
      return sliceOf(tensor, axis, isReversed ? length - 1 - step : step);
    });
    const outputs = yield { body, inputs: [...carried, ...current] };
    carried = outputs.slice(0, states.length);
    collected.forEach((parts, i) => parts.push(outputs[states.length + i]!));
  }
  return { carried, collected };
}

/** The tensor at a place of an axis, without that axis. */
function sliceOf(tensor: ConstantTensor, axis: number, place: number): ConstantTensor {
  const slice = takeSlices(tensor, axis, [place]);
  return { ...slice, dims: slice.dims.toSpliced(axis, 1) };
}
