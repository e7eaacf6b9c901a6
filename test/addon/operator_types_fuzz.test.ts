/**
 * Models of one node with one thing changed: a type, a rank, a length, an element of a list, an attribute, the number of
 * inputs or outputs. What ONNX does not allow is refused with a code; what it still allows is computed rightly. Repeat a
 * case by WARPCONV_FUZZ_CASE, as in operator_fuzz.test.ts.
 */
import { runDamaged, Tally } from '../support/operator_fuzz/fuzz';
import { fuzzPlan } from '../support/operator_fuzz/plan';

const { seed, first, count } = fuzzPlan(5);

test('changed models of one operator are refused with a code, or computed rightly', async () => {
  const tally = new Tally();
  for (let index = first; index < first + count; index++) tally.add(await runDamaged(seed, index));
  const totals = (['computed', 'refused', 'skipped', 'fault'] as const).map(
    (kind) => `${tally.total(kind)} ${kind}`,
  );
  process.stdout.write(`${count} changed models, seed ${seed}: ${totals.join(', ')}\n`);
  expect(tally.complaints()).toBe('');
  // Were all refused, or none, the changes would be of no use.
  if (count > 1) expect(Math.min(tally.total('refused'), tally.total('computed'))).toBeGreaterThan(0);
}, 3_600_000);
