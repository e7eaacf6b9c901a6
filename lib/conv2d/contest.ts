/**
 * One convolution computed in several ways on a GPU, each judged by an oracle and timed in turns with the others. What
 * `compareWithCudnn` and the bench stand on; not part of the package's public interface.
 */
import type {
  FloatArray,
  NativeCeilings,
  NativeContestEntry,
  NativeContestReport,
  NativeContestResult,
  NativePlan,
} from '../addon';
import { callNativeAsync } from '../calls';
import { addon } from '../load';
import { CUBLAS, CUDNN, libraryNames } from '../nvidia_libraries';
import type { Layout, Precision } from './names';
import { readProblem, type ConvolutionProblem } from './options';
import { indexOf, locate, probeElsewhere, type Device } from '../placement';
import { openPlan } from './tuning';

export type ContestEntry = NativeContestEntry;
export type ContestReport = NativeContestReport;
export type ContestResult = NativeContestResult;

export interface Contest {
  readonly entries: readonly ContestEntry[];
  /** Random ones, made on the GPU, where absent */
  readonly tensors?: { readonly input: FloatArray; readonly weight: FloatArray };
  readonly rounds?: number;
  /** With the L2 cache overwritten before every call */
  readonly coldRounds?: number;
}

/** In which rivals are asked, whatever ours has: the fastest counts. */
export const LAYOUTS = ['nchw', 'nhwc'] as const satisfies readonly Layout[];

/**
 * By precision, as a share of `|input| * |weight|`: the rule of docs/numerics.md, for outputs of 16 bits, too. Other
 * libraries' kernels may cut factors of TF32 off.
 */
export const TOLERANCES: Readonly<Record<Precision, number>> = {
  fp32: 4e-6,
  tf32: 2e-3,
  fp16: 3 * 2 ** -11,
  bf16: 3 * 2 ** -8,
};

/** A plan for `holdContest`, which tells what `'auto'` chooses; the caller disposes it. */
export async function openContestPlan(
  problem: ConvolutionProblem,
  device: Exclude<Device, 'cpu'>,
): Promise<NativePlan> {
  return openPlan({ ...readProblem(problem), device: await openGpu(device) });
}

/** What the GPU does at best, measured now: the ceilings of a bench. */
export async function measureCeilings(device: Exclude<Device, 'cpu'>): Promise<NativeCeilings> {
  const index = await openGpu(device);
  const report: Partial<NativeCeilings> = {};
  await callNativeAsync((done) => addon().gpuCeilings(index, report, done));
  return report as NativeCeilings;
}

/** Makes a GPU ready, and gives its number. */
async function openGpu(device: Exclude<Device, 'cpu'>): Promise<number> {
  await probeElsewhere(device);
  return indexOf(locate(device));
}

/** Compares on the problem and the GPU of `plan`. An entry that fails has its reason in the report. */
export async function holdContest(
  plan: NativePlan,
  { entries, tensors, rounds = 11, coldRounds = 0 }: Contest,
): Promise<ContestReport> {
  const wants = (library: ContestEntry['library']) => entries.some((entry) => entry.library === library);
  const contest = {
    entries,
    cudnnLibraries: wants('cudnn') ? libraryNames(CUDNN) : [],
    cublasLibraries: wants('cublas') ? libraryNames(CUBLAS) : [],
    rounds,
    coldRounds,
  };
  const report: Partial<ContestReport> = {};
  await callNativeAsync((done) =>
    plan.holdContest(tensors?.input ?? null, tensors?.weight ?? null, contest, report, done),
  );
  return report as ContestReport;
}
