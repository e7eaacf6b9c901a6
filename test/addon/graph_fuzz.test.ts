/**
 * Models of three nodes and more against the composed reference of single operators, which shares no code with the
 * library: where nodes are fused, folded, given each other's memory, or split between programs. Each is run in several
 * ways that have to agree to the bit, and with other feeds. The models have numbers. To repeat one, set WARPCONV_FUZZ_CASE
 * to what its message begins with; for others, WARPCONV_FUZZ_SEED and WARPCONV_FUZZ_CASES.
 */
import { runGraph, type Outcome } from '../support/graph_fuzz/run';
import { planOf } from '../support/operator_fuzz/plan';

const { seed, first, count } = planOf(200);

test('models of several nodes compute what their nodes do one by one', async () => {
  const outcomes: Outcome[] = [];
  for (let index = first; index < first + count; index++) outcomes.push(await runGraph(seed, index));
  const of = (kind: Outcome['kind']) => outcomes.filter((outcome) => outcome.kind === kind);
  const total = (countOf: (outcome: Outcome) => number) =>
    outcomes.reduce((sum, one) => sum + countOf(one), 0);
  const others = outcomes.filter((outcome) => outcome.others > 0).length;
  process.stdout.write(
    `${count} models of several nodes, seed ${seed}: ${of('computed').length} computed, ${others} of them for other ` +
      `feeds too, ${of('refused').length} refused; of ${total((one) => one.elements)} elements of outputs nothing is known of ` +
      `${total((one) => one.unknown)}\n${[...new Set(of('refused').map(({ reason }) => `  ${reason}\n`))].slice(0, 20).join('')}`,
  );
  expect(
    of('fault')
      .map(({ reason }) => reason)
      .slice(0, 20)
      .join('\n'),
  ).toBe('');
  if (count === 1) return;
  // Were most refused, or little known of them, they would be of no use.
  expect(of('refused').length).toBeLessThan(0.1 * count);
  expect(others).toBeGreaterThan(0.3 * count);
}, 3_600_000);
