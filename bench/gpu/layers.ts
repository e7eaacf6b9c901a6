/** The named layers that the GPU bench measures, from bench/layers. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { fromNchw } from '../../lib/conv2d/formats';
import type { Layout, Precision } from '../../lib/conv2d/names';
import type { FloatType } from '../../lib/native_types';
import { LAYERS, loadLayers } from '../layers';
import { requireKnown } from '../options';

/** C, H, W, K, R, S, stride, padding or its height and width, groups, dilation (1 where it is left out) */
export type GpuExtents = readonly [
  c: number,
  h: number,
  w: number,
  k: number,
  r: number,
  s: number,
  stride: number,
  padding: number | readonly [height: number, width: number],
  groups: number,
  dilation?: number,
];

/** What products are made of, and how tensors lie. */
export interface Form {
  readonly precision: Precision;
  readonly layout: Layout;
}

export const PLAIN: Form = { precision: 'fp32', layout: 'nchw' };

/** The layout in which sessions hold tensors of a precision. */
export const USUAL_LAYOUT: Readonly<Record<Precision, Layout>> = {
  fp32: 'nchw',
  tf32: 'nchw',
  fp16: 'nhwc',
  bf16: 'nhwc',
};

const TYPES: Readonly<Record<Precision, FloatType>> = {
  fp32: 'float32',
  tf32: 'float32',
  fp16: 'float16',
  bf16: 'bfloat16',
};

export interface GpuLayer {
  readonly group: string;
  readonly name: string;
  readonly batch: number;
  readonly extents: GpuExtents;
  /** Absent for float32 in NCHW */
  readonly form?: Form;
}

export const formOf = ({ form }: GpuLayer): Form => form ?? PLAIN;

/** What results and their files call a form: nothing for float32 in NCHW, and the layout only where it is not the usual. */
export function nameOfForm({ precision, layout }: Form): string {
  const parts = [
    ...(precision === 'fp32' ? [] : [precision]),
    ...(layout === USUAL_LAYOUT[precision] ? [] : [layout]),
  ];
  return parts.join('-');
}

/** What is asked for; everything where a list is empty. */
export interface Selection {
  readonly groups: readonly string[];
  readonly names: readonly string[];
  readonly batches: readonly number[];
  /** float32 in NCHW unless given */
  readonly form?: Form;
}

type Row = readonly [name: string, ...extents: GpuExtents];

export interface LayerSet {
  readonly rows: readonly Row[];
  /** At which it is measured unless others are asked for */
  readonly batches: readonly number[];
}

/** The groups that kernels and the constants of planners were made by. */
export const TUNED_BATCHES = [1, 128] as const;
/** Single images are a matter of latency. */
const SINGLE_IMAGES = 'image';

/**
 * Layers that no kernel was tuned on: what wins on the groups above has to win here, too. Every other 1 x 1 layer of them went
 * into constants of predictions (cuda/pointwise/rows/model.h).
 */
const WIDE_BATCHES = [1, 8] as const;
/** Every distinct convolution of these, at the batches of a server that gathers requests. */
const NETWORKS = [
  { file: 'sconv-393', models: ['resnet50', 'googlenet'] },
  { file: 'mobile', models: ['mobilenet_v3_large'] },
] as const;
const NETWORK_BATCHES = [4, 16] as const;

function readGroups(file: string): [group: string, rows: readonly Row[]][] {
  const {
    about: _about,
    columns: _columns,
    ...groups
  } = JSON.parse(readFileSync(path.join(LAYERS, file), 'utf8')) as Record<string, Row[]>;
  return Object.entries(groups);
}

function networkRows(): Row[] {
  return NETWORKS.flatMap(({ file, models }) => {
    const layers = loadLayers(file).filter(({ model }) => (models as readonly string[]).includes(model));
    const numbers = new Map<string, number>();
    return layers.map(({ model, row }): Row => {
      const number = (numbers.get(model) ?? 0) + 1;
      numbers.set(model, number);
      const [c, h, w, k, r, s, stride, , padH, padW, dilation, , groups] = row as Required<typeof row>;
      const padding = padH === padW ? padH! : ([padH!, padW!] as const);
      const extents = [c!, h!, w!, k!, r!, s!, stride!, padding, groups!] as const;
      return dilation === 1
        ? [`${model}_${number}`, ...extents]
        : [`${model}_${number}`, ...extents, dilation!];
    });
  });
}

export const tunedGroups = (): string[] => readGroups('gpu-bench.json').map(([group]) => group);

/** By group, in the order of the files. */
export function loadGroups(): Map<string, LayerSet> {
  const tuned = readGroups('gpu-bench.json').map(([group, rows]): [string, LayerSet] => [
    group,
    { rows, batches: group === SINGLE_IMAGES ? [1] : TUNED_BATCHES },
  ]);
  const wide = readGroups('gpu-wide.json').map(([group, rows]): [string, LayerSet] => [
    group,
    { rows, batches: WIDE_BATCHES },
  ]);
  return new Map([...tuned, ...wide, ['networks', { rows: networkRows(), batches: NETWORK_BATCHES }]]);
}

/** @throws Error for a group or a layer that does not exist */
export function selectLayers({ groups, names, batches, form = PLAIN }: Selection): GpuLayer[] {
  const all = loadGroups();
  const hint = 'with --device cpu the bench has other groups';
  requireKnown('group', groups, [...all.keys()], hint);
  requireKnown(
    'layer',
    names,
    [...all.values()].flatMap(({ rows }) => rows.map(([name]) => name)),
    hint,
  );
  const sets = [...all].filter(([group]) => groups.length === 0 || groups.includes(group));
  const formed = nameOfForm(form) === '' ? {} : { form };
  const usual = [...new Set(sets.flatMap(([, set]) => set.batches))].sort((a, b) => a - b);
  return (batches.length > 0 ? batches : usual).flatMap((batch) =>
    sets
      .filter(([group, set]) => isMeasuredAt(group, set, batch, batches))
      .flatMap(([group, { rows }]) =>
        rows
          .filter(([name]) => names.length === 0 || names.includes(name))
          .map(([name, ...extents]) => ({
            ...{ group, name, batch, ...formed },
            extents: extents as unknown as GpuExtents,
          })),
      ),
  );
}

function isMeasuredAt(
  group: string,
  { batches }: LayerSet,
  batch: number,
  asked: readonly number[],
): boolean {
  return asked.length === 0 || group === SINGLE_IMAGES ? batches.includes(batch) : asked.includes(batch);
}

const heightAndWidth = (padding: GpuExtents[7]) =>
  typeof padding === 'number' ? ([padding, padding] as const) : padding;

/** The convolution, as the library's `ConvolutionProblem`. */
export function problemOf(layer: GpuLayer) {
  const [c, h, w, k, r, s, stride, padding, groups, dilation = 1] = layer.extents;
  const { precision, layout } = formOf(layer);
  return {
    inputDims: fromNchw([layer.batch, c, h, w], layout),
    inputType: TYPES[precision],
    layout,
    precision,
    weightDims: [k, c / groups, r, s],
    stride,
    padding: heightAndWidth(padding),
    dilation,
    groups,
  };
}

/** Whether each pixel is multiplied by the filters as it lies: a matrix product. */
export function isProduct({ extents }: GpuLayer): boolean {
  const [, , , , r, s, stride, padding] = extents;
  return r * s * stride === 1 && heightAndWidth(padding).every((one) => one === 0);
}

export interface Work {
  /** 2 * multiply-adds */
  readonly flops: number;
  /** Of input, weight and output, each once */
  readonly bytes: number;
}

export function workOf(layer: GpuLayer): Work {
  const { batch, extents } = layer;
  const [c, h, w, k, r, s, stride, padding, groups, dilation = 1] = extents;
  const [padH, padW] = heightAndWidth(padding);
  const extentOf = (input: number, filter: number, pad: number) =>
    Math.floor((input + 2 * pad - dilation * (filter - 1) - 1) / stride) + 1;
  const outputs = batch * k * extentOf(h, r, padH) * extentOf(w, s, padW);
  const weights = (k * c * r * s) / groups;
  const width = TYPES[formOf(layer).precision] === 'float32' ? 4 : 2;
  return {
    flops: (2 * outputs * c * r * s) / groups,
    bytes: width * (batch * c * h * w + weights + outputs),
  };
}
