/** Contenders on one layer: checked against each other, then timed in turns. */
import type { Layer } from '../layers';
import { median } from '../statistics';

export interface Contender {
  readonly name: string;
  readonly run: () => unknown;
  /** The output of the last run */
  readonly output: () => Float32Array;
  readonly release: () => unknown;
}

export interface Pace {
  readonly rounds: number;
  /** Least milliseconds of one contender's turn */
  readonly turn: number;
}

export function random(dims: readonly number[]): Float32Array {
  const size = dims.reduce((product, extent) => product * extent, 1);
  return Float32Array.from({ length: size }, () => Math.random() - 0.5);
}

/** Relative difference in the Euclidean norm; NaN when anything is. */
function difference(a: Float32Array, b: Float32Array): number {
  let [squares, norm] = [0, 0];
  for (let i = 0; i < b.length; i++) {
    squares += (a[i]! - b[i]!) ** 2;
    norm += b[i]! ** 2;
  }
  return Math.sqrt(squares / norm);
}

export async function verify(contenders: readonly Contender[], layer: Layer): Promise<void> {
  const reference = contenders[0]!;
  for (const contender of contenders) {
    await contender.run();
    const error = difference(contender.output(), reference.output());
    if (error <= 1e-5) continue;
    throw new Error(
      `${contender.name} differs from ${reference.name} by ${error} on ${layer.model} ${layer.row.join()}`,
    );
  }
}

/** Someone who can be told to take a turn, and says what a run took. */
export interface Player {
  readonly name: string;
  readonly turn: () => Promise<number>;
}

/**
 * Milliseconds per run: the median over rounds in which every player has its turn, in a rotating order, so that what
 * else the machine does meets all of them.
 */
export async function playInTurns(
  players: readonly Player[],
  rounds: number,
): Promise<Record<string, number>> {
  const samples = new Map(players.map(({ name }) => [name, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < players.length; i++) {
      const { name, turn } = players[(i + round) % players.length]!;
      samples.get(name)!.push(await turn());
    }
  }
  return Object.fromEntries([...samples].map(([name, values]) => [name, median(values)]));
}

/**
 * Milliseconds per run, over as many as take `turn` milliseconds. Begins with a run that is not timed, so that nobody pays
 * for the caches that the one before left behind.
 */
export async function takeTurn(run: Contender['run'], turn: number): Promise<number> {
  await run();
  const begin = performance.now();
  let runs = 0;
  do {
    await run();
    runs++;
  } while (performance.now() - begin < turn);
  return (performance.now() - begin) / runs;
}

/** All in this process. */
export function timeInTurns(
  contenders: readonly Contender[],
  { rounds, turn }: Pace,
): Promise<Record<string, number>> {
  const players = contenders.map(({ name, run }) => ({ name, turn: () => takeTurn(run, turn) }));
  return playInTurns(players, rounds);
}
