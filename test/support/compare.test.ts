/** The comparisons that every other test relies on must be able to fail. */
import { expectExact, expectWithinBudget } from './compare';

function referenceOf(y: number, bound = Math.abs(y)) {
  return { y: Float64Array.of(y), bound: Float64Array.of(bound) };
}

test.each([
  ['a difference of one', 3, 4],
  ['NaN for a number', NaN, 4],
  ['a number for NaN', 4, NaN],
  ['an infinity for a number', Infinity, 4],
  ['a number for an infinity', 4, Infinity],
  ['the other infinity', -Infinity, Infinity],
])('%s fails', (_, actual, expected) => {
  expect(() => expectExact([actual], referenceOf(expected), 'repro')).toThrow(/element 0 .*: repro$/);
  expect(() => expectWithinBudget([actual], referenceOf(expected), 'repro')).toThrow(/element 0 .*: repro$/);
});

test.each([4, 0, NaN, Infinity, -Infinity])('%d agrees with itself', (value) => {
  expectExact([value], referenceOf(value), '');
  expectWithinBudget([value], referenceOf(value), '');
});

test('the budget is a share of the bound, not of the value', () => {
  expectWithinBudget([1e-6], referenceOf(0, 1), '');
  expect(() => expectWithinBudget([5e-6], referenceOf(0, 1), '')).toThrow();
  expect(() => expectWithinBudget([5e-6], referenceOf(0, Infinity), '')).toThrow();
});

test('missing and surplus elements fail', () => {
  expect(() => expectExact([], referenceOf(1), '')).toThrow(/0 elements instead of 1/);
  expect(() => expectWithinBudget([1, 1], referenceOf(1), '')).toThrow(/2 elements instead of 1/);
});
