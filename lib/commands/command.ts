/** The form of a command of the command line: its file exports one, and cli.ts has a list of them. */
import type { parseArgs, ParseArgsConfig } from 'node:util';

type Options = NonNullable<ParseArgsConfig['options']>;

/** The options that were given, as parseArgs types them. */
type Given<O extends Options> = ReturnType<typeof parseArgs<{ options: O }>>['values'];

interface CommandOf<O extends Options> {
  readonly name: string;
  /** A line of the list of commands */
  readonly summary: string;
  /** What follows `warpconv` in the usage, on one line */
  readonly synopsis: string;
  /** The rest of its help, without --help */
  readonly help: string;
  /** In the form of parseArgs. All commands also take --help and --version. */
  readonly options: O;
  /** Most arguments that are no options */
  readonly mostArguments: number;
  /**
   * Prints its result on stdout, and all else on stderr.
   *
   * @returns the exit code: 0, or 1 where what was asked for failed
   * @throws {@link Misuse}, or what the package throws
   */
  run(given: Given<O>, args: readonly string[]): number | Promise<number>;
}

export type Command = CommandOf<Options>;

/** A command whose `run` knows the types of its options. */
export function command<const O extends Options>(described: CommandOf<O>): Command {
  return described as unknown as Command;
}

/** The command line does not say what is wanted: the process ends with 2. */
export class Misuse extends Error {}
