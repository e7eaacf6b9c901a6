import { getEventListeners } from 'node:events';

import { setImmediate as nextTurn } from 'node:timers/promises';

import type { Done } from '../../lib/addon';
import { callNativeAsync, runOnLoop, runsAtOnce, waitedElsewhere, waitOnLoop } from '../../lib/calls';

const mockCancel = jest.fn();
jest.mock('../../lib/load', () => ({
  addon: () => ({ cancel: mockCancel, nextTurn: (resume: () => void) => void setImmediate(resume) }),
}));

const ID = 17;

/** A native call that ends when the test says so. */
function pending(signal?: AbortSignal): { promise: Promise<void>; done: Done } {
  let done: Done | undefined;
  const promise = callNativeAsync((callback) => {
    done = callback;
    return ID;
  }, signal);
  return { promise, done: done! };
}

beforeEach(() => mockCancel.mockReset());

it('starts at once and resolves when the call ends', async () => {
  const { promise, done } = pending();
  done();
  await expect(promise).resolves.toBeUndefined();
});

it('rejects with what native code reports', async () => {
  const { promise, done } = pending();
  done({ code: 'OUT_OF_MEMORY', message: 'no room' });
  await expect(promise).rejects.toMatchObject({ code: 'ERR_WARPCONV_OUT_OF_MEMORY', message: 'no room' });
});

it('rejects with what starting throws', async () => {
  const starting = callNativeAsync(() => {
    throw { code: 'DISPOSED', message: 'gone' };
  });
  await expect(starting).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
});

it('rejects with a code where the signal itself throws', async () => {
  const signal = {
    aborted: false,
    addEventListener: () => {
      throw new Error('no');
    },
  };
  const { promise, done } = pending(signal as unknown as AbortSignal);
  await expect(promise).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  done();
});

it('cancels on abort, and rejects only when native code has let go', async () => {
  const controller = new AbortController();
  const { promise, done } = pending(controller.signal);
  let settled = false;
  const settling = promise.catch(() => {}).then(() => (settled = true));
  controller.abort('enough');
  expect(mockCancel).toHaveBeenCalledWith(ID);
  await new Promise(setImmediate);
  expect(settled).toBe(false);
  done({ code: 'ABORTED', message: 'aborted' });
  await settling;
  await expect(promise).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: 'enough' });
});

it('resolves a call that ended before the abort reached it', async () => {
  const controller = new AbortController();
  const { promise, done } = pending(controller.signal);
  controller.abort();
  done();
  await expect(promise).resolves.toBeUndefined();
});

it.each([undefined, { code: 'INTERNAL', message: 'broken' }])('stops listening after %p', async (failure) => {
  const { signal } = new AbortController();
  const { promise, done } = pending(signal);
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
  done(failure);
  await promise.catch(() => {});
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
});

it('cancels at once when the signal was aborted while the call was prepared', async () => {
  const { promise, done } = pending(AbortSignal.abort());
  expect(mockCancel).toHaveBeenCalledWith(ID);
  done({ code: 'ABORTED', message: 'aborted' });
  await expect(promise).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
});

describe('runsAtOnce', () => {
  beforeEach(() => nextTurn());

  it('takes a short call and leaves a long one', () => {
    expect(runsAtOnce(100, undefined)).toBe(false);
    expect(runsAtOnce(0.01, undefined)).toBe(true);
  });

  it('leaves what can be aborted', () => {
    expect(runsAtOnce(0.01, new AbortController().signal)).toBe(false);
  });

  it('lets nothing overtake a call in flight', async () => {
    const [first, second] = [pending(), pending()];
    first.done();
    await first.promise;
    expect(runsAtOnce(0.01, undefined)).toBe(false);
    second.done({ code: 'INTERNAL', message: 'broken' });
    await expect(second.promise).rejects.toThrow('broken');
    expect(runsAtOnce(0.01, undefined)).toBe(true);
  });

  it('waits for no call that has not started', async () => {
    const starting = callNativeAsync(() => {
      throw new Error('no');
    });
    await expect(starting).rejects.toThrow('no');
    expect(runsAtOnce(0.01, undefined)).toBe(true);
  });
});

const sleep = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

describe('runOnLoop', () => {
  const work = jest.fn();
  beforeEach(async () => {
    work.mockReset();
    // Until nobody remembers the calls of the test before
    await sleep(120);
  });

  it('does what takes up to three milliseconds, and says how long that was', async () => {
    expect(await runOnLoop(2.9, work)).toBeGreaterThanOrEqual(0);
    expect(work).toHaveBeenCalledTimes(1);
    await sleep(1);
    expect(await runOnLoop(3.1, work)).toBeUndefined();
    expect(await runOnLoop(Infinity, work)).toBeUndefined();
    expect(work).toHaveBeenCalledTimes(1);
  });

  it('has the event loop turn before each run of a chain', async () => {
    let turns = 0;
    let goesOn = true;
    const count = () => {
      turns++;
      if (goesOn) setImmediate(count);
    };
    setImmediate(count);
    for (let run = 0; run < 20; run++) expect(await runOnLoop(2, work)).toBeDefined();
    goesOn = false;
    expect(turns).toBeGreaterThanOrEqual(18);
  });

  it('leaves runs that overlap others, and for a while those after them', async () => {
    const first = pending();
    expect(await runOnLoop(2, work)).toBeUndefined();
    first.done();
    await first.promise;
    await sleep(5);
    expect(await runOnLoop(2, work)).toBeUndefined();
    // A short one takes no longer than to hand it over.
    expect(await runOnLoop(0.1, work)).toBeDefined();
    await sleep(120);
    expect(await runOnLoop(2, work)).toBeDefined();
  });

  it('lets nothing overtake a run that waits for its turn', async () => {
    expect(await runOnLoop(2, work)).toBeDefined();
    const waiting = runOnLoop(2, work);
    expect(runsAtOnce(0.01, undefined)).toBe(false);
    expect(await runOnLoop(2, work)).toBeUndefined();
    expect(await waiting).toBeDefined();
    expect(work).toHaveBeenCalledTimes(2);
  });

  it('rejects with what the work throws, and goes on', async () => {
    const failing = runOnLoop(1, () => {
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    await sleep(1);
    expect(await runOnLoop(1, work)).toBeDefined();
  });
});

describe('waitOnLoop', () => {
  const work = jest.fn();
  beforeEach(async () => {
    work.mockReset();
    await sleep(120);
  });

  it('waits for what takes up to three milliseconds, and says how long that was', async () => {
    expect(await waitOnLoop(2.9, false, work)).toBeGreaterThanOrEqual(0);
    expect(work).toHaveBeenCalledTimes(1);
    await sleep(1);
    expect(await waitOnLoop(3.1, false, work)).toBeUndefined();
    expect(await waitOnLoop(Infinity, false, work)).toBeUndefined();
    expect(work).toHaveBeenCalledTimes(1);
  });

  it('waits for a chain of them, and has the event loop turn in between', async () => {
    let turns = 0;
    let goesOn = true;
    const count = () => {
      turns++;
      if (goesOn) setImmediate(count);
    };
    setImmediate(count);
    work.mockImplementation(() => {
      const begun = performance.now();
      while (performance.now() < begun + 0.4);
    });
    for (let run = 0; run < 20; run++) expect(await waitOnLoop(0.4, false, work)).toBeDefined();
    goesOn = false;
    expect(work).toHaveBeenCalledTimes(20);
    // Two are all that a turn has time for.
    expect(turns).toBeGreaterThanOrEqual(8);
  });

  it('leaves runs that overlap others, however short, and for a while those after them', async () => {
    expect(await waitOnLoop(0.1, true, work)).toBeUndefined();
    await sleep(5);
    expect(await waitOnLoop(0.1, false, work)).toBeUndefined();
    await sleep(120);
    const first = pending();
    expect(await waitOnLoop(0.1, false, work)).toBeUndefined();
    first.done();
    await first.promise;
    await sleep(5);
    expect(await waitOnLoop(0.1, false, work)).toBeUndefined();
    expect(work).not.toHaveBeenCalled();
    await sleep(120);
    expect(await waitOnLoop(0.1, false, work)).toBeDefined();
  });

  it('leaves runs that come while the loop has no time to sleep between them', async () => {
    expect(await waitOnLoop(0.1, false, work)).toBeDefined();
    await nextTurn();
    await nextTurn();
    expect(await waitOnLoop(0.1, false, work)).toBeUndefined();
  });

  it('goes on with a chain of which a run was done elsewhere', async () => {
    expect(await waitOnLoop(0.1, false, work)).toBeDefined();
    await nextTurn();
    await nextTurn();
    waitedElsewhere();
    expect(await waitOnLoop(0.1, false, work)).toBeDefined();
  });
});
