/** What serve_load.ts measured, as a page of Markdown. */
import { softwareOf, type Circumstances } from './results';

/** Clients that each send a request as soon as the one before is answered. Times are milliseconds, memory bytes. */
export interface Load {
  /** Answers of status 200 */
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** How many answers of each status */
  readonly statuses: Readonly<Record<string, number>>;
  readonly connectionErrors: number;
  /** Of the server's event loop */
  readonly delayP99: number;
  readonly rssBefore: number;
  readonly rss: number;
}

type Sample = Pick<Load, 'delayP99' | 'rss'> & { readonly minutes: number };

export interface ServeResult extends Circumstances {
  readonly model: string;
  /** That the bench made */
  readonly network?: string | undefined;
  readonly device: string;
  /** Of each load */
  readonly seconds: number;
  readonly servers: readonly {
    readonly who: string;
    readonly loads: readonly (Load & { readonly connections: number })[];
  }[];
  readonly overload: {
    readonly connections: number;
    readonly before: Load;
    readonly full: Load;
    readonly after: Load;
  };
  readonly termination: {
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

/** One load that goes on for minutes, with the server's memory on the way. */
export interface LongServeResult extends Circumstances {
  readonly model: string;
  readonly device: string;
  readonly load: Omit<Load, 'delayP99' | 'rss' | 'rssBefore'>;
  readonly connections: number;
  readonly samples: readonly Sample[];
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
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

function loadCells({ perSecond, p50, p99, delayP99, rssBefore, rss }: Load): string[] {
  const times = [p50, p99, delayP99].map((milliseconds) => milliseconds.toFixed(2));
  return [rate.format(perSecond), ...times, `${megabytes(rssBefore)} → ${megabytes(rss)}`];
}

const LOAD_HEADS = ['answers / s', 'p50 ms', 'p99 ms', 'event loop p99 ms', 'memory MB'];

export function renderServeReport(result: ServeResult): string {
  const { cpu, date, model, network, device, seconds, servers, overload, termination } = result;
  const command = `npx ts-node bench/serve_load.ts${network === undefined ? '' : ` --network ${network}`}`;
  const lines = [
    `# Serving on ${cpu.name}, ${date}`,
    '',
    `${model} on ${device}, one image a request in binary, ${softwareOf(result)}, ${cpu.cores} processors, which servers and clients`,
    `share; ${seconds} seconds each, in turns. All servers get the same elements; Fastify's answers are the bare output, ours those of`,
    `the Open Inference Protocol. By \`${command}\`.`,
  ];
  for (const { who, loads } of servers) {
    const rows = loads.map((load) => row(load.connections, ...loadCells(load)));
    lines.push('', `## ${who}`, ...table(['connections', ...LOAD_HEADS], rows));
  }
  const { connections, before, full, after } = overload;
  const named = [
    ['1, before', before],
    [connections, full],
    ['1, after', after],
  ] as const;
  const rows = named.map(([name, load]) => row(name, ...loadCells(load), describeStatuses(load.statuses)));
  lines.push('', '## More than the queue takes', ...table(['connections', ...LOAD_HEADS, 'answers'], rows));
  const { milliseconds, answered, received } = termination;
  lines.push(
    '',
    '## SIGTERM',
    '',
    `With ${termination.connections} connections the server ended ${milliseconds.toFixed(0)} ms after the signal, with exit code`,
    `${termination.exitCode}. It had answered ${answered} requests by 200, and ${received} of those answers arrived; all answers: ` +
      `${describeStatuses(termination.statuses)}.`,
  );
  return `${lines.join('\n')}\n`;
}

export function renderLongServeReport(result: LongServeResult): string {
  const { cpu, date, model, device, load, connections, samples } = result;
  const { minutes } = samples.at(-1)!;
  const lines = [
    `# Serving for ${minutes} minutes on ${cpu.name}, ${date}`,
    '',
    `${model} on ${device}, one image a request in binary, ${softwareOf(result)}, ${cpu.cores} processors, which server and clients`,
    `share with whatever else runs: ${connections} connections, ${rate.format(load.perSecond)} answers per second, p50 ` +
      `${load.p50.toFixed(2)} ms, p99 ${load.p99.toFixed(2)} ms; ${describeStatuses(load.statuses)}, and ${load.connectionErrors} errors of`,
    `connections. By \`npx ts-node bench/serve_load.ts --minutes ${minutes}\`.`,
    ...table(
      ['minutes', 'event loop p99 ms', 'memory MB'],
      samples.map((sample) =>
        row(sample.minutes.toFixed(2), sample.delayP99.toFixed(2), megabytes(sample.rss)),
      ),
    ),
  ];
  return `${lines.join('\n')}\n`;
}
