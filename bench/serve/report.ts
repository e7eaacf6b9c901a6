/** What main.ts measured, as a page of Markdown. */
import type { Measured } from './load/clients';
import { softwareOf, type Circumstances } from '../results';

/** What the server and the GPUs did while clients measured. */
interface Served {
  /** Processor time of the server, in milliseconds for each answer of any status */
  readonly cpuPerAnswer: number;
  /** From 0 to 1, of all GPUs; undefined where the device is none or nvidia-smi is missing */
  readonly gpuBusy?: number | undefined;
}

/** Times are milliseconds, memory bytes. */
export interface Load extends Measured, Served {
  /** Of the server's event loop */
  readonly delayP99: number;
  readonly rssBefore: number;
  readonly rss: number;
}

type Sample = Pick<Load, 'delayP99' | 'rss'> & { readonly minutes: number };

/** What was loaded, and how. */
interface Loading extends Circumstances {
  readonly model: string;
  /** That the bench made */
  readonly network?: string | undefined;
  readonly device: string;
  /** Their names; none where the device is the CPU */
  readonly gpus?: readonly string[];
  /** The kind of the requests */
  readonly requests: string;
  readonly command: string;
}

export interface ServeResult extends Loading {
  /** Of each load */
  readonly seconds: number;
  readonly servers: readonly {
    readonly who: string;
    readonly loads: readonly (Load & { readonly connections: number })[];
  }[];
  /** Of ours, where that is among the servers, as `termination` is */
  readonly overload?: {
    readonly connections: number;
    readonly before: Load;
    readonly full: Load;
    readonly after: Load;
  };
  readonly termination?: {
    readonly connections: number;
    /** From the signal to the end of the process */
    readonly milliseconds: number;
    readonly exitCode: number;
    /** By 200, as the server counted */
    readonly answered: number;
    /** As the clients counted */
    readonly received: number;
    readonly statuses: Load['statuses'];
  };
}

export type Overload = NonNullable<ServeResult['overload']>;
export type Termination = NonNullable<ServeResult['termination']>;

/** One load that goes on for minutes, with the server's memory on the way. */
export interface LongServeResult extends Loading {
  readonly who: string;
  readonly load: Measured & Served;
  readonly connections: number;
  readonly samples: readonly Sample[];
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
const percent = (share: number | undefined) => (share === undefined ? '' : (100 * share).toFixed(0));
const rate = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });
const row = (...cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
const table = (heads: readonly string[], rows: readonly string[]) => [
  ...['', row(...heads), row(...heads.map(() => '---')), ...rows],
];

function describeStatuses(statuses: Load['statuses']): string {
  return Object.entries(statuses)
    .map(([status, count]) => `${count} of ${status}`)
    .join(', ');
}

type Column = readonly [head: string, cell: (load: Load) => string];

const COLUMNS: readonly Column[] = [
  ['answers / s', ({ perSecond }) => rate.format(perSecond)],
  ['p50 ms', ({ p50 }) => p50.toFixed(2)],
  ['p99 ms', ({ p99 }) => p99.toFixed(2)],
  ['CPU ms / answer', ({ cpuPerAnswer }) => cpuPerAnswer.toFixed(3)],
  ['event loop p99 ms', ({ delayP99 }) => delayP99.toFixed(2)],
  ['memory MB', ({ rssBefore, rss }) => `${megabytes(rssBefore)} → ${megabytes(rss)}`],
  ["clients' CPU %", ({ clientsCpu }) => percent(clientsCpu)],
];
const GPU_COLUMN: Column = ['GPU busy %', ({ gpuBusy }) => percent(gpuBusy)];
const STATUS_COLUMN: Column = ['answers', ({ statuses }) => describeStatuses(statuses)];

function loadTable(loads: readonly (readonly [string, Load])[], columns: readonly Column[]): string[] {
  const rows = loads.map(([connections, load]) => row(connections, ...columns.map(([, cell]) => cell(load))));
  return table(['connections', ...columns.map(([head]) => head)], rows);
}

function describeLoading(result: Loading, sharers: string): string {
  const { cpu, model, device, requests } = result;
  const software = softwareOf(result);
  return `${model} on ${device}, one image a request as ${requests}, ${software}, ${cpu.cores} processors, which ${sharers}`;
}

function overloadLines({ connections, before, full, after }: Overload, columns: readonly Column[]): string[] {
  const loads = [
    ['1, before', before] as const,
    [`${connections}`, full] as const,
    ['1, after', after] as const,
  ];
  return ['', '## More than the queue takes', ...loadTable(loads, [...columns, STATUS_COLUMN])];
}

function terminationLines(termination: Termination): string[] {
  const { connections, milliseconds, exitCode, answered, received, statuses } = termination;
  return [
    '',
    '## SIGTERM',
    '',
    `With ${connections} connections the server ended ${milliseconds.toFixed(0)} ms after the signal, with exit code`,
    `${exitCode}. It had answered ${answered} requests by 200, and ${received} of those answers arrived; all answers: ` +
      `${describeStatuses(statuses)}.`,
  ];
}

/** Where the models were. */
function placeOf({ gpus = [], cpu }: Loading): string {
  const [first, ...others] = gpus;
  if (first === undefined) return cpu.name;
  return others.length === 0 ? first : `${gpus.length} GPUs ${first}`;
}

export function renderServeReport(result: ServeResult): string {
  const { date, device, command, seconds, servers, overload, termination } = result;
  const columns = device.startsWith('cuda') ? [...COLUMNS, GPU_COLUMN] : COLUMNS;
  const lines = [
    `# Serving on ${placeOf(result)}, ${date}`,
    '',
    describeLoading(result, 'servers and clients'),
    `share; ${seconds} seconds each, in turns. All servers get the same elements; Fastify's answers are the bare output, ours those of`,
    `the Open Inference Protocol. By \`${command}\`.`,
  ];
  for (const { who, loads } of servers) {
    const named = loads.map((load) => [`${load.connections}`, load] as const);
    lines.push('', `## ${who}`, ...loadTable(named, columns));
  }
  if (overload !== undefined) lines.push(...overloadLines(overload, columns));
  if (termination !== undefined) lines.push(...terminationLines(termination));
  return `${lines.join('\n')}\n`;
}

export function renderLongServeReport(result: LongServeResult): string {
  const { date, command, who, load, connections, samples } = result;
  const { minutes } = samples.at(-1)!;
  const busy = load.gpuBusy === undefined ? '' : `, the GPU busy for ${percent(load.gpuBusy)} % of the time`;
  const lines = [
    `# Serving for ${minutes} minutes on ${placeOf(result)}, ${date}`,
    '',
    describeLoading(result, 'server and clients'),
    `share with whatever else runs. ${who}, ${connections} connections: ${rate.format(load.perSecond)} answers per second, p50 ` +
      `${load.p50.toFixed(2)} ms, p99 ${load.p99.toFixed(2)} ms, ${load.cpuPerAnswer.toFixed(3)} ms of the server's CPU an answer,`,
    `${percent(load.clientsCpu)} % of the clients' CPU${busy}; ${describeStatuses(load.statuses)}, and ${load.connectionErrors} errors of`,
    `connections. By \`${command}\`.`,
    ...table(
      ['minutes', 'event loop p99 ms', 'memory MB'],
      samples.map((sample) =>
        row(sample.minutes.toFixed(2), sample.delayP99.toFixed(2), megabytes(sample.rss)),
      ),
    ),
  ];
  return `${lines.join('\n')}\n`;
}
