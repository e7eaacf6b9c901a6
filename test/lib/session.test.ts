/** Sessions over native code that does what the test says. */
import { getEventListeners } from 'node:events';

import type { Done, NativeFailure } from '../../lib/addon';
import { InferenceSession } from '../../lib/session/session';
import { Tensor } from '../../lib/tensor/tensor';
import { node, onnxModel, value } from '../support/onnx_builder';

class MockStore {
  readonly bytes = 0;
  readonly scratchBytes = 0;
  trim(): void {}
  dispose(): void {}
}

class MockProgram {
  readonly bytes = 0;
  disposed = false;
  readonly preparing: Done[] = [];

  constructor() {
    mockPrograms.push(this);
  }
  prepare(done: Done): number {
    if (mockHoldsBack) this.preparing.push(done);
    else setImmediate(done);
    return 1;
  }
  run(_inputs: unknown, _outputs: unknown, milliseconds: number[], done: Done): number {
    // Too long for the event loop's thread.
    milliseconds.push(1000);
    if (this.disposed) throw { code: 'DISPOSED', message: 'used after dispose' } as unknown as Error;
    setImmediate(done, mockFailure);
    return 1;
  }
  dispose(): void {
    this.disposed = true;
  }
}

let mockPrograms: MockProgram[];
/** Whether programs stay in preparation until the test ends it */
let mockHoldsBack: boolean;
let mockFailure: NativeFailure | undefined;
const mockNextTurn = (done: Done) => Number(setImmediate(done));
jest.mock('../../lib/load', () => ({
  addon: () => ({ Store: MockStore, Program: MockProgram, cancel: () => {}, nextTurn: mockNextTurn }),
}));

beforeEach(() => {
  mockPrograms = [];
  mockHoldsBack = false;
  mockFailure = undefined;
});

const model = onnxModel({
  inputs: [value('x', ['N'])],
  nodes: [node('Relu', ['x'], ['y'])],
  outputs: [value('y')],
});
const feedsOf = (n: number) => ({ x: new Tensor('float32', new Float32Array(n), [n]) });
const create = (cachedShapes: number) => InferenceSession.create(model, { device: 'cpu', cachedShapes });
const nextTurn = () => new Promise(setImmediate);
/** Compiling may take several turns. */
async function untilThereAre(programs: number): Promise<void> {
  while (mockPrograms.length < programs) await nextTurn();
}

describe('a program', () => {
  it('that is evicted is disposed when the last run has ended that had it', async () => {
    const session = await create(1);
    await session.run(feedsOf(1));
    const [first] = mockPrograms;
    const runs = [session.run(feedsOf(1)), session.run(feedsOf(1)), session.run(feedsOf(2))];
    await Promise.resolve();
    expect(first!.disposed).toBe(false);
    await Promise.all(runs);
    expect(mockPrograms.map(({ disposed }) => disposed)).toEqual([true, false]);
    await session.release();
    expect(mockPrograms.map(({ disposed }) => disposed)).toEqual([true, true]);
  });

  it('that fails late does not take the place of the one that came after it', async () => {
    const session = await create(1);
    mockHoldsBack = true;
    const late = session.run(feedsOf(1));
    await untilThereAre(1);
    const between = session.run(feedsOf(2));
    const newer = session.run(feedsOf(1));
    await untilThereAre(3);
    const [first, ...others] = mockPrograms;
    first!.preparing.forEach((done) => done({ code: 'INTERNAL', message: 'late' }));
    await expect(late).rejects.toMatchObject({ message: 'late' });
    others.forEach(({ preparing }) => preparing.forEach((done) => done()));
    await Promise.all([between, newer]);
    await session.run(feedsOf(1));
    expect(mockPrograms).toHaveLength(3);
    await session.release();
  });
});

describe('a run that is aborted while its program is prepared', () => {
  it('rejects at once, and leaves the program to others', async () => {
    const session = await create(4);
    mockHoldsBack = true;
    const controller = new AbortController();
    const { signal } = controller;
    const aborted = session.run(feedsOf(1), { signal });
    const other = session.run(feedsOf(1));
    await untilThereAre(1);
    controller.abort('enough');
    await expect(aborted).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: 'enough' });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    mockPrograms[0]!.preparing.forEach((done) => done());
    expect((await other).y!.dims).toEqual([1]);
    expect(mockPrograms).toHaveLength(1);
    await session.release();
  });
});
