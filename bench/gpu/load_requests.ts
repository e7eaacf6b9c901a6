/**
 * Global load requests of the shuffle kernels on one image, counted by Nsight Compute: what column and row reuse save.
 * The paper has 25 loads for a window of 5 x 5 without reuse and 10 with column reuse.
 *
 *     npx ts-node bench/gpu/load_requests.ts
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { ROOT } from '../command';

export const EXTENT = 1024;
export const FILTERS = [3, 5] as const;
export const REUSE_VARIANTS = ['neither', 'column', 'row', 'both'] as const;

const REQUESTS = 'l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum';
const SECTORS = 'l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum';

export interface LoadCount {
  /** Rows and columns of the filter */
  readonly filter: number;
  readonly variant: (typeof REUSE_VARIANTS)[number];
  /** Of warps, for the whole image */
  readonly requests: number;
  /** Of 32 bytes */
  readonly sectors: number;
}

export interface LoadRequests {
  readonly profiler: string;
  /** Rows and columns of the image */
  readonly extent: number;
  readonly counts: readonly LoadCount[];
}

/** A warp's requests for each output of its lanes: 25 where every element of a 5 x 5 window is loaded by itself. */
export function requestsPerOutput({ filter, requests }: LoadCount, extent: number): number {
  const outputs = (extent - filter + 1) ** 2;
  return requests / (outputs / 32);
}

/** What to profile, in the order in which load_requests_run.mjs does it: a kernel each. */
export function plannedCounts(): Pick<LoadCount, 'filter' | 'variant'>[] {
  return FILTERS.flatMap((filter) => REUSE_VARIANTS.map((variant) => ({ filter, variant })));
}

/** The fields of a line of CSV. */
function fieldsOf(line: string): string[] {
  return [...line.matchAll(/"((?:[^"]|"")*)"|([^",]+)/g)].map(([, quoted, plain]) =>
    (quoted ?? plain!).replaceAll('""', '"'),
  );
}

/**
 * The counts from the output of `ncu --csv`: a line for each kernel and metric, among those of the profiler and of the
 * program, under a line of headings.
 *
 * @throws Error where the kernels are not those that were planned
 */
export function parseCounts(output: string): LoadCount[] {
  const lines = output.split('\n').filter((line) => line.startsWith('"'));
  const heads = fieldsOf(lines[0] ?? '');
  const [id, name, value] = ['ID', 'Metric Name', 'Metric Value'].map((head) => heads.indexOf(head));
  const kernels = new Map<string, Map<string, number>>();
  for (const fields of lines.slice(1).map(fieldsOf)) {
    const metrics = kernels.get(fields[id!]!) ?? new Map<string, number>();
    metrics.set(fields[name!]!, Number(fields[value!]!.replaceAll(',', '')));
    kernels.set(fields[id!]!, metrics);
  }
  const planned = plannedCounts();
  const counted = [...kernels.values()];
  if (counted.length !== planned.length) {
    throw new Error(`the profiler saw ${counted.length} kernels; ${planned.length} were expected`);
  }
  return planned.map((what, index) => {
    const [requests, sectors] = [REQUESTS, SECTORS].map((metric) => counted[index]!.get(metric) ?? NaN);
    if (!(requests! > 0 && sectors! > 0)) throw new Error(`the profiler has no ${REQUESTS} or ${SECTORS}`);
    return { ...what, requests: requests!, sectors: sectors! };
  });
}

/** On the PATH, or where NVIDIA's packages put it. */
function profilers(): string[] {
  const compute = '/opt/nvidia/nsight-compute';
  const versions = existsSync(compute) ? readdirSync(compute).sort().reverse() : [];
  const files = ['/usr/local/cuda/bin/ncu', ...versions.map((version) => path.join(compute, version, 'ncu'))];
  return ['ncu', ...files.filter((file) => existsSync(file))];
}

const LONGEST_MILLISECONDS = 90_000;

async function profile(profiler: string): Promise<string> {
  const program = [process.execPath, path.join(__dirname, 'load_requests_run.mjs')];
  const request = JSON.stringify({ extent: EXTENT, runs: plannedCounts() });
  const options = ['--csv', '--target-processes', 'all', '--metrics', `${REQUESTS},${SECTORS}`];
  const { stdout } = await promisify(execFile)(profiler, [...options, ...program, request], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 24,
    timeout: LONGEST_MILLISECONDS,
  });
  return stdout;
}

/** The counts, or the sentence that says why there are none. */
export async function countLoadRequests(): Promise<LoadRequests | string> {
  for (const profiler of profilers()) {
    try {
      return { profiler, extent: EXTENT, counts: parseCounts(await profile(profiler)) };
    } catch (error) {
      const { code, stdout, message } = error as Error & { code?: string | number; stdout?: string };
      if (code === 'ENOENT') continue;
      const complaint = /==ERROR== .*/.exec(stdout ?? '')?.[0] ?? message.split('\n')[0]!;
      return `Nsight Compute (${profiler}) did not count: ${complaint}`;
    }
  }
  return 'Nsight Compute (ncu) is not installed here; load requests were not counted';
}

if (require.main === module) {
  void countLoadRequests().then((counts) => console.log(JSON.stringify(counts, null, 1)));
}
