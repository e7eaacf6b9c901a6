/** ResNet-50 with random weights for any number of images, as PyTorch exports it: batch normalisations are in the biases. */
import type { NodeProto, TensorProto } from '../../lib/model/onnx/onnx_pb';
import { node, onnxModel, tensor, value } from '../../test/support/onnx_builder';

const CLASSES = 1000;

class Writer {
  readonly nodes: NodeProto[] = [];
  readonly initializers: TensorProto[] = [];
  #state = 1;

  /** Reals that keep the size of what they are summed with. */
  #reals(count: number, summed: number): Float32Array {
    const scale = Math.sqrt(3 / summed) / 2 ** 30;
    return Float32Array.from({ length: count }, () => {
      this.#state = (Math.imul(this.#state, 1664525) + 1013904223) | 0;
      return (this.#state >> 1) * scale;
    });
  }

  add(operator: string, inputs: readonly string[], attributes: Parameters<typeof node>[3] = {}): string {
    const output = `t${this.nodes.length}`;
    this.nodes.push(node(operator, inputs, [output], attributes));
    return output;
  }

  weights(dims: readonly number[], summed: number): string {
    const name = `w${this.initializers.length}`;
    const count = dims.reduce((product, extent) => product * extent, 1);
    this.initializers.push(tensor(name, dims, this.#reals(count, summed)));
    return name;
  }

  convolution(input: string, channels: number, filters: number, window: number, stride = 1): string {
    const summed = channels * window * window;
    const weight = this.weights([filters, channels, window, window], summed);
    const bias = this.weights([filters], 100);
    const pad = window >> 1;
    const attributes = { strides: [stride, stride], pads: [pad, pad, pad, pad] };
    return this.add('Conv', [input, weight, bias], attributes);
  }

  bottleneck(input: string, channels: number, width: number, stride: number): string {
    const reduced = this.add('Relu', [this.convolution(input, channels, width, 1)]);
    const spatial = this.add('Relu', [this.convolution(reduced, width, width, 3, stride)]);
    const expanded = this.convolution(spatial, width, 4 * width, 1);
    const shortcut = channels === 4 * width ? input : this.convolution(input, channels, 4 * width, 1, stride);
    return this.add('Relu', [this.add('Add', [expanded, shortcut])]);
  }
}

/** The bytes of an ONNX file: input `x` of `[n, 3, 224, 224]`. */
export function resNet50(): Uint8Array {
  const writer = new Writer();
  const stem = writer.add('Relu', [writer.convolution('x', 3, 64, 7, 2)]);
  let last = writer.add('MaxPool', [stem], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] });
  let channels = 64;
  [3, 4, 6, 3].forEach((blocks, stage) => {
    const width = 64 << stage;
    for (let block = 0; block < blocks; block++) {
      last = writer.bottleneck(last, channels, width, block === 0 && stage > 0 ? 2 : 1);
      channels = 4 * width;
    }
  });
  const mean = writer.add('Flatten', [writer.add('GlobalAveragePool', [last])]);
  const classifier = [writer.weights([channels, CLASSES], channels), writer.weights([CLASSES], 100)];
  const output = writer.add('Gemm', [mean, ...classifier]);
  return onnxModel({
    inputs: [value('x', ['n', 3, 224, 224])],
    initializers: writer.initializers,
    nodes: writer.nodes,
    outputs: [value(output, ['n', CLASSES])],
  });
}
