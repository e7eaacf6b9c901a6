/** What `npx warpconv doctor` finds: each thing the package uses, whether it is there, and what to do if not. */
import path from 'node:path';

import type { NativeGpu } from '../addon';
import { conv2dSync } from '../conv2d/convolution';
import { PACKAGE_ROOT } from '../here';
import { addon, loadedBinary } from '../load';
import { CUDNN, findLibrary } from '../nvidia_libraries';
import { whyNoGpu } from '../placement';
import { Tensor } from '../tensor/tensor';

/** `missing` is something the package works without; `failed` is not. */
export type FindingStatus = 'ok' | 'missing' | 'failed';

export interface Finding {
  readonly name: string;
  readonly status: FindingStatus;
  readonly detail: string;
  readonly remedy?: string;
}

/** Looks at everything. A look that throws is a finding too. */
export function examine(): Finding[] {
  const binary = attempt('binary', lookAtBinary);
  const throughBinary = {
    CPU: lookAtCpu,
    caches: lookAtCaches,
    'self-test': convolveAndCheck,
    'GPU driver': lookAtDriver,
    GPUs: lookAtGpus,
  };
  const looks = { ...(binary.status === 'ok' ? throughBinary : {}), cuDNN: lookForCudnn };
  return [binary, ...Object.entries(looks).map(([name, look]) => attempt(name, look))];
}

/** Whether convolutions run on this machine. */
export function isHealthy(findings: readonly Finding[]): boolean {
  return findings.every(({ status }) => status !== 'failed');
}

/** One line for each finding, and one for each remedy. */
export function format(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ name }) => name.length));
  const indent = ' '.repeat(width + 11);
  return findings
    .flatMap(({ name, status, detail, remedy }) => [
      `${name.padEnd(width)}  ${status.padEnd(7)}  ${detail.replaceAll('\n', `\n${indent}`)}`,
      ...(remedy === undefined ? [] : [`${indent}${remedy}`]),
    ])
    .join('\n');
}

type Look = Omit<Finding, 'name'>;

function attempt(name: string, look: () => Look): Finding {
  try {
    return { name, ...look() };
  } catch (error) {
    return { name, status: 'failed', detail: String((error as Partial<Error>).message ?? error) };
  }
}

function lookAtBinary(): Look {
  const { file } = loadedBinary();
  return { status: 'ok', detail: path.isAbsolute(file) ? path.relative(PACKAGE_ROOT, file) : file };
}

function lookAtCpu(): Look {
  const { name, isa, features, cores } = addon().cpu();
  return { status: 'ok', detail: `${name}, ${cores} cores, ${isa} (${features.join(' ')})` };
}

function lookAtCaches(): Look {
  const { l1d, l2, l3 } = addon().cpu().caches;
  return { status: 'ok', detail: `L1 data ${kibibytes(l1d)}, L2 ${kibibytes(l2)}, L3 ${kibibytes(l3)}` };
}

function kibibytes(bytes: number): string {
  return bytes === 0 ? 'unknown' : `${bytes / 1024} KiB`;
}

/** Small enough to check by hand: sums over 3 × 3 windows of 0…15, with one line of padding. */
function convolveAndCheck(): Look {
  const input = new Tensor(
    'float32',
    Float32Array.from({ length: 16 }, (_, index) => index),
    [1, 1, 4, 4],
  );
  const weight = new Tensor('float32', new Float32Array(9).fill(1), [1, 1, 3, 3]);
  const output = conv2dSync(input, weight, { padding: 1, device: 'cpu' });
  const expected = [10, 18, 24, 18, 27, 45, 54, 39, 51, 81, 90, 63, 42, 66, 72, 50];
  if (expected.every((value, index) => output.data[index] === value)) {
    return { status: 'ok', detail: 'a 3 × 3 convolution on the CPU gives the right values' };
  }
  return {
    status: 'failed',
    detail: `a 3 × 3 convolution gave ${output.data.join(' ')} instead of ${expected.join(' ')}`,
    remedy: 'Please report this with the lines above.',
  };
}

function lookAtDriver(): Look {
  const { driver, missing } = addon().gpuProbe();
  if (driver !== '') return { status: 'ok', detail: `supports CUDA up to ${driver}` };
  return {
    status: 'missing',
    detail: missing === 'build' ? 'this binary cannot look for one' : 'none usable',
  };
}

function lookAtGpus(): Look {
  const { missing, reason, gpus } = addon().gpuProbe();
  if (missing === null) return { status: 'ok', detail: gpus.map(describeGpu).join('\n') };
  return { status: 'missing', detail: `none: ${reason}`, remedy: GPU_REMEDIES[missing] };
}

const GPU_REMEDIES = {
  build: 'To use GPUs, put nvcc of the CUDA toolkit on the PATH and run `npx warpconv build --cuda`.',
  driver:
    'For an NVIDIA GPU install or update its driver; in a container, give it the GPU (docker run --gpus all).',
  device: 'The driver shows no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES.',
} as const;

function describeGpu({ index, name, computeCapability, memoryBytes, multiprocessors }: NativeGpu): string {
  const gibibytes = (memoryBytes / 2 ** 30).toFixed(0);
  const facts = `${name}, compute capability ${computeCapability}, ${gibibytes} GiB, ${multiprocessors} multiprocessors`;
  const trouble = whyNoGpu(`cuda:${index}`);
  return `cuda:${index} ${facts}${trouble === undefined ? '' : `; unusable: ${trouble}`}`;
}

function lookForCudnn(): Look {
  const [file] = findLibrary(CUDNN);
  if (file !== undefined) return { status: 'ok', detail: file };
  return {
    status: 'missing',
    detail: 'not found; it serves comparisons only, convolutions do without',
    remedy: 'Install cuDNN, or set WARPCONV_CUDNN to libcudnn.so or its directory.',
  };
}
