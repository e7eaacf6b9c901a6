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

/** The word that was probably meant, if there is one. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const most = Math.min(2, Math.floor(word.length / 3));
  const [best] = known
    .map((candidate) => ({ candidate, distance: editsBetween(word, candidate) }))
    .filter(({ candidate, distance }) => distance <= most || candidate.startsWith(word))
    .sort((a, b) => a.distance - b.distance);
  return best?.candidate;
}

/** Letters to insert, remove, replace, or swap with their neighbour. */
function editsBetween(from: string, to: string): number {
  let before: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const next = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      next[column] = Math.min(last[column]! + 1, next[column - 1]! + 1, last[column - 1]! + (isSame ? 0 : 1));
      const isSwapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (isSwapped) next[column] = Math.min(next[column]!, before[column - 2]! + 1);
    }
    [before, last] = [last, next];
  }
  return last[to.length]!;
}
