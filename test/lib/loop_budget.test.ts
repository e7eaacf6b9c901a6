import { setImmediate as nextTurn } from 'node:timers/promises';

import { Crowd, LoopBudget, packMilliseconds, runMilliseconds } from '../../lib/loop_budget';

let now = 0;
beforeEach(() => {
  now = 1000;
  jest.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => jest.restoreAllMocks());

it('admits a short call and refuses a long one', () => {
  expect(new LoopBudget().admits(0.1)).toBe(true);
  expect(new LoopBudget().admits(0.6)).toBe(false);
});

it('goes by the time that has passed, whoever took it', () => {
  const budget = new LoopBudget();
  expect(budget.admits(0.4)).toBe(true);
  now += 0.5;
  expect(budget.admits(0.4)).toBe(true);
  now += 0.2;
  expect(budget.admits(0.4)).toBe(false);
  expect(budget.admits(0.2)).toBe(true);
  now += 10;
  expect(budget.admits(0)).toBe(false);
});

it('begins with the first call that is admitted', () => {
  const budget = new LoopBudget();
  expect(budget.admits(0.6)).toBe(false);
  now += 10;
  expect(budget.admits(0.5)).toBe(true);
});

it('is renewed when the event loop turns, and not before', async () => {
  const budget = new LoopBudget();
  budget.admits(0);
  now += 10;
  for (let i = 0; i < 100; i++) await Promise.resolve();
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect(budget.admits(0)).toBe(false);
  await nextTurn();
  expect(budget.admits(0)).toBe(true);
});

it('is renewed later where the event loop is not told to turn', () => {
  jest.spyOn(globalThis, 'setImmediate').mockImplementation(() => ({}) as NodeJS.Immediate);
  const budget = new LoopBudget();
  budget.admits(0);
  now += 99;
  expect(budget.admits(0)).toBe(false);
  now += 1;
  expect(budget.admits(0)).toBe(true);
  now += 2;
  expect(budget.admits(0)).toBe(false);
});

it('is one for each owner', () => {
  const [one, other] = [new LoopBudget(), new LoopBudget()];
  one.admits(0);
  now += 10;
  expect(other.admits(0)).toBe(true);
});

it('expects a run to take its arithmetic and the bytes of its tensors', () => {
  expect(runMilliseconds(0.25, [1, 2, 3, 4], [5])).toBeCloseTo(0.25 + (29 * 4) / 1e7, 9);
});

it('never takes megabytes of tensors for a short call, however little arithmetic they need', () => {
  const budget = new LoopBudget();
  expect(budget.admits(runMilliseconds(0, [1, 1, 2048, 2048]))).toBe(false);
  expect(budget.admits(packMilliseconds([512, 512, 3, 3]))).toBe(false);
});

it('admits a longer call to a turn that is whole', async () => {
  const budget = new LoopBudget();
  expect(budget.isWhole()).toBe(true);
  expect(budget.admits(3, 3)).toBe(true);
  expect(budget.isWhole()).toBe(false);
  now += 0.5;
  expect(budget.admits(0.6, 3)).toBe(false);
  expect(budget.admits(3.1, 3)).toBe(false);
  budget.renew();
  expect(budget.isWhole()).toBe(true);
  await nextTurn();
});

describe('Crowd', () => {
  let slept = 0;
  beforeEach(() => {
    slept = 50;
    jest
      .spyOn(performance, 'eventLoopUtilization')
      .mockImplementation(() => ({ idle: slept, active: 0, utilization: 0 }));
  });

  it('is there for a while after calls have overlapped', () => {
    const crowd = new Crowd();
    expect(crowd.isThere()).toBe(false);
    crowd.note();
    now += 99;
    expect(crowd.isThere()).toBe(true);
    now += 1;
    expect(crowd.isThere()).toBe(false);
  });

  it('is found where the loop has not slept between two runs', () => {
    const crowd = new Crowd();
    crowd.ran();
    now += 5;
    expect(crowd.isThere()).toBe(false);
    expect(crowd.isFound()).toBe(true);
    expect(crowd.isThere()).toBe(true);
  });

  it('is not found where it has, or where the last run was long ago', () => {
    const crowd = new Crowd();
    expect(crowd.isFound()).toBe(false);
    crowd.ran();
    slept += 0.02;
    now += 5;
    expect(crowd.isFound()).toBe(false);
    crowd.ran();
    now += 101;
    expect(crowd.isFound()).toBe(false);
  });
});
