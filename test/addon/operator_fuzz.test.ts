/**
 * Models of one node against a reference in double precision that shares no code with the library: operators, opsets,
 * attributes, types, ranks and values at random, computed ahead of a run and in it. Each case has a number. To repeat
 * one, set WARPCONV_FUZZ_CASE to what its message begins with; for others, WARPCONV_FUZZ_SEED and WARPCONV_FUZZ_CASES.
 */
import { runLegal, Tally } from '../support/operator_fuzz/fuzz';
import { NOT_DRAWN, undrawn } from '../support/operator_fuzz/generate';
import { fuzzPlan } from '../support/operator_fuzz/plan';
import { RECIPES } from '../support/operator_fuzz/recipes';

const { seed, first, count } = fuzzPlan(5);

test('every operator is drawn, or is known not to be', () => {
  expect(undrawn()).toEqual([]);
  expect(NOT_DRAWN.filter((name) => RECIPES.has(name))).toEqual([]);
});

test('legal models of one operator compute what ONNX says, or are refused for want of support', async () => {
  const tally = new Tally();
  for (let index = first; index < first + count; index++) tally.add(await runLegal(seed, index));
  process.stdout.write(`${count} legal models, seed ${seed}:\n${tally.table()}\n`);
  expect(tally.complaints()).toBe('');
  // Of an operator that is always refused nothing is tested.
  expect(count > 1 ? tally.neverComputed() : []).toEqual([]);
}, 3_600_000);
