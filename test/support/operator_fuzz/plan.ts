/** What the environment asks of the fuzzes: another seed, another number of cases, or one case again. */
import { roundsOf } from './fuzz';

export interface FuzzPlan {
  readonly seed: number;
  readonly first: number;
  readonly count: number;
}

/** @param rounds - how many cases of each operator there are where nobody asks for a number */
export function fuzzPlan(rounds: number): FuzzPlan {
  return planOf(roundsOf(rounds));
}

/** @param usual - how many cases there are where nobody asks for a number */
export function planOf(usual: number): FuzzPlan {
  const { WARPCONV_FUZZ_SEED: seed = '1', WARPCONV_FUZZ_CASES: count, WARPCONV_FUZZ_CASE: one } = process.env;
  if (one !== undefined) {
    const [itsSeed, index] = one.split(':').map(Number) as [number, number];
    return { seed: itsSeed, first: index, count: 1 };
  }
  return { seed: Number(seed), first: 0, count: count === undefined ? usual : Number(count) };
}
