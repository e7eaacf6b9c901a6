/** Models that this package refuses, for tests of who runs them then. */
import { node, onnxModel, tensor, value } from './onnx_builder';

/** Refused when it is loaded. */
export const odd = onnxModel({
  inputs: [value('x', ['N'])],
  nodes: [node('Odd', ['x'], ['y'])],
  outputs: [value('y')],
});

/** Refused in its first run, when the rank of the input is known. */
export const late = onnxModel({
  inputs: [value('x')],
  nodes: [node('Dropout', ['x', '', 'true'], ['y'])],
  initializers: [tensor('true', [], [1], 'bool')],
  outputs: [value('y')],
});
