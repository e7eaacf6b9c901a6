#!/usr/bin/env node
import './commands/serve_signals';

import { parseArgs } from 'node:util';

// No command imports ./index, which throws where the binary does not load: that is what the doctor is for.
import { Misuse, type Command } from './commands/command';
import { benchCommand } from './commands/bench_command';
import { buildCommand } from './commands/build_command';
import { compareCommand } from './commands/compare_command';
import { doctorCommand } from './commands/doctor_command';
import { inspectCommand } from './commands/inspect_command';
import { profileCommand } from './commands/profile_command';
import { serveCommand } from './commands/serve_command';
import { WarpconvError } from './errors';
import { packageVersion } from './load';
import { nearest } from './nearest';
import { printable } from './printable';

const COMMANDS: readonly Command[] = [
  doctorCommand,
  inspectCommand,
  benchCommand,
  profileCommand,
  serveCommand,
  compareCommand,
  buildCommand,
];

/** Of a process that a closed pipe ends, as shells count it. */
const PIPE_CLOSED = 141;

const EVERYWHERE = {
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

function usage(): string {
  const width = Math.max(...COMMANDS.map(({ name }) => name.length));
  const lines = COMMANDS.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  return `usage: warpconv COMMAND [options]

${lines.join('\n')}

  warpconv COMMAND --help  tells of one command
  warpconv --version       prints the version of the package
`;
}

const usageOf = ({ synopsis }: Command) => `usage: warpconv ${synopsis}\n`;

function helpOf(command: Command): string {
  return `${usageOf(command)}\n${command.help.trim()}\n`;
}

function find(name: string): Command {
  const found = COMMANDS.find((command) => command.name === name);
  if (found !== undefined) return found;
  const meant = nearest(name, [...COMMANDS.map((command) => command.name), 'help']);
  throw new Misuse(`there is no command '${name}'${meant === undefined ? '' : `; did you mean '${meant}'?`}`);
}

async function main(args: readonly string[]): Promise<number> {
  const at = args.findIndex((arg) => !arg.startsWith('-'));
  if (at < 0) return withoutCommand(args);
  const rest = args.toSpliced(at, 1);
  if (args[at] === 'help') return help(rest);
  const command = find(args[at]!);
  try {
    return await runCommand(command, rest);
  } catch (error) {
    return report(error, usageOf(command));
  }
}

function help([name = 'help']: readonly string[]): number {
  return print(name === 'help' ? usage() : helpOf(find(name)));
}

function withoutCommand(args: readonly string[]): number {
  const { values } = parseArgs({ args, options: EVERYWHERE });
  if (values.version) return print(`${packageVersion()}\n`);
  if (values.help) return print(usage());
  throw new Misuse('which command?');
}

async function runCommand(command: Command, args: readonly string[]): Promise<number> {
  const options = { ...command.options, ...EVERYWHERE };
  refuseUnknown(command.name, args, options);
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const { help, version, ...given } = values as { help?: boolean; version?: boolean };
  if (help) return print(helpOf(command));
  if (version) return print(`${packageVersion()}\n`);
  const { name, mostArguments } = command;
  if (positionals.length > mostArguments) {
    const most =
      mostArguments === 0 ? 'no argument' : `${mostArguments} argument${mostArguments === 1 ? '' : 's'}`;
    throw new Misuse(`${name} takes ${most}, got '${positionals[mostArguments]}'`);
  }
  return command.run(given, positionals);
}

/** Before parseArgs does, which knows no nearest option. */
function refuseUnknown(name: string, args: readonly string[], options: Command['options']): void {
  const { tokens } = parseArgs({ args, options, strict: false, tokens: true });
  for (const token of tokens) {
    if (token.kind !== 'option' || Object.hasOwn(options, token.name)) continue;
    const meant = nearest(token.name, Object.keys(options));
    throw new Misuse(
      `${name} takes no ${token.rawName}${meant === undefined ? '' : `; did you mean --${meant}?`}`,
    );
  }
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

interface Thrown {
  readonly code?: unknown;
  readonly message: string;
  readonly syscall?: unknown;
}

/** Also what the package says of an option that a command hands on, such as a number that is too large. */
function isMisuse(error: unknown): boolean {
  const { code, message } = error as Thrown;
  if (error instanceof Misuse || String(code).startsWith('ERR_PARSE_ARGS')) return true;
  return code === 'ERR_WARPCONV_INVALID_ARGUMENT' && message.startsWith('options.');
}

/** @param hint - printed below a complaint about the command line */
function report(error: unknown, hint: string): number {
  const { code, message, syscall } = error as Thrown;
  if (isMisuse(error)) {
    process.stderr.write(printable(`warpconv: ${message.replaceAll('\n', ' ')}\n${hint}`));
    return 2;
  }
  // Anything else is a defect and keeps its stack.
  if (!(error instanceof WarpconvError) && syscall === undefined) throw error;
  // Node.js begins some messages with the code, and others not.
  const prefix = message.startsWith(`${String(code)}:`) ? '' : `${String(code)}: `;
  process.stderr.write(printable(`warpconv: ${prefix}${message}\n`));
  return 1;
}

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', ({ code, message }: NodeJS.ErrnoException) => {
    if (code === 'EPIPE') process.exit(PIPE_CLOSED);
    if (stream === process.stdout)
      process.stderr.write(`warpconv: the output cannot be written: ${message}\n`);
    process.exit(1);
  });
}

void main(process.argv.slice(2))
  .catch((error: unknown) => report(error, usage()))
  .then((code) => (process.exitCode = code));
