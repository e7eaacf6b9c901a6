/** One session that several threads of a process use. */
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';

import type { InferenceSession as Session } from '../../lib';
import type * as Warpconv from '../../lib';
import { InferenceSession, memory } from '../serve/support/built';
import { load } from '../serve/support/outside';
import { withoutGarbage } from '../support/garbage';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';

const { SharedSession } = load('../../../dist') as typeof Warpconv;

interface Given {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: ArrayBufferView;
}

class User {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers>();
  #asked = 0;
  readonly ended: Promise<unknown>;

  constructor(port: MessagePort) {
    const script = path.join(__dirname, 'children/sharing_worker.cjs');
    this.#worker = new Worker(script, { workerData: port, transferList: [port] });
    this.#worker.on('message', ({ id, result, failure }) => {
      const { resolve, reject } = this.#waiting.get(id)!;
      this.#waiting.delete(id);
      if (failure === undefined) resolve(result);
      else reject(Object.assign(new Error((failure as Error).message), failure));
    });
    this.ended = new Promise((resolve) => this.#worker.once('exit', resolve));
    users.push(this);
  }

  ask<T = unknown>(task: string, ...args: unknown[]): Promise<T> {
    const id = this.#asked++;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#worker.postMessage({ id, task, args });
    });
  }

  leave(): void {
    this.#worker.postMessage({ task: 'leave' });
  }

  terminate(): Promise<number> {
    return this.#worker.terminate();
  }
}

interface PromiseWithResolvers {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

const users: User[] = [];
const sessions: Session[] = [];
afterEach(async () => {
  await Promise.all(users.splice(0).map((user) => user.terminate()));
  await Promise.all(sessions.splice(0).map((session) => session.release()));
});

async function open(model: Uint8Array): Promise<Session> {
  const session = await InferenceSession.create(model, { device: 'cpu' });
  sessions.push(session);
  return session;
}

async function useOf(session: Session): Promise<User> {
  const user = new User(session.share());
  await user.ask('open');
  return user;
}

/** y = 2 x + 1 and z = -x, for rows of four. */
const affine = onnxModel({
  inputs: [value('x', ['N', 4])],
  initializers: [tensor('two', [1], Float32Array.of(2)), tensor('one', [1], Float32Array.of(1))],
  nodes: [
    node('Mul', ['x', 'two'], ['doubled']),
    node('Add', ['doubled', 'one'], ['y']),
    node('Neg', ['x'], ['z']),
  ],
  outputs: [value('y', ['N', 4]), value('z', ['N', 4])],
});

const rows = (...firsts: number[]): Given => ({
  type: 'float32',
  dims: [firsts.length, 4],
  data: Float32Array.from(firsts.flatMap((first) => [first, first, first, first])),
});
const answer = (...firsts: number[]) =>
  Float32Array.from(firsts.flatMap((first) => new Array(4).fill(2 * first + 1)));

const pixels = onnxModel({
  inputs: [value('x', ['N', 3, 2, 2])],
  nodes: [node('Identity', ['x'], ['y'])],
  outputs: [value('y', ['N', 3, 2, 2])],
});

/** Takes a while: a hundred convolutions. */
const slow = onnxModel({
  inputs: [value('x', [1, 16, 96, 96])],
  initializers: [tensor('w', [16, 16, 3, 3], new Float32Array(16 * 16 * 9).fill(0.001))],
  nodes: Array.from({ length: 100 }, (_, index) =>
    node('Conv', [index === 0 ? 'x' : `t${index}`, 'w'], [index === 99 ? 'y' : `t${index + 1}`], {
      pads: [1, 1, 1, 1],
    }),
  ),
  outputs: [value('y', [1, 16, 96, 96])],
});
const slowFeeds = { x: { type: 'float32', dims: [1, 16, 96, 96], data: new Float32Array(16 * 96 * 96) } };

test('has the names, metadata and device of the session', async () => {
  const session = await open(affine);
  const { inputNames, outputNames, inputMetadata, outputMetadata, device } = session;
  const description = await new User(session.share()).ask('open');
  expect(description).toEqual({ inputNames, outputNames, inputMetadata, outputMetadata, device });
});

test('several threads get what they asked for, beside the owner', async () => {
  const session = await open(affine);
  const all = await Promise.all(Array.from({ length: 4 }, () => useOf(session)));
  const random = new Random(1);
  const client = async (ask: (feeds: { x: Given }) => Promise<Record<string, { data: unknown }>>) => {
    for (let round = 0; round < 50; round++) {
      const firsts = Array.from({ length: random.integer(1, 3) }, () => random.integer(0, 999));
      expect((await ask({ x: rows(...firsts) })).y!.data).toEqual(answer(...firsts));
    }
  };
  await Promise.all([
    ...all.map((user) => client((feeds) => user.ask('run', 'run', feeds))),
    client((feeds) => session.run(feeds as never)),
  ]);
});

test('outputs are tensors of the thread, all of them or those that were named', async () => {
  const user = await useOf(await open(affine));
  const both = { y: expect.anything(), z: expect.anything() };
  expect(await user.ask('run', 'run', { x: rows(3) })).toEqual(both);
  expect(await user.ask('run', 'run', { x: rows(3) }, ['z'])).toEqual({
    z: { type: 'float32', dims: [1, 4], data: Float32Array.of(-3, -3, -3, -3), location: 'cpu' },
  });
});

test('inputs may come in parts', async () => {
  const user = await useOf(await open(affine));
  const parts = [rows(1), rows(2, 3), rows(4)];
  const { y } = await user.ask<{ y: Given }>('run', 'runJoined', { x: parts });
  expect(y.data).toEqual(answer(1, 2, 3, 4));
});

test('feeds are copied at once: views of larger memory, and memory that threads share', async () => {
  const user = await useOf(await open(affine));
  const large = new Float32Array(new ArrayBuffer(4000), 400, 4).fill(7);
  const shared = new Float32Array(new SharedArrayBuffer(16)).fill(8);
  for (const [data, first] of [
    [large, 7],
    [shared, 8],
  ] as const) {
    const feeds = { x: { type: 'float32', dims: [1, 4], data } };
    expect((await user.ask<{ y: Given }>('run', 'run', feeds)).y.data).toEqual(answer(first));
    expect(await user.ask('overwrite', feeds)).toEqual(answer(first));
  }
});

test('feeds stay with their owner, whatever their own methods do', async () => {
  const images = (await open(pixels)).forImages({ scale: 1 });
  sessions.push(images);
  const session = await SharedSession.open(images.share());
  const bytes = Buffer.alloc(100, 7);
  const part = bytes.subarray(10, 22);
  for (const data of [part, Buffer.from(part)]) {
    const { y } = await session.run({ x: { type: 'uint8', dims: [1, 2, 2, 3], data } as never });
    expect(y!.data).toEqual(new Float32Array(12).fill(7));
    expect([data.length, data[11]]).toEqual([12, 7]);
  }
  expect(bytes.length).toBe(100);
  session.dispose();
});

test('refuses what the session refuses, in its words', async () => {
  const session = await open(affine);
  const user = await useOf(session);
  for (const feeds of [
    {},
    { x: { type: 'float32', dims: [4], data: new Float32Array(4) } },
    { x: { type: 'int32', dims: [1, 4], data: new Int32Array(4) } },
  ] as Record<string, never>[]) {
    const expected = await session.run(feeds).then(
      () => undefined,
      ({ name, code, message }: Record<string, unknown>) => ({ name, code, message }),
    );
    expect(expected).toBeDefined();
    await expect(user.ask('run', 'run', feeds)).rejects.toMatchObject(expected!);
  }
  await expect(user.ask('run', 'run', { x: rows(1) }, ['w'])).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringContaining("'y' or 'z'"),
  });
  await expect(user.ask('into', { x: rows(1) })).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: 'fetches.y is a tensor, which another thread cannot write into; name the output',
  });
  expect(await user.ask('overwrite', { x: rows(5) })).toEqual(answer(5));
});

test('a run is aborted by its signal, and the session goes on', async () => {
  const user = await useOf(await open(slow));
  await user.ask('run', 'run', slowFeeds);
  await expect(user.ask('abort', slowFeeds, 1)).rejects.toMatchObject({
    code: 'ERR_WARPCONV_ABORTED',
    cause: 'enough',
  });
  await user.ask('run', 'run', slowFeeds);
});

test('release() lets runs that are under way end, and later ones are refused', async () => {
  const session = await open(slow);
  const [first, second] = [await useOf(session), await useOf(session)];
  await first.ask('begin', slowFeeds);
  await session.release();
  await first.ask('finish');
  for (const user of [first, second])
    await expect(user.ask('run', 'run', slowFeeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_DISPOSED',
      message: 'the session has been released, or the thread that has it has ended',
    });
  expect(() => session.share()).toThrow(expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' }));
});

test.each([0, 300])('a port whose session was released %i ms ago runs nothing', async (milliseconds) => {
  const session = await open(affine);
  const [early, late] = [new User(session.share()), new User(session.share())];
  await early.ask('open');
  await session.release();
  await setTimeout(milliseconds);
  const used = late.ask('open').then(() => late.ask('run', 'run', { x: rows(1) }));
  await expect(used).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
});

test('a port is opened once, by one', async () => {
  const session = await open(affine);
  const port = session.share();
  const first = await SharedSession.open(port);
  for (const again of [() => SharedSession.open(port), () => SharedSession.open(port)])
    await expect(again()).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: 'port is open already; session.share() gives a port for each',
    });
  expect((await first.run({ x: rows(1) } as never)).y!.data).toEqual(answer(1));
  first.dispose();
  const { port1, port2 } = new MessageChannel();
  await expect(SharedSession.open(port1)).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  port2.postMessage({ kind: 'something else' });
  await expect(SharedSession.open(port1)).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
  port1.close();
  await new Promise((resolve) => port2.once('close', resolve));
  await expect(SharedSession.open(port1)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
});

test('whatever comes through a port does nothing to the owner', async () => {
  const session = await open(affine);
  const port = session.share();
  for (const message of [
    null,
    7,
    'x',
    {},
    { kind: 'cancel' },
    { kind: 'run' },
    { kind: 'run', id: 1000, inputs: [null] },
  ])
    port.postMessage(message);
  await setTimeout(20);
  const shared = await SharedSession.open(port);
  expect((await shared.run({ x: rows(2) } as never)).y!.data).toEqual(answer(2));
  shared.dispose();
});

test('a session for images is closed with the one that it was made from', async () => {
  const session = await open(pixels);
  const [first, second] = [session.forImages({ scale: 1 }), session.forImages({ scale: 1 })];
  const [one, two, own] = await Promise.all(
    [first, second, session].map((each) => SharedSession.open(each.share())),
  );
  const gone = {
    code: 'ERR_WARPCONV_DISPOSED',
    message: 'the session has been released, or the thread that has it has ended',
  };
  const bytes = { x: { type: 'uint8', dims: [1, 2, 2, 3], data: new Uint8Array(12) } } as never;
  await first.release();
  await expect(one!.run(bytes)).rejects.toMatchObject(gone);
  await two!.run(bytes);
  await session.release();
  await expect(two!.run(bytes)).rejects.toMatchObject(gone);
  const elements = { x: { type: 'float32', dims: [1, 3, 2, 2], data: new Float32Array(12) } } as never;
  await expect(own!.run(elements)).rejects.toMatchObject(gone);
});

test('a thread that ends in the middle, or lets go, leaves the session to others', async () => {
  const session = await open(slow);
  const [ended, disposed, other] = [await useOf(session), await useOf(session), await useOf(session)];
  void ended.ask('run', 'run', slowFeeds).catch(() => {});
  await setTimeout(5);
  await ended.terminate();
  await expect(disposed.ask('dispose', slowFeeds)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  await other.ask('run', 'run', slowFeeds);
  await session.run(slowFeeds as never);
});

test('a thread that shares a session ends when it has nothing else to do', async () => {
  const session = await open(affine);
  const user = await useOf(session);
  user.leave();
  expect(await user.ended).toBe(0);
  await session.run({ x: rows(1) } as never);
});

test('weights are there once', async () => {
  const size = 256;
  const model = onnxModel({
    inputs: [value('x', [1, size, 4, 4])],
    initializers: [tensor('w', [size, size, 3, 3], new Float32Array(size * size * 9).fill(0.01))],
    nodes: [node('Conv', ['x', 'w'], ['y'], { pads: [1, 1, 1, 1] })],
    outputs: [value('y', [1, size, 4, 4])],
  });
  const session = await open(model);
  const feeds = { x: { type: 'float32', dims: [1, size, 4, 4], data: new Float32Array(size * 16) } };
  await session.run(feeds as never);
  const before = (await withoutGarbage(memory)).cpu;
  const all = await Promise.all(Array.from({ length: 3 }, () => useOf(session)));
  await Promise.all(all.map((user) => user.ask('run', 'run', feeds)));
  expect(memory().cpu - before).toBeLessThan(size * size * 9);
});

test.each([undefined, null, 7, {}, 'model.onnx'])('%p is no port', async (port) => {
  await expect(SharedSession.open(port as never)).rejects.toMatchObject({
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: expect.stringMatching(
      /^port must be the MessagePort of session\.share\(\), which is opened once, got /,
    ),
  });
});
