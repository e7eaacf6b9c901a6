#!/usr/bin/env node
import { parseArgs } from 'node:util';

// Not through ./index, which throws where the binary does not load: that is what the doctor is for.
import { formatComparison, readArguments, type CompareArguments } from './commands/compare_command';
import { examine, format, isHealthy } from './commands/doctor';
import { WarpconvError } from './errors';
import { packageVersion } from './load';
import { readServeArguments, runServer, type ServeArguments } from './commands/serve_command';

const USAGE = `usage: warpconv doctor [--json]
       warpconv serve [NAME=]MODEL.onnx ... [--port N] [--host ADDRESS] [--threads N] [--device cuda:N]
                        [--max-batch N] [--mean R,G,B] [--std R,G,B] [--resize N]
       warpconv compare --input NxCxHxW --weight KxCxRxS [--stride N] [--padding N] [--dilation N]
                        [--groups N] [--algorithm NAME] [--variant NAME] [--device cuda:N] [--json]

  doctor       print what was found on this machine, and the remedy for what was not;
               exits with 0 when convolutions run
  serve        serve ONNX files over HTTP by the Open Inference Protocol, on all GPUs or else the CPU,
               until Ctrl+C; --mean, --std and --resize let requests bring images of 8 bits, and JPEG,
               PNG or WebP files: (byte / 255 - mean) / std, the shorter side scaled to N
  compare      run one convolution of random numbers on a GPU beside cuDNN's fastest algorithm,
               judge both against double precision and time them; --padding 1x1x0x0 and the like
               take [height, width] or [top, left, bottom, right]
  --json       print the findings as JSON
  --help       print this
  --version    print the version of the package
`;

function doctor(json: boolean): number {
  const findings = examine();
  const healthy = isHealthy(findings);
  const host = {
    warpconv: packageVersion(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
  };
  const report = json
    ? JSON.stringify({ ...host, healthy, findings }, null, 2)
    : `warpconv ${host.warpconv}, Node.js ${host.node}, ${host.platform}\n${format(findings)}`;
  process.stdout.write(`${report}\n`);
  return healthy ? 0 : 1;
}

async function compare(args: CompareArguments, json: boolean): Promise<number> {
  const request = readArguments(args);
  if (typeof request === 'string') return misuse(request);
  const { compareWithCudnn } = await import('./conv2d/compare.js');
  const result = await compareWithCudnn(request.input, request.weight, request.options);
  print(`${json ? JSON.stringify(result, null, 2) : formatComparison(result)}\n`);
  return result.withinTolerance ? 0 : 1;
}

async function serve(files: readonly string[], args: ServeArguments): Promise<number> {
  const options = readServeArguments(files, args);
  if (typeof options === 'string') return misuse(options);
  try {
    await runServer(options, (line) => print(`${line}\n`));
    return 0;
  } catch (error) {
    const { code, message } = error as WarpconvError;
    if (code === 'ERR_WARPCONV_INVALID_ARGUMENT' && message.startsWith('options.')) return misuse(message);
    throw error;
  }
}

function misuse(complaint: string): number {
  process.stderr.write(`warpconv: ${complaint}\n${USAGE}`);
  return 2;
}

const text = { type: 'string' } as const;
const flag = { type: 'boolean' } as const;

/** The options that each command takes. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  doctor: ['json'],
  serve: ['port', 'host', 'threads', 'device', 'max-batch', 'mean', 'std', 'resize'],
  compare: [
    ...['input', 'weight', 'stride', 'padding', 'dilation', 'groups'],
    ...['algorithm', 'variant', 'device', 'json'],
  ],
};

async function main(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      ...{ json: flag, help: flag, version: flag },
      ...{ input: text, weight: text, stride: text, padding: text, dilation: text, groups: text },
      ...{ algorithm: text, variant: text, device: text },
      ...{ port: text, host: text, threads: text, 'max-batch': text, mean: text, std: text, resize: text },
    },
  });
  const { json = false, help, version: wantsVersion, ...given } = values;
  if (help) return print(USAGE);
  if (wantsVersion) return print(`${packageVersion()}\n`);
  const [command, ...rest] = positionals;
  if (command === undefined) return misuse('which command?');
  const allowed = Object.hasOwn(OPTIONS, command) ? OPTIONS[command] : undefined;
  if (allowed === undefined) return misuse(`there is no command '${command}'`);
  const stray = Object.keys(values).find((name) => !allowed.includes(name));
  if (stray !== undefined) return misuse(`${command} takes no --${stray}`);
  if (command === 'serve') return serve(rest, given);
  if (rest.length > 0) return misuse(`${command} takes no argument, got '${rest[0]}'`);
  return command === 'compare' ? compare(given, json) : doctor(json);
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function report(error: unknown): number {
  const { code, message, syscall } = error as { code?: unknown; message: string; syscall?: unknown };
  if (String(code).startsWith('ERR_PARSE_ARGS')) return misuse(message);
  // Anything else is a defect and keeps its stack.
  if (!(error instanceof WarpconvError) && syscall === undefined) throw error;
  process.stderr.write(`warpconv: ${String(code)}: ${message}\n`);
  return 1;
}

void main(process.argv.slice(2))
  .catch(report)
  .then((code) => (process.exitCode = code));
