/**
 * The tests' oracle: a 2-D convolution by its definition, in double precision. It shares no code with the
 * library, the arithmetic of padding and output extents included.
 */

// Taken out of the global object once: looking it up there, in the loops below, is very slow under Jest.
const { abs, fround } = Math;

export type Dims = readonly [number, number, number, number];
export type Pair = readonly [height: number, width: number];
export type Sides = readonly [top: number, left: number, bottom: number, right: number];
export type Activation =
  | 'none'
  | 'relu'
  | 'relu6'
  | 'leakyRelu'
  | 'sigmoid'
  | 'silu'
  | 'hardSwish'
  | { readonly clip: readonly [min: number, max: number] }
  | { readonly leakyRelu: number };

export interface Problem {
  /** N, C, H, W */
  readonly inputDims: Dims;
  /** K, C / groups, R, S */
  readonly weightDims: Dims;
  readonly stride: Pair;
  readonly padding: Sides | 'same' | 'valid';
  readonly dilation: Pair;
  readonly groups: number;
  readonly activation: Activation;
}

/** What a problem is applied to, each in row-major order. */
export interface Operands {
  readonly input: Float32Array;
  readonly weight: Float32Array;
  /** One value per filter */
  readonly bias?: Float32Array | undefined;
  /** Of the output's dims */
  readonly residual?: Float32Array | undefined;
}

export interface Reference {
  readonly y: Float64Array;
  /** Per output |x| * |w| + |bias| + |residual|: what rounding errors are measured against. */
  readonly bound: Float64Array;
}

export function resolvePadding({ inputDims, weightDims, stride, padding, dilation }: Problem): Sides {
  if (padding === 'valid') return [0, 0, 0, 0];
  if (padding !== 'same') return padding;
  const [top, bottom] = samePadding(inputDims[2], weightDims[2], stride[0], dilation[0]);
  const [left, right] = samePadding(inputDims[3], weightDims[3], stride[1], dilation[1]);
  return [top, left, bottom, right];
}

function samePadding(extent: number, filter: number, stride: number, dilation: number): [number, number] {
  const windows = Math.ceil(extent / stride);
  const total = Math.max(0, (windows - 1) * stride + (filter - 1) * dilation + 1 - extent);
  return [Math.floor(total / 2), Math.ceil(total / 2)];
}

/** N, K, P, Q; P or Q is below 1 where not one window fits. */
export function outputDims(problem: Problem): Dims {
  const { inputDims, weightDims, stride, dilation } = problem;
  const [top, left, bottom, right] = resolvePadding(problem);
  return [
    inputDims[0],
    weightDims[0],
    windows(inputDims[2] + top + bottom, weightDims[2], stride[0], dilation[0]),
    windows(inputDims[3] + left + right, weightDims[3], stride[1], dilation[1]),
  ];
}

function windows(extent: number, filter: number, stride: number, dilation: number): number {
  return Math.floor((extent - (filter - 1) * dilation - 1) / stride) + 1;
}

/** Outputs times the multiplications of one output. */
export function multiplyAdds(problem: Problem): number {
  const [, groupInputs, r, s] = problem.weightDims;
  return elements(outputDims(problem)) * groupInputs * r * s;
}

export function elements(dims: Dims): number {
  return dims[0] * dims[1] * dims[2] * dims[3];
}

/** The convolution in double precision. */
export function reference(problem: Problem, operands: Operands): Reference {
  const dims = outputDims(problem);
  const y = new Float64Array(elements(dims));
  const bound = new Float64Array(y.length);
  forEachProduct(problem, operands, (output, x, weight) => {
    const product = x * weight;
    y[output]! += product;
    bound[output]! += abs(product);
  });
  const [, k, p, q] = dims;
  for (let output = 0; output < y.length; output++) {
    const bias = operands.bias?.[Math.floor(output / (p * q)) % k] ?? 0;
    const residual = operands.residual?.[output] ?? 0;
    y[output] = activate(problem.activation, y[output]! + bias + residual);
    bound[output]! += Math.abs(bias) + Math.abs(residual);
    // A sigmoid does not vanish with its argument, so its own rounding, relative to its value, counts too.
    if (problem.activation === 'sigmoid') bound[output]! += y[output]!;
  }
  return { y, bound };
}

/** The bare convolution (no bias, no activation) summed in float32, one product after the other. */
export function sequentialFloat32(problem: Problem, operands: Operands): Float32Array {
  const sums = new Float32Array(elements(outputDims(problem)));
  forEachProduct(problem, operands, (output, x, weight) => {
    sums[output]! += fround(x * weight);
  });
  return sums;
}

/** Visits the factors of every product of every output, channels outermost; padded elements have no products. */
function forEachProduct(
  problem: Problem,
  { input, weight }: Operands,
  visit: (output: number, x: number, weight: number) => void,
): void {
  const [, c, h, w] = problem.inputDims;
  const [k, groupInputs, r, s] = problem.weightDims;
  const [strideH, strideW] = problem.stride;
  const [dilationH, dilationW] = problem.dilation;
  const [top, left] = resolvePadding(problem);
  const [n, , p, q] = outputDims(problem);
  let output = 0;
  for (let image = 0; image < n; image++) {
    for (let filter = 0; filter < k; filter++) {
      const firstChannel = image * c + Math.floor(filter / (k / problem.groups)) * groupInputs;
      for (let row = 0; row < p; row++) {
        for (let column = 0; column < q; column++, output++) {
          for (let channel = 0; channel < groupInputs; channel++) {
            for (let i = 0; i < r; i++) {
              const y = row * strideH + i * dilationH - top;
              if (y < 0 || y >= h) continue;
              const inputRow = ((firstChannel + channel) * h + y) * w;
              const weightRow = ((filter * groupInputs + channel) * r + i) * s;
              for (let j = 0; j < s; j++) {
                const x = column * strideW + j * dilationW - left;
                if (x >= 0 && x < w) visit(output, input[inputRow + x]!, weight[weightRow + j]!);
              }
            }
          }
        }
      }
    }
  }
}

// NaN fails every comparison and so passes through unchanged.
function clip(x: number, min: number, max: number): number {
  return x < min ? min : x > max ? max : x;
}

function leakyRelu(x: number, slope: number): number {
  return x < 0 ? slope * x : x;
}

function activate(activation: Activation, x: number): number {
  if (typeof activation === 'object') {
    return 'clip' in activation ? clip(x, ...activation.clip) : leakyRelu(x, activation.leakyRelu);
  }
  switch (activation) {
    case 'none':
      return x;
    case 'relu':
      return x < 0 ? 0 : x;
    case 'relu6':
      return clip(x, 0, 6);
    case 'leakyRelu':
      return leakyRelu(x, 0.01);
    case 'sigmoid':
      return 1 / (1 + Math.exp(-x));
    case 'silu':
      return x / (1 + Math.exp(-x));
    case 'hardSwish':
      return (x * clip(x + 3, 0, 6)) / 6;
  }
}
