/** Scratch tensors share memory, and never while both are in use. */
import { planMemory } from '../../../lib/model/memory_plan';
import type { Step } from '../../../lib/model/steps';
import type { Operand, Storage } from '../../../lib/model/values';
import { Random } from '../../support/random';

function scratch(bytes: number): Operand {
  const storage: Storage = { space: 'arena', bytes };
  return { storage, offset: 0 };
}

/** A step that reads `input` and writes `output`, whatever it does. */
function step(input: Operand, output: Operand): Step<Operand> {
  return { kind: 'cast', count: 0, from: 'int8', to: 'int8', input, output };
}

/** A random chain with skips: each step reads one of the last few tensors. */
function randomSteps(random: Random): { steps: Step<Operand>[]; tensors: Operand[] } {
  const tensors = [scratch(random.integer(1, 10_000))];
  const steps = Array.from({ length: random.integer(1, 60) }, () => {
    const output = scratch(random.integer(1, 10_000));
    const input = tensors.at(-random.integer(1, Math.min(6, tensors.length)))!;
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

test('a chain takes the two largest neighbours and no more', () => {
  const [a, b, c, d] = [6400, 640, 12_800, 64].map(scratch) as [Operand, Operand, Operand, Operand];
  expect(planMemory([step(a, b), step(b, c), step(c, d)]).bytes).toBe(12_800 + 640);
});
