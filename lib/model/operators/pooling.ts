/** Windows and whole maps brought to one element. */
import { flag, integer } from '../attributes';
import type { Lower, Lowering } from '../lowering';
import { extentOf, sizeOf, type Value } from '../values';
import { reduceTo } from './reduction';
import { apply, scalar } from './typed';
import { averagePoolAny, columnsToImage, maxPoolAny, normPool } from './unfolding';
import { attribute, readWindows } from './windows';

const maxPool: Lower = (x) => {
  const input = x.input(0);
  return !isPlain(input) || x.hasOutput(1) ? maxPoolAny(x, input) : poolPlain(x, input, 'maximum');
};

/** By the attributes of the node. */
export function averagePool(x: Lowering, input: Value): Value {
  return isPlain(input) ? poolPlain(x, input, 'average') : averagePoolAny(x, input);
}

/** Whether there is a kernel for it. */
function isPlain({ type, dims }: Value): boolean {
  return type === 'float32' && (dims.length === 3 || dims.length === 4);
}

function poolPlain(x: Lowering, input: Value, mode: 'maximum' | 'average'): Value {
  const filter = attribute(x, 'kernel_shape', input.dims.length - 2, 0);
  const ceil = flag(x.node, 'ceil_mode', false);
  const countPadding = mode === 'average' && flag(x.node, 'count_include_pad', false);
  const { h, w, outputDims } = readWindows(x, input, filter, { ceil, isPool: true });
  const output = x.build.scratch('float32', outputDims(input.dims[1]!));
  if (sizeOf(output.dims) === 0) return output;
  x.build.emit({
    kind: 'pool',
    mode,
    planes: input.dims[0]! * input.dims[1]!,
    h: h.input,
    w: w.input,
    p: h.output,
    q: w.output,
    r: h.filter,
    s: w.filter,
    stride: [h.stride, w.stride],
    dilation: [h.dilation, w.dilation],
    padding: [h.before, w.before],
    endPadding: [h.after, w.after],
    countPadding,
    input: input.operand,
    output: output.operand,
  });
  return output;
}

function globalPool(mode: 'maximum' | 'mean'): Lower {
  return (x) => {
    const input = x.input(0);
    const [n, c] = input.dims as [number, number];
    const maps = x.build.view(input, [n, c, extentOf(input.dims, 2, input.dims.length)]);
    return x.build.view(reduceTo(x, maps, [2], mode, true), [n, c, ...input.dims.slice(2).map(() => 1)]);
  };
}

/** The p-norm of each map. */
const globalNormPool: Lower = (x) => {
  const input = x.input(0);
  const p = integer(x.node, 'p', 2);
  const powers = apply(x, 'power', [apply(x, 'absolute', [input]), scalar(x, input.type, p)]);
  const axes = input.dims.map((_, axis) => axis).slice(2);
  return apply(x, 'power', [reduceTo(x, powers, axes, 'sum', true), scalar(x, input.type, 1 / p)]);
};

export const pooling: Record<string, Lower> = {
  Col2Im: columnsToImage,
  GlobalLpPool: globalNormPool,
  MaxPool: maxPool,
  AveragePool: (x) => averagePool(x, x.input(0)),
  LpPool: (x) => normPool(x, x.input(0)),
  GlobalMaxPool: globalPool('maximum'),
  GlobalAveragePool: globalPool('mean'),
};
