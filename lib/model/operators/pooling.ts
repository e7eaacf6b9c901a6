/** Windows and whole maps brought to one element. */
import { flag } from '../attributes';
import { requireFloat } from '../builder';
import type { Lower } from '../lowering';
import { unsupportedNode } from '../refusals';
import { extentOf } from '../values';
import { reduceTo } from './reduction';
import { attribute, readWindows, requireMaps } from './windows';

function pool(mode: 'maximum' | 'average'): Lower {
  return (x) => {
    const input = x.input(0);
    requireMaps(x, input);
    requireFloat(x.node, input);
    if (x.hasOutput(1)) throw unsupportedNode(x.node, 'has the indices of its maxima as an output');
    const filter = attribute(x, 'kernel_shape', input.dims.length - 2, 0);
    const ceil = flag(x.node, 'ceil_mode', false);
    const { h, w, outputDims } = readWindows(x, input, filter, { ceil });
    const output = x.build.scratch('float32', outputDims(input.dims[1]!));
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
      countPadding: mode === 'average' && flag(x.node, 'count_include_pad', false),
      input: input.operand,
      output: output.operand,
    });
    return output;
  };
}

function globalPool(mode: 'maximum' | 'mean'): Lower {
  return (x) => {
    const input = x.input(0);
    const [n, c] = input.dims as [number, number];
    const maps = x.build.view(input, [n, c, extentOf(input.dims, 2, input.dims.length)]);
    return x.build.view(reduceTo(x, maps, [2], mode, true), [n, c, ...input.dims.slice(2).map(() => 1)]);
  };
}

export const pooling: Record<string, Lower> = {
  MaxPool: pool('maximum'),
  AveragePool: pool('average'),
  GlobalMaxPool: globalPool('maximum'),
  GlobalAveragePool: globalPool('mean'),
};
