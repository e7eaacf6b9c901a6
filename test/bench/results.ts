/** Small results of the GPU bench, made up so that every figure can be told by hand. */
import type {
  Contestant,
  Entry,
  GpuBenchResult,
  LayerResult,
  Measured,
  RunInfo,
} from '../../bench/gpu/result';

/** Quartiles lie 1 % beside the median, cold times 4 µs above it. */
export function measured(milliseconds: number, more: Partial<Measured> = {}): Measured {
  return {
    ms: [0.99 * milliseconds, milliseconds, 1.01 * milliseconds],
    coldMs: [0.99 * milliseconds + 0.004, milliseconds + 0.004, 1.01 * milliseconds + 0.004],
    calls: 20,
    workspaceBytes: 0,
    maxError: 1e-5,
    maxRelativeError: 3e-7,
    ...more,
  };
}

export function ours(algorithm: string, ms: number, variant = '', more: Partial<Measured> = {}): Entry {
  return { library: 'warpconv', algorithm, variant, ...measured(ms, more) };
}

export function cudnn(
  algorithm: string,
  ms: number,
  kind: Pick<Contestant, 'layout' | 'arithmetic'> = {},
  more: Partial<Measured> = {},
): Entry {
  return {
    library: 'cudnn',
    layout: 'nchw',
    arithmetic: 'fp32',
    ...kind,
    algorithm,
    ...measured(ms, more),
  };
}

export function layer(entries: readonly Entry[], more: Partial<LayerResult> = {}): LayerResult {
  return {
    group: 'mec12',
    name: 'conv12',
    batch: 128,
    extents: [512, 7, 7, 512, 3, 3, 1, 0, 1],
    run: 0,
    chosen: 'im2win',
    seconds: 1,
    entries,
    ...more,
  };
}

export const RUN: RunInfo = {
  started: '2026-11-21T12:00:00.000Z',
  arguments: [],
  quick: false,
  node: 'v22.0.0',
  version: '0.1.0',
  cudnn: '9.19.0',
  cublas: '13.1.0',
  clocks: [{ when: 'before', facts: { 'clocks.sm': '1980 MHz' } }],
  ceilings: { flopsPerSecond: 60e12, bytesPerSecond: 4e12, eventMilliseconds: 0.002 },
};

/** A layer in FP16, ours in NHWC as sessions have it. */
export function halfLayer(entries: readonly Entry[], more: Partial<LayerResult> = {}): LayerResult {
  return layer(entries, { chosen: 'implicit', form: { precision: 'fp16', layout: 'nhwc' }, ...more });
}

/** Of ours and of rivals in FP16, off by half of what is allowed. */
export function half(entry: Entry, layout: 'nchw' | 'nhwc' = 'nhwc'): Entry {
  return {
    ...entry,
    layout,
    arithmetic: 'fp16',
    ...(entry.failure === undefined && { maxRelativeError: 7e-4 }),
  };
}

export function result(layers: readonly LayerResult[], more: Partial<GpuBenchResult> = {}): GpuBenchResult {
  return {
    schema: 2,
    date: '2026-11-21',
    gpu: {
      device: 'cuda:0',
      type: 'cuda',
      available: true,
      name: 'Test GPU',
      computeCapability: '9.0',
      multiprocessors: 132,
      driver: '13.0',
    },
    runs: [RUN],
    layers,
    ...more,
  };
}
