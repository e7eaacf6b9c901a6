/**
 * Measures layers on a GPU, and sends a message for each to the process that started it (bench/gpu/bench.ts): a kernel that
 * goes astray takes its process with it, and the other layers are measured by the next.
 */
import type { Device } from 'warpconv';

import type { NativePlan } from '../../lib/addon';
import {
  holdContest,
  measureCeilings,
  openContestPlan,
  type ContestEntry,
  type ContestReport,
  type ContestResult,
} from '../../lib/conv2d/contest';
import { entriesOf, type Task } from './entries';
import { problemOf, type GpuLayer } from './layers';
import { withoutBeaten, type Ceilings, type Contestant, type Entry, type Quartiles } from './result';
import { significant } from '../statistics';

export interface GpuMeasureRequest {
  readonly device: Exclude<Device, 'cpu'>;
  readonly tasks: readonly Task[];
  readonly quick: boolean;
}

export type GpuMeasureMessage =
  | { readonly kind: 'ceilings'; readonly ceilings: Ceilings }
  | { readonly kind: 'begin'; readonly task: number }
  | {
      readonly kind: 'layer';
      readonly task: number;
      readonly chosen: string;
      readonly entries: readonly Entry[];
      readonly cudnn: string;
      readonly cublas: string;
    }
  | { readonly kind: 'failure'; readonly task: number; readonly message: string }
  /** CUDA cannot be used in this process any more: after which contestant, where that is known. */
  | { readonly kind: 'spoiled'; readonly task: number; readonly by?: Contestant; readonly message: string };

const THOROUGH = { rounds: 11, coldRounds: 5 } as const;
const QUICK = { rounds: 5, coldRounds: 0 } as const;

const ERROR_DIGITS = 3;

const quartiles = ({ lowerQuartile, median, upperQuartile }: Record<string, number>): Quartiles => [
  significant(lowerQuartile!),
  significant(median!),
  significant(upperQuartile!),
];

const errorOrNull = (value: number) => (Number.isNaN(value) ? null : significant(value, ERROR_DIGITS));

function contestantOf(result: ContestResult, entry: ContestEntry, layer: GpuLayer): Contestant {
  // Of a rival the result knows what it chose, and of ours both say the same, unless there was no result.
  const algorithm = result.algorithm || ('algorithm' in entry ? entry.algorithm : '');
  if (entry.library !== 'warpconv' || layer.form === undefined) return { ...entry, algorithm };
  const { precision: arithmetic, layout } = layer.form;
  return { ...entry, algorithm, layout, arithmetic };
}

function toEntry(result: ContestResult, entries: readonly ContestEntry[], layer: GpuLayer): Entry {
  const contestant = contestantOf(result, entries[result.entry]!, layer);
  if (result.failure !== undefined) return { ...contestant, failure: result.failure.message };
  const { milliseconds, coldMilliseconds, calls, workspaceBytes, proposed } = result;
  return {
    ...contestant,
    ms: quartiles({ ...milliseconds }),
    ...(coldMilliseconds && { coldMs: quartiles({ ...coldMilliseconds }) }),
    calls,
    workspaceBytes,
    ...(contestant.library !== 'warpconv' && { proposed }),
    maxError: errorOrNull(result.maxError),
    maxRelativeError: errorOrNull(result.maxRelativeError),
  };
}

/** As native code ends the message of an error that no later call survives. */
const isFatal = (message: string) => message.includes('CUDA cannot be used in this process any more');

/** What is worth keeping: variants that refuse a problem are many, and no failures. */
const isRefusal = ({ entry, failure }: ContestResult, entries: readonly ContestEntry[]) =>
  failure?.code === 'UNSUPPORTED' && entries[entry]!.library === 'warpconv';

class Spoiled extends Error {
  constructor(
    message: string,
    readonly by?: Contestant,
  ) {
    super(message);
  }
}

async function contestOn(
  plan: NativePlan,
  layer: GpuLayer,
  entries: readonly ContestEntry[],
  quick: boolean,
) {
  let report: ContestReport;
  try {
    report = await holdContest(plan, { entries, ...(quick ? QUICK : THOROUGH) });
  } catch (error) {
    const { message } = error as Error;
    throw isFatal(message) ? new Spoiled(message) : error;
  }
  const culprit = report.results.find(({ failure }) => failure !== undefined && isFatal(failure.message));
  if (culprit === undefined) return report;
  throw new Spoiled(culprit.failure!.message, contestantOf(culprit, entries[culprit.entry]!, layer));
}

async function measure(task: Task, { device, quick }: GpuMeasureRequest) {
  const { layer } = task;
  const plan = await openContestPlan(problemOf(layer), device);
  try {
    const entries = entriesOf(task, plan, quick);
    const { results, cudnnVersion, cublasVersion } = await contestOn(plan, layer, entries, quick);
    return {
      chosen: plan.algorithm,
      entries: withoutBeaten(
        results
          .filter((result) => !isRefusal(result, entries))
          .map((result) => toEntry(result, entries, layer)),
      ),
      cudnn: cudnnVersion,
      cublas: cublasVersion,
    };
  } finally {
    plan.dispose();
  }
}

const send = (message: GpuMeasureMessage) =>
  new Promise<void>((resolve, reject) => {
    process.send!(message, (error: Error | null) => (error === null ? resolve() : reject(error)));
  });

async function main(request: GpuMeasureRequest): Promise<void> {
  try {
    await send({ kind: 'ceilings', ceilings: await measureCeilings(request.device) });
  } catch (error) {
    console.error(`bench: without ceilings: ${(error as Error).message}`);
  }
  for (const [task, asked] of request.tasks.entries()) {
    await send({ kind: 'begin', task });
    try {
      await send({ kind: 'layer', task, ...(await measure(asked, request)) });
    } catch (error) {
      const { message } = error as Error;
      if (error instanceof Spoiled) {
        await send({ kind: 'spoiled', task, message, ...(error.by && { by: error.by }) });
        break;
      }
      await send({ kind: 'failure', task, message });
    }
  }
  // At once: what is left in a spoiled context cannot be taken down in order.
  process.exit(0);
}

if (process.send !== undefined) {
  // Whoever asked is gone.
  process.once('disconnect', () => process.exit(1));
  process.once('message', (request: GpuMeasureRequest) => {
    void main(request);
  });
}
