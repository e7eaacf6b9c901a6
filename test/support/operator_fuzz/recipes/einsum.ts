/** Equations, and tensors for them. */
import type { Random } from '../../random';
import { string, type Draw, type Recipe } from '../draw';
import { shuffled } from '../values';

const LABELS = [...'ijkbXA'];

/** The labels of an input; one of them may be there twice. */
function labelsOfTerm(draw: Draw): string[] {
  const { random } = draw;
  const labels = shuffled(LABELS, random).slice(0, random.integer(0, 3));
  if (labels.length === 0 || random.chance(0.85)) return labels;
  return shuffled([...labels, labels[0]!], random);
}

const somewhere = <T>(list: readonly T[], one: T, random: Random) =>
  list.toSpliced(random.integer(0, list.length), 0, one);

/** An ellipsis among the labels. */
const DOTS = '...';

/** With spaces here and there, but not within an ellipsis or an arrow. */
function spaced(text: string, random: Random): string {
  return random.chance(0.7)
    ? text
    : text.replace(/\.{3}|->|./g, (word) => (random.chance(0.3) ? ` ${word}` : word));
}

const einsum: Recipe = (draw) => {
  const { random } = draw;
  const hasDots = random.chance(0.3);
  const extents = new Map(LABELS.map((label) => [label, random.chance(0.02) ? 0 : random.integer(1, 6)]));
  const broadcast = hasDots
    ? draw.dims({ most: 2, isEmptyAllowed: false }).map((extent) => Math.min(extent, 5))
    : [];
  const terms = Array.from({ length: random.pick([1, 2, 2, 2, 3]) }, (_, i) => {
    const labels = labelsOfTerm(draw);
    // The first has one, so that all of them are not without.
    return hasDots && (i === 0 || random.chance(0.5)) ? somewhere(labels, DOTS, random) : labels;
  });
  const named = [...new Set(terms.flat())].filter((label) => label !== DOTS);
  const kept = shuffled(named, random).slice(0, random.integer(0, Math.min(named.length, 4)));
  const output = hasDots ? somewhere(kept, DOTS, random) : kept;
  const right = random.chance(0.3) ? '' : `->${output.join('')}`;
  const type = draw.type();
  const kind = random.pick(['unit', 'unit', 'whole', undefined] as const);
  // An axis of one is broadcast, in all terms but the first.
  const ofDots = (i: number) => broadcast.map((extent) => (i > 0 && random.chance(0.3) ? 1 : extent));
  return {
    attributes: { equation: string(spaced(terms.map((term) => term.join('')).join(',') + right, random)) },
    inputs: terms.map((term, i) =>
      draw.tensor(
        term.flatMap((label) => (label === DOTS ? ofDots(i) : [extents.get(label)!])),
        type,
        kind,
      ),
    ),
  };
};

export const einsums: Readonly<Record<string, Recipe>> = { Einsum: einsum };
