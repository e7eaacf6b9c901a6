/** Graphs that run again and again. */
import { elementCount } from '../../check';
import { integer, integers } from '../attributes';
import type { Body, ConstantTensor, GraphNode } from '../graph';
import { invalidNode } from '../refusals';
import type { Hosted } from './hosted';
import { axisOf, int64s, required, scalarOf, takeSlices, zeros } from './tensors';

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

/** As opset 9 and later have it. */
export const scan: Hosted = function* (node, inputs) {
  const body = bodyOf(node);
  const count = integer(node, 'num_scan_inputs');
  const states = inputs.length - count;
  if (states < 0 || body.inputs.length !== inputs.length) {
    throw invalidNode(
      node,
      `scans ${count} of ${inputs.length} inputs, and its body takes ${body.inputs.length}`,
    );
  }
  const sequences = inputs.slice(states).map((_, i) => required(node, inputs, states + i));
  const list = (name: string, length: number) => integers(node, name, new Array<number>(length).fill(0));
  const axes = list('scan_input_axes', count).map((axis, i) => axisOf(node, axis, sequences[i]!.dims.length));
  const directions = list('scan_input_directions', count);
  const made = body.outputs.length - states;
  const [outputAxes, outputDirections] = [
    list('scan_output_axes', made),
    list('scan_output_directions', made),
  ];
  const length = sequences[0]?.dims[axes[0]!] ?? 0;
  if (sequences.some(({ dims }, i) => dims[axes[i]!] !== length)) {
    throw invalidNode(node, 'scans inputs of different lengths');
  }
  let carried = inputs.slice(0, states).map((_, i) => required(node, inputs, i));
  const collected = body.outputs.slice(states).map((): ConstantTensor[] => []);
  for (let step = 0; step < length; step++) {
    const current = sequences.map((sequence, i) => {
      return sliceOf(sequence, axes[i]!, directions[i] === 1 ? length - 1 - step : step);
    });
    const outputs = yield { body, inputs: [...carried, ...current] };
    carried = outputs.slice(0, states);
    collected.forEach((parts, i) => {
      const output = outputs[states + i]!;
      if (outputDirections[i] === 1) parts.unshift(output);
      else parts.push(output);
    });
  }
  return [...carried, ...collected.map((parts, i) => stacked(node, parts, outputAxes[i]!))];
};

/** The tensor at a place of an axis, without that axis. */
function sliceOf(tensor: ConstantTensor, axis: number, place: number): ConstantTensor {
  const slice = takeSlices(tensor, axis, [place]);
  return { ...slice, dims: slice.dims.toSpliced(axis, 1) };
}
