/** Outputs of sessions over a GPU that is a piece of CPU memory, whose programs copy each input to the output of its number. */
import type { Done, NativeFailure } from '../../lib/addon';
import type { Compiled } from '../../lib/model/compile';
import { InferenceSession } from '../../lib/session/session';
import { footprintOf } from '../../lib/session/session_memory';
import type { SessionOptions } from '../../lib/session/session_options';
import { SharedSession } from '../../lib/sharing/shared_session';
import { Tensor } from '../../lib/tensor/tensor';
import { node, onnxModel, value } from '../support/onnx_builder';

type Elements = ArrayBufferView | MockGpuBuffer | null;

/** Buffers whose memory is there */
const mockLive = new Set<MockGpuBuffer>();
/** How many more buffers there is memory for */
let mockBuffersLeft = Infinity;
let mockFailure: NativeFailure | undefined;
/** What the last run was given */
let mockGiven: { readonly inputs: readonly Elements[]; readonly outputs: readonly Elements[] };

class MockGpuBuffer {
  readonly bytes: Uint8Array;

  constructor(_index: number, bytes: number) {
    if (mockBuffersLeft-- <= 0) throw { code: 'OUT_OF_MEMORY', message: 'no room' };
    this.bytes = new Uint8Array(bytes);
    mockLive.add(this);
  }
  write(from: ArrayBufferView, done: Done): number {
    this.bytes.set(mockBytesOf(from)!);
    setImmediate(done);
    return 1;
  }
  read(into: ArrayBufferView, done: Done): number {
    mockBytesOf(into)!.set(this.bytes);
    setImmediate(done);
    return 1;
  }
  dispose(): void {
    mockLive.delete(this);
  }
}

function mockBytesOf(elements: Elements): Uint8Array | undefined {
  if (elements === null) return undefined;
  if (elements instanceof MockGpuBuffer) return elements.bytes;
  return new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
}

class MockProgram {
  readonly bytes = 0;
  prepare(done: Done): number {
    setImmediate(done);
    return 1;
  }
  run(inputs: readonly Elements[], outputs: readonly Elements[], _: null, done: Done): number {
    setImmediate(() => {
      this.runSync(inputs, outputs);
      done(mockFailure);
    });
    return 1;
  }
  runSync(inputs: readonly Elements[], outputs: readonly Elements[]): void {
    mockGiven = { inputs, outputs };
    outputs.forEach((output, i) => mockBytesOf(output)?.set(mockBytesOf(inputs[i]!)!));
  }
  dispose(): void {}
}

class MockStore {
  readonly bytes = 0;
  readonly scratchBytes = 0;
  trim(): void {}
  dispose(): void {}
}

jest.mock('../../lib/load', () => ({
  addon: () => ({
    GpuBuffer: MockGpuBuffer,
    Program: MockProgram,
    Store: MockStore,
    cancel: () => {},
    nextTurn: (done: Done) => Number(setImmediate(done)),
    gpusProbed: () => true,
    gpuProbe: () => ({
      missing: null,
      reason: '',
      driver: '13.0',
      gpus: [0, 1].map((index) => ({ index, name: 'G', computeCapability: '9.0' })),
    }),
    hasGpu: () => true,
  }),
}));

const sessions: InferenceSession[] = [];

beforeEach(() => {
  mockBuffersLeft = Infinity;
  mockFailure = undefined;
});
afterEach(async () => {
  await Promise.all(sessions.splice(0).map((session) => session.release()));
  mockLive.clear();
});

const model = onnxModel({
  inputs: [value('a', ['N']), value('b', ['N'])],
  nodes: [node('Relu', ['a'], ['p']), node('Relu', ['b'], ['q'])],
  outputs: [value('p'), value('q')],
});

async function open(options?: SessionOptions): Promise<InferenceSession> {
  const session = await InferenceSession.create(model, { device: 'cuda', ...options });
  sessions.push(session);
  return session;
}

const floats = (...data: number[]) => new Tensor('float32', data, [data.length]);
const feeds = { a: floats(1, 2), b: floats(3, 4) };
const locationsOf = (results: Record<string, Tensor>) =>
  Object.entries(results).map(([name, { location }]) => `${name} ${location}`);

describe('options.preferredOutputLocation', () => {
  it.each<[SessionOptions['preferredOutputLocation'], string[]]>([
    [undefined, ['p cpu', 'q cpu']],
    ['cpu', ['p cpu', 'q cpu']],
    ['cpu-pinned', ['p cpu', 'q cpu']],
    ['gpu-buffer', ['p gpu-buffer', 'q gpu-buffer']],
    [{ q: 'gpu-buffer' }, ['p cpu', 'q gpu-buffer']],
    [{ p: 'gpu-buffer', q: 'cpu' }, ['p gpu-buffer', 'q cpu']],
    [{}, ['p cpu', 'q cpu']],
  ])('of %j gives outputs there', async (preferredOutputLocation, locations) => {
    const session = await open({ preferredOutputLocation });
    for (const results of [await session.run(feeds), session.runSync(feeds)]) {
      expect(locationsOf(results)).toEqual(locations);
      expect(await results.p!.getData()).toEqual(Float32Array.of(1, 2));
      expect(await results.q!.getData()).toEqual(Float32Array.of(3, 4));
    }
  });

  it.each<[SessionOptions['preferredOutputLocation'], RegExp]>([
    ['texture', /preferredOutputLocation must be 'cpu', 'cpu-pinned' or 'gpu-buffer', got 'texture'/],
    [{ p: 'gpu' }, /must be 'cpu', 'cpu-pinned' or 'gpu-buffer', got 'gpu'/],
    [
      { pp: 'gpu-buffer' },
      /an output of options.preferredOutputLocation must be 'p' or 'q', got 'pp'; did you/,
    ],
    [['gpu-buffer'] as never, /must be a location, or an object of locations by output/],
  ])('of %j is refused', async (preferredOutputLocation, message) => {
    const created = open({ preferredOutputLocation });
    await expect(created).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    await expect(created).rejects.toThrow(message);
  });

  it.each([['gpu-buffer'], [{ q: 'gpu-buffer' }]])('of %j is refused on the CPU', async (preferred) => {
    const created = open({ device: 'cpu', preferredOutputLocation: preferred });
    await expect(created).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(/the session is on the CPU; pass device: 'cuda'/) as string,
    });
  });

  it('is for new tensors: those that are brought are written where they are', async () => {
    const session = await open({ preferredOutputLocation: 'gpu-buffer' });
    const p = floats(0, 0);
    const results = await session.run(feeds, { p, q: null });
    expect(results.p).toBe(p);
    expect(p.data).toEqual(Float32Array.of(1, 2));
    expect(locationsOf(results)).toEqual(['p cpu', 'q gpu-buffer']);
  });

  it('counts in memoryLimit, and not as CPU memory', () => {
    const program = { arenaBytes: 5, inputBytes: [10], outputBytes: [100, 1000] };
    const compiled = {
      program: { ...program, constants: [], sharedConstants: [], steps: [] },
      outputs: [{ name: 'p' }, { name: 'q' }],
    } as unknown as Compiled;
    const footprint = footprintOf(compiled, 'cuda:0', new Set(['q']));
    expect(footprint).toMatchObject({ scratch: 5 + 2 * 1110, outputs: 1000, hostOutputs: 100 });
  });
});

describe('outputs on a GPU', () => {
  it.each([
    ['gpu-buffer', 5],
    ['cpu', 6],
  ])('take of memoryLimit while runs are under way, those of %s', async (preferredOutputLocation, most) => {
    // Inputs and outputs of 16 bytes each: the ports of two runs, and the outputs of one
    const limit = 2 * (16 + 16) + 16;
    const session = await open({ preferredOutputLocation, memoryLimit: limit });
    await session.run(feeds);
    for (let round = 0; round < 2; round++) {
      const runs = await Promise.allSettled(Array.from({ length: 6 }, () => session.run(feeds)));
      const done = runs.filter(({ status }) => status === 'fulfilled').length;
      expect(done).toBe(most);
      for (const run of runs.slice(most))
        expect(run).toMatchObject({ reason: { code: 'ERR_WARPCONV_OUT_OF_MEMORY' } });
    }
    const refused = open({ preferredOutputLocation, memoryLimit: limit - 1 }).then((one) => one.run(feeds));
    const outcome = await refused.then(
      () => 'done',
      (error: { code: string }) => error.code,
    );
    expect(outcome).toBe(preferredOutputLocation === 'cpu' ? 'done' : 'ERR_WARPCONV_OUT_OF_MEMORY');
  });

  it('are read by the next session where they are', async () => {
    const [first, second] = [await open({ preferredOutputLocation: 'gpu-buffer' }), await open()];
    const { p, q } = await first.run(feeds);
    const results = await second.run({ a: q!, b: p! });
    expect(mockGiven.inputs).toEqual([q!.gpuBuffer, p!.gpuBuffer]);
    expect(results.p!.data).toEqual(Float32Array.of(3, 4));
    expect(results.q!.data).toEqual(Float32Array.of(1, 2));
  });

  it('are those of the caller, who disposes them, also when the session has ended', async () => {
    const session = await open({ preferredOutputLocation: 'gpu-buffer' });
    const { p, q } = await session.run(feeds);
    await session.release();
    expect(mockLive.size).toBe(2);
    expect(await p!.getData()).toEqual(Float32Array.of(1, 2));
    p!.dispose();
    expect(mockLive.size).toBe(1);
    expect(await q!.getData(true)).toEqual(Float32Array.of(3, 4));
    expect(mockLive.size).toBe(0);
  });

  it('go at once where the run fails, unless the caller brought them', async () => {
    const session = await open({ preferredOutputLocation: 'gpu-buffer' });
    const p = await floats(0, 0).to('cuda');
    mockFailure = { code: 'CUDA', message: 'lost' };
    await expect(session.run(feeds, { p, q: null })).rejects.toMatchObject({ code: 'ERR_WARPCONV_CUDA' });
    expect([...mockLive]).toEqual([p.gpuBuffer]);
    mockFailure = undefined;
    expect((await session.run(feeds, { p })).p).toBe(p);
  });

  it('go where there is memory for some of them alone', async () => {
    const session = await open({ preferredOutputLocation: 'gpu-buffer' });
    Object.values(await session.run(feeds)).forEach((output) => output.dispose());
    for (const run of [async () => session.run(feeds), async () => session.runSync(feeds)]) {
      mockBuffersLeft = 1;
      await expect(run()).rejects.toMatchObject({ code: 'ERR_WARPCONV_OUT_OF_MEMORY' });
      expect(mockLive.size).toBe(0);
    }
  });

  it('are not brought where nobody asks for them', async () => {
    const session = await open();
    const { q } = await session.run(feeds, ['q']);
    expect(mockGiven.outputs[0]).toBeNull();
    expect(q!.data).toEqual(Float32Array.of(3, 4));
  });

  it('come to other threads in CPU memory', async () => {
    const session = await open({ preferredOutputLocation: 'gpu-buffer' });
    const shared = await SharedSession.open(session.share());
    const results = await shared.run(feeds);
    expect(locationsOf(results)).toEqual(['p cpu', 'q cpu']);
    expect(results.p!.data).toEqual(Float32Array.of(1, 2));
    await shared.release();
  });
});

describe('tensors on a GPU that a run brings', () => {
  it('are written there, in all ways to run', async () => {
    const session = await open();
    const p = await floats(0, 0).to('cuda');
    const buffers = mockLive.size;
    expect((await session.run(feeds, { p, q: null })).p).toBe(p);
    expect(await p.getData()).toEqual(Float32Array.of(1, 2));
    expect(session.runSync({ a: feeds.b, b: feeds.a }, { p }).p).toBe(p);
    expect(await p.getData()).toEqual(Float32Array.of(3, 4));
    expect((await session.runJoined({ a: [feeds.a], b: [feeds.b] }, { p })).p).toBe(p);
    expect(await p.getData()).toEqual(Float32Array.of(1, 2));
    expect(mockLive.size).toBe(buffers);
  });

  const onGpu = (tensor: Tensor, device = 'cuda') => tensor.to(device as 'cuda');

  it.each<[string, () => Promise<Record<string, Tensor>>, RegExp]>([
    [
      'other dims',
      async () => ({ p: await onGpu(floats(1)) }),
      /float32 tensor of dims \[2\] in CPU memory or on/,
    ],
    [
      'another type',
      async () => ({ p: await onGpu(new Tensor(Int32Array.of(1, 2))) }),
      /must be a float32 tensor/,
    ],
    [
      'another GPU',
      async () => ({ p: await onGpu(floats(1, 2), 'cuda:1') }),
      /fetches.p is on 'cuda:1' and the session on 'cuda:0'; await its to\('cuda:0'\)/,
    ],
    [
      'memory of somebody else',
      () =>
        Promise.resolve({ p: { type: 'float32', dims: [2], location: 'gpu-buffer' } as unknown as Tensor }),
      /in GPU memory that is not warpconv's own/,
    ],
    [
      'another output',
      async () => {
        const p = await onGpu(floats(1, 2));
        return { p, q: p.reshape([2]) };
      },
      /fetches.q shares memory with fetches.p/,
    ],
  ])('of %s are refused', async (_, fetches, message) => {
    const session = await open();
    await session.run(feeds);
    const brought = await fetches();
    await expect(session.run(feeds, brought)).rejects.toThrow(message);
    expect(() => session.runSync(feeds, brought)).toThrow(message);
  });

  it('are refused where they are inputs of the run, or disposed', async () => {
    const session = await open();
    const a = await onGpu(floats(1, 2));
    await expect(session.run({ a, b: feeds.b }, { p: a })).rejects.toThrow(
      'fetches.p shares memory with feeds.a; give it memory of its own',
    );
    const p = await onGpu(floats(1, 2));
    p.dispose();
    await expect(session.run(feeds, { p })).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });

  it('are written by one run at a time, and read by none meanwhile', async () => {
    const [session, other] = [await open(), await open()];
    const p = await onGpu(floats(0, 0));
    await session.run(feeds);
    await other.run(feeds);
    const outcomes = await Promise.allSettled([
      session.run(feeds, { p }),
      other.run(feeds, { q: p }),
      other.run({ a: p, b: feeds.b }),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(outcomes.slice(1).map((one) => ((one as PromiseRejectedResult).reason as Error).message)).toEqual([
      expect.stringMatching(
        /^fetches.q shares memory with fetches.p of a run that has not ended, which writes it/,
      ),
      expect.stringMatching(
        /^feeds.a shares memory with fetches.p of a run that has not ended, which writes it/,
      ),
    ]);
    expect((await other.run({ a: p, b: feeds.b })).p!.data).toEqual(Float32Array.of(1, 2));
  });
});
