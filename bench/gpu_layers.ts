/** The named layers that the GPU bench measures, from bench/layers/gpu-bench.json. */
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { requireKnown } from './options';

/** C, H, W, K, R, S, stride, padding, groups */
export type GpuExtents = readonly [number, number, number, number, number, number, number, number, number];

export interface GpuLayer {
  readonly group: string;
  readonly name: string;
  readonly batch: number;
  readonly extents: GpuExtents;
}

/** What is asked for; everything where a list is empty. */
export interface Selection {
  readonly groups: readonly string[];
  readonly names: readonly string[];
  readonly batches: readonly number[];
}

export const BATCHES = [1, 128] as const;

type Row = [name: string, ...extents: number[]];

/** Rows by group, in the order of the file. */
export function loadGroups(): Map<string, readonly Row[]> {
  const file = path.join(__dirname, 'layers/gpu-bench.json');
  const {
    about: _about,
    columns: _columns,
    ...groups
  } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Row[]>;
  return new Map(Object.entries(groups));
}

/** @throws Error for a group or a layer that does not exist */
export function selectLayers({ groups, names, batches }: Selection): GpuLayer[] {
  const all = loadGroups();
  const hint = 'with --device cpu the bench has other groups';
  const allNames = [...all.values()].flat().map(([name]) => name);
  requireKnown('group', groups, [...all.keys()], hint);
  requireKnown('layer', names, allNames, hint);
  return (batches.length > 0 ? batches : BATCHES).flatMap((batch) =>
    [...all]
      .filter(([group]) => groups.length === 0 || groups.includes(group))
      // Single images are a matter of latency.
      .filter(([group]) => group !== 'image' || batch === 1)
      .flatMap(([group, rows]) =>
        rows
          .filter(([name]) => names.length === 0 || names.includes(name))
          .map(([name, ...extents]) => ({ group, name, batch, extents: extents as unknown as GpuExtents })),
      ),
  );
}

/** The convolution, as the library's `ConvolutionProblem`. */
export function problemOf({ batch, extents: [c, h, w, k, r, s, stride, padding, groups] }: GpuLayer) {
  return {
    inputDims: [batch, c, h, w],
    weightDims: [k, c / groups, r, s],
    stride,
    padding,
    groups,
  };
}

export interface Work {
  /** 2 * multiply-adds */
  readonly flops: number;
  /** Of input, weight and output, each once, in float32 */
  readonly bytes: number;
}

export function workOf({ batch, extents: [c, h, w, k, r, s, stride, padding, groups] }: GpuLayer): Work {
  const extentOf = (input: number, filter: number) => Math.floor((input + 2 * padding - filter) / stride) + 1;
  const outputs = batch * k * extentOf(h, r) * extentOf(w, s);
  const weights = (k * c * r * s) / groups;
  return { flops: (2 * outputs * c * r * s) / groups, bytes: 4 * (batch * c * h * w + weights + outputs) };
}
