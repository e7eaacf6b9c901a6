/** Types and layouts of tensors, as callers name them and as native code takes them. */
import type { ConvolutionSpec, FloatType } from '../addon';
import { addon } from '../load';
import { indexOf, type Place } from '../placement';
import type { Layout, Precision } from './names';

/** The type and the layout of input, residual and output. */
export interface TensorForm {
  readonly type: FloatType;
  readonly layout: Layout;
}

/** The type of results, by that of the input. Where TypeScript does not know it, it counts as float32. */
export type OutputType<T extends string> = [T] extends [FloatType] ? T : 'float32';

/** The products that suit tensors of a type. */
export const DEFAULT_PRECISION = {
  float32: 'fp32',
  float16: 'fp16',
  bfloat16: 'bf16',
} as const satisfies Readonly<Record<FloatType, Precision>>;

/** That of GPUs with kernels for TF32 and halves */
const COMPUTE_CAPABILITY = '9.0';

/** What is asked for, where the device has it; elsewhere float32. */
export function precisionOn(place: Place, asked: Precision): Precision {
  if (place === 'cpu' || asked === 'fp32') return 'fp32';
  const gpu = addon()
    .gpuProbe()
    .gpus.find(({ index }) => index === indexOf(place));
  return gpu?.computeCapability === COMPUTE_CAPABILITY ? asked : 'fp32';
}

/** Dims in a layout as N, C, H, W. */
export function toNchw(dims: readonly number[], layout: Layout): readonly number[] {
  if (layout === 'nchw') return dims;
  const [n, h, w, c] = dims as [number, number, number, number];
  return [n, c, h, w];
}

/** N, C, H, W as dims in a layout. */
export function fromNchw(dims: readonly number[], layout: Layout): readonly number[] {
  if (layout === 'nchw') return dims;
  const [n, c, h, w] = dims as [number, number, number, number];
  return [n, h, w, c];
}

/** What a specification says of it: nothing where tensors are plain. */
export function formatOf({ type, layout }: TensorForm): Pick<ConvolutionSpec, 'format'> {
  if (type === 'float32' && layout === 'nchw') return {};
  const format = { type, layout, pitch: 0 };
  return { format: { input: format, residual: format, output: format } };
}

/** The form of a specification's tensors. */
export function formOf({ format }: Pick<ConvolutionSpec, 'format'>): TensorForm {
  return format?.output ?? { type: 'float32', layout: 'nchw' };
}
