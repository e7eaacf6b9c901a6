/** Longer words are no misspelt names, and their distance takes seconds to compute. */
const LONGEST = 40;

/** The word that was probably meant, in whatever case; `undefined` where none is near. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  if (word.length > LONGEST) return undefined;
  const lower = word.toLowerCase();
  // A word of two letters is near where one of them is right.
  const most = Math.max(Math.floor(word.length / 3), Math.min(word.length - 1, 1));
  const isBeginning = (candidate: string) => word.length > 1 && candidate.toLowerCase().startsWith(lower);
  const [best] = words
    // The distance is at least the difference of the lengths.
    .filter((candidate) => Math.abs(word.length - candidate.length) <= most || isBeginning(candidate))
    .map((candidate) => ({ candidate, distance: distanceOf(lower, candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= most || isBeginning(candidate))
    .sort((a, b) => a.distance - b.distance);
  return best?.candidate;
}

/** Letters to insert, remove, replace, or swap with their neighbour. */
function distanceOf(from: string, to: string): number {
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
