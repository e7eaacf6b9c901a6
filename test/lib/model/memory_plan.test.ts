/** Scratch tensors share memory, and never while both are in use. */
import { planMemory as planInSlices } from '../../../lib/model/memory_plan';
import type { Step } from '../../../lib/model/steps';
import { atOnce } from '../../../lib/slices';
import type { Operand, Storage } from '../../../lib/model/values';
import { Random } from '../../support/random';

const planMemory = (...given: Parameters<typeof planInSlices>) => atOnce(planInSlices(...given));

function scratch(bytes: number): Operand {
  const storage: Storage = { space: 'arena', bytes };
  return { storage, offset: 0 };
}

/** A step that reads `input` and writes `output`, whatever it does. */
function step(input: Operand, output: Operand): Step<Operand> {
  return {
    ...{ kind: 'scan', mode: 'sum', type: 'int8', outer: 0, length: 0, inner: 0 },
    ...{ exclusive: false, reversed: false, input, output },
  };
}

/** A random chain with skips: each step reads one of the last `reach` tensors, of so many sizes. */
function randomSteps(
  random: Random,
  reach = 6,
  sizes = 10_000,
): { steps: Step<Operand>[]; tensors: Operand[] } {
  const bytes = () => Math.ceil((random.integer(1, sizes) * 10_000) / sizes);
  const tensors = [scratch(bytes())];
  const steps = Array.from({ length: random.integer(1, 60) }, () => {
    const output = scratch(bytes());
    const input = tensors.at(-random.integer(1, Math.min(reach, tensors.length)))!;
    tensors.push(output);
    return step(input, output);
  });
  return { steps, tensors };
}

/** The steps from a tensor's first to its last use. */
function lifetime(steps: readonly Step<Operand>[], tensor: Operand): number[] {
  return steps.flatMap((one, index) => {
    const { input, output } = one as Step<Operand> & { input: Operand };
    return input === tensor || output === tensor ? [index] : [];
  });
}

test('no two tensors overlap in memory and in time', () => {
  const seed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 31);
  for (let round = 0; round < 200; round++) {
    const { steps, tensors } = randomSteps(new Random(seed + round));
    const { offsets, bytes } = planMemory(steps);
    const placed = tensors.flatMap((tensor) => {
      const uses = lifetime(steps, tensor);
      const start = offsets.get(tensor.storage);
      if (uses.length === 0) return [];
      return [{ first: uses[0]!, last: uses.at(-1)!, start: start!, end: start! + tensor.storage.bytes }];
    });
    for (const a of placed) {
      if (a.end > bytes || a.start % 64 !== 0) throw new Error(`seed ${seed + round}: misplaced`);
      for (const b of placed) {
        const clash = a !== b && a.first <= b.last && b.first <= a.last && a.start < b.end && b.start < a.end;
        if (clash) throw new Error(`seed ${seed + round}: two tensors in one place`);
      }
    }
  }
});

/** The same plan without any index: every tensor is held against all that were placed before it. */
function plainPlan(steps: readonly Step<Operand>[], tensors: readonly Operand[]): Map<Storage, number> {
  const used = tensors
    .map((tensor) => ({ storage: tensor.storage, uses: lifetime(steps, tensor) }))
    .filter(({ uses }) => uses.length > 0)
    .sort((a, b) => a.uses[0]! - b.uses[0]!)
    .sort((a, b) => b.storage.bytes - a.storage.bytes);
  const placed: { first: number; last: number; start: number; end: number }[] = [];
  const offsets = new Map<Storage, number>();
  for (const { storage, uses } of used) {
    const [first, last] = [uses[0]!, uses.at(-1)!];
    const size = Math.ceil(storage.bytes / 64) * 64;
    const others = placed.filter((other) => other.first <= last && first <= other.last);
    const isFree = (at: number) => others.every(({ start, end }) => at + size <= start || end <= at);
    const start = [0, ...others.map(({ end }) => end)].sort((a, b) => a - b).find(isFree)!;
    placed.push({ first, last, start, end: start + size });
    offsets.set(storage, start);
  }
  return offsets;
}

test('the largest first, each is at the lowest place that is free', () => {
  const seed = Number(process.env.WARPCONV_FUZZ_SEED ?? Date.now() % 2 ** 31);
  for (let round = 0; round < 200; round++) {
    const random = new Random(seed + round);
    const { steps, tensors } = randomSteps(random, random.pick([2, 6, 60]), random.pick([1, 3, 10_000]));
    const [found, expected] = [planMemory(steps).offsets, plainPlan(steps, tensors)];
    const isSame = found.size === expected.size && [...found].every(([key, at]) => expected.get(key) === at);
    if (!isSame) throw new Error(`seed ${seed + round}: not the plan of the rule`);
  }
});

test('what has memory of its own takes none', () => {
  const [a, b, c] = [640, 6400, 64].map(scratch) as [Operand, Operand, Operand];
  const plan = planMemory([step(a, b), step(b, c)], new Set([b.storage]));
  expect([plan.bytes, plan.offsets.has(b.storage)]).toEqual([640, false]);
});

test('a chain takes the two largest neighbours and no more', () => {
  const [a, b, c, d] = [6400, 640, 12_800, 64].map(scratch) as [Operand, Operand, Operand, Operand];
  expect(planMemory([step(a, b), step(b, c), step(c, d)]).bytes).toBe(12_800 + 640);
});
