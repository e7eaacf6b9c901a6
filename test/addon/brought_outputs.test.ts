/** Tensors that the callers of runs bring for outputs, and what else may use them meanwhile. */
import { InferenceSession, Tensor, type SessionExplanation, type TensorLike } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { node, onnxModel, subgraph, tensor, value, type OnnxModel } from '../support/onnx_builder';

const sessions: InferenceSession[] = [];
afterEach(() => Promise.all(sessions.splice(0).map((session) => session.release())));

async function open(model: OnnxModel): Promise<InferenceSession> {
  const session = await InferenceSession.create(onnxModel({ opset: 18, ...model }), { device: TEST_DEVICE });
  sessions.push(session);
  return session;
}

const floats = (...list: number[]) => new Tensor('float32', Float32Array.from(list), [list.length]);

/** So many elements that a network is not compiled for them, where they decide something. */
const MANY = 1100;
const many = (element: (index: number) => number) =>
  floats(...Array.from({ length: MANY }, (_, index) => element(index)));

/** y is twice x. */
const doubling: OnnxModel = {
  inputs: [value('x', ['n'])],
  nodes: [node('Add', ['x', 'x'], ['y'])],
  outputs: [value('y')],
};

/** By the sign of what the network computes, ten times x, or x with its sign turned: it runs in parts. */
const branching: OnnxModel = {
  inputs: [value('x', ['n'])],
  initializers: [tensor('zero', [], [0]), tensor('ten', [], [10])],
  nodes: [
    node('ReduceSum', ['x'], ['sum'], { keepdims: 0 }),
    node('Greater', ['sum', 'zero'], ['condition']),
    node('If', ['condition'], ['y'], {
      then_branch: subgraph({ nodes: [node('Mul', ['x', 'ten'], ['a'])], outputs: [value('a')] }),
      else_branch: subgraph({ nodes: [node('Neg', ['x'], ['a'])], outputs: [value('a')] }),
    }),
  ],
  outputs: [value('y'), value('sum')],
};

/** Where x is not 0: computed between two programs. */
const selecting: OnnxModel = {
  inputs: [value('x', ['n'])],
  nodes: [
    node('Add', ['x', 'x'], ['d']),
    node('NonZero', ['d'], ['at']),
    node('Cast', ['at'], ['f'], { to: 1 }),
    node('Neg', ['f'], ['y']),
  ],
  outputs: [value('y')],
};

/** x, put behind itself in each of so many rounds. */
const looping: OnnxModel = {
  inputs: [value('x', ['n']), value('rounds', [], 'int64')],
  initializers: [tensor('go', [], [1], 'bool')],
  nodes: [
    node('Loop', ['rounds', 'go', 'x'], ['last'], {
      body: subgraph({
        inputs: [value('round', [], 'int64'), value('going', [], 'bool'), value('now')],
        nodes: [node('Identity', ['going'], ['on']), node('Concat', ['now', 'now'], ['next'], { axis: 0 })],
        outputs: [value('on'), value('next')],
      }),
    }),
    node('Neg', ['last'], ['y']),
  ],
  outputs: [value('y')],
};

describe('are the very tensors that are returned', () => {
  test('by every way to run', async () => {
    const session = await open(doubling);
    const y = floats(0, 0);
    expect(await session.run({ x: floats(1, 2) }, { y })).toEqual({ y });
    expect((await session.run({ x: floats(1, 2) }, { y })).y).toBe(y);
    expect(y.data).toEqual(Float32Array.of(2, 4));
    expect(session.runSync({ x: floats(3, 4) }, { y }).y).toBe(y);
    expect(y.data).toEqual(Float32Array.of(6, 8));
    expect((await session.runJoined({ x: [floats(5), floats(6)] }, { y })).y).toBe(y);
    expect(y.data).toEqual(Float32Array.of(10, 12));
  });

  test('by networks that run in parts', async () => {
    const session = await open(branching);
    const [y, sum] = [many(() => 0), new Tensor('float32', [0], [])];
    for (const [step, factor] of [
      [1, 10],
      [-2, -1],
      [3, 10],
    ] as const) {
      const x = many((index) => step * (index % 7));
      const results = await session.run({ x }, { y, sum });
      expect([results.y === y, results.sum === sum]).toEqual([true, true]);
      expect(y.data).toEqual(x.data.map((element) => factor * element));
      expect(sum.data).toEqual(Float32Array.of(x.data.reduce((total, element) => total + element)));
    }
    const x = many((index) => index % 5);
    const only = session.runSync({ x }, { y });
    expect(Object.keys(only)).toEqual(['y']);
    expect(only.y).toBe(y);
    expect(y.data).toEqual(x.data.map((element) => 10 * element));
  });

  test.each<[string, Tensor, Tensor]>([
    ['int64', new Tensor(BigInt64Array.of(-5n, 2n ** 53n + 1n)), new Tensor(new BigInt64Array(2))],
    ['bool', new Tensor('bool', Uint8Array.of(1, 0)), new Tensor('bool', new Uint8Array(2))],
    [
      'float16',
      new Tensor('float16', Uint16Array.of(0x3c00, 0xc000)),
      new Tensor('float16', new Uint16Array(2)),
    ],
    ['float64', new Tensor(Float64Array.of(0.1, -3)), new Tensor(new Float64Array(2))],
  ])('of %s', async (_, x, y) => {
    const type = x.type as 'int64';
    const session = await open({
      inputs: [value('x', ['n'], type)],
      nodes: [node('Identity', ['x'], ['y'])],
      outputs: [value('y', undefined, type)],
    });
    expect((await session.run({ x }, { y })).y).toBe(y);
    expect(y.data).toEqual(x.data);
  });

  test('of no elements', async () => {
    const session = await open(doubling);
    const y = floats();
    expect((await session.run({ x: floats() }, { y })).y).toBe(y);
  });
});

test('that are disposed while the run is under way are written, and stay disposed', async () => {
  const session = await open(doubling);
  const y = floats(0, 0);
  const { data } = y;
  const { signal } = new AbortController();
  await session.run({ x: floats(0, 0) });
  const run = session.run({ x: floats(1, 2) }, { y }, { signal });
  await Promise.resolve();
  y.dispose();
  expect((await run).y).toBe(y);
  expect(y.location).toBe('none');
  expect(data).toEqual(Float32Array.of(2, 4));
});

describe('while a run is under way', () => {
  /** A signal keeps runs off the event loop's thread, where they would come one after the other. */
  const { signal } = new AbortController();
  const apart = { signal };

  async function outcomes(...runs: readonly Promise<unknown>[]): Promise<string[]> {
    const settled = await Promise.allSettled(runs);
    return settled.map((one) => (one.status === 'fulfilled' ? 'done' : (one.reason as Error).message));
  }

  test('its outputs are no other run’s outputs', async () => {
    const [session, other] = [await open(doubling), await open(doubling)];
    for (const one of [session, other]) await one.run({ x: floats(0, 0) });
    const y = floats(0, 0);
    const remedy = 'await that run first, or give each run tensors of its own';
    const refusal = `fetches.y shares memory with fetches.y of a run that has not ended, which writes it; ${remedy}`;
    const runs = [1, 2, 3].map((factor) =>
      (factor === 3 ? other : session).run({ x: floats(factor, factor) }, { y }, apart),
    );
    expect(await outcomes(...runs)).toEqual(['done', refusal, refusal]);
    expect(y.data).toEqual(Float32Array.of(2, 2));
    // Later runs may have it.
    expect(await outcomes(other.run({ x: floats(4, 5) }, { y }, apart))).toEqual(['done']);
    expect(y.data).toEqual(Float32Array.of(8, 10));
  });

  test('they are refused to runSync, too', async () => {
    const session = await open(doubling);
    await session.run({ x: floats(0, 0) });
    const y = floats(0, 0);
    const run = session.run({ x: floats(1, 2) }, { y }, apart);
    await Promise.resolve();
    expect(() => session.runSync({ x: floats(3, 4) }, { y })).toThrow(/of a run that has not ended/);
    expect(await outcomes(run)).toEqual(['done']);
    expect(y.data).toEqual(Float32Array.of(2, 4));
  });

  test('parts of one buffer are several runs’ outputs', async () => {
    const session = await open(doubling);
    await session.run({ x: floats(0, 0) });
    const whole = new Float32Array(8);
    const runs = [0, 1, 2, 3].map((i) => {
      const y = new Tensor('float32', whole.subarray(2 * i, 2 * i + 2), [2]);
      return session.run({ x: floats(i, -i) }, { y }, apart);
    });
    expect(await outcomes(...runs)).toEqual(['done', 'done', 'done', 'done']);
    expect(whole).toEqual(Float32Array.of(0, -0, 2, -2, 4, -4, 6, -6));
  });

  test('its outputs are no other run’s inputs, and its inputs no other run’s outputs', async () => {
    const session = await open(doubling);
    await session.run({ x: floats(0, 0) });
    const [x, y] = [floats(1, 2), floats(0, 0)];
    expect(
      await outcomes(
        session.run({ x }, { y }, apart),
        session.run({ x: y }, apart),
        session.run({ x: floats(0, 0) }, { y: x }, apart),
        session.run({ x }, apart),
      ),
    ).toEqual([
      'done',
      expect.stringMatching(
        /^feeds.x shares memory with fetches.y of a run that has not ended, which writes it/,
      ),
      expect.stringMatching(
        /^fetches.y shares memory with feeds.x of a run that has not ended, which reads it/,
      ),
      'done',
    ]);
    expect([x.data, y.data]).toEqual([Float32Array.of(1, 2), Float32Array.of(2, 4)]);
  });

  test('that fails, its outputs are taken, and free again when it has', async () => {
    const session = await open(doubling);
    await session.run({ x: floats(0, 0) });
    const y = floats(0, 0);
    const controller = new AbortController();
    const aborted = session.run({ x: floats(1, 2) }, { y }, { signal: controller.signal });
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
    expect(await outcomes(session.run({ x: floats(3, 4) }, { y }))).toEqual(['done']);
    expect(y.data).toEqual(Float32Array.of(6, 8));
  });

  test('of a network in parts, its outputs are no other run’s', async () => {
    const session = await open(branching);
    const x = many((index) => index);
    await session.run({ x });
    const y = many(() => 0);
    await expect(session.run({ x }, { y: x })).rejects.toThrow('fetches.y shares memory with feeds.x');
    expect(x.data).toEqual(many((index) => index).data);
    const messages = await outcomes(...[1, 2, 3].map(() => session.run({ x }, { y }, apart)));
    // Which of them comes first to its last part is the threads' affair.
    expect(messages).toContain('done');
    for (const message of messages)
      expect(message).toMatch(
        /^(done|fetches.y shares memory with fetches.y of a run that has not ended.*)$/,
      );
    expect(y.data).toEqual(many((index) => 10 * index).data);
  });
});

describe('networks in parts', () => {
  const nodesOf = (steps: readonly { readonly nodes: readonly string[] }[]) =>
    steps.flatMap(({ nodes }) => nodes);

  function expectTimes(steps: readonly { readonly kind: string; readonly milliseconds?: number }[]): void {
    for (const { kind, milliseconds } of steps) expect(milliseconds === undefined).toBe(kind === 'hosted');
  }

  test('are measured, the branch that the feeds choose', async () => {
    const session = await open(branching);
    for (const [x, branch] of [
      [many((index) => index), 'Mul'],
      [many((index) => -index), 'Neg'],
    ] as const) {
      const { inputs, outputs, steps, device } = await session.profile({ x }, { runs: 2 });
      expect(device).toBe(session.device);
      expect(inputs).toEqual([{ name: 'x', type: 'float32', dims: [MANY] }]);
      expect(outputs.map(({ name, dims }) => [name, dims])).toEqual([
        ['y', [MANY]],
        ['sum', []],
      ]);
      expectTimes(steps);
      expect(nodesOf(steps).slice(0, 2)).toEqual(['ReduceSum#0', 'Greater#1']);
      const branches = nodesOf(steps).filter((name) => /^(Mul|Neg)/.test(name));
      expect(new Set(branches.map((name) => name.split('#')[0]))).toEqual(new Set([branch]));
    }
    const { y } = await session.run({ x: many((index) => index) });
    expect(y!.data).toEqual(many((index) => 10 * index).data);
  });

  test('are measured with what is computed between programs', async () => {
    const session = await open(selecting);
    const { outputs, steps } = await session.profile({ x: many((index) => index % 2) }, { runs: 1 });
    expect(outputs.map(({ name, dims }) => [name, dims])).toEqual([['y', [1, MANY / 2]]]);
    const hosted = steps.findIndex(({ kind }) => kind === 'hosted');
    expect(steps[hosted]!.summary).toBe('NonZero');
    expect([hosted > 0, hosted < steps.length - 1]).toEqual([true, true]);
    expectTimes(steps);
    expect(nodesOf(steps)).toHaveLength(new Set(nodesOf(steps)).size);
  });

  test('are measured with one round of a loop', async () => {
    const session = await open(looping);
    const feeds = (rounds: bigint): Record<string, TensorLike> => ({
      x: floats(1, 2),
      rounds: new Tensor('int64', [rounds], []),
    });
    const [once, often] = [await session.profile(feeds(1n)), await session.profile(feeds(3n))];
    const summaries = ({ steps }: typeof once) => steps.map(({ summary }) => summary);
    expect(summaries(often)).toEqual(summaries(once));
    expect(summaries(once)).toEqual(expect.arrayContaining(['Loop', '2 elements']));
    expect([once, often].map(({ outputs }) => outputs[0]!.dims)).toEqual([[4], [16]]);
    expectTimes(often.steps);
    const { y } = await session.run(feeds(2n));
    expect(y!.data).toEqual(Float32Array.of(-1, -2, -1, -2, -1, -2, -1, -2));
  });

  const briefly = ({ steps }: SessionExplanation) =>
    steps.map(({ kind, nodes, summary }) => [kind, nodes.join(), summary]);

  test('are explained part by part, as far as dims decide them, before a run and after it', async () => {
    const session = await open(selecting);
    const explained = await session.explain({ x: [MANY] });
    expect(explained).toMatchObject({
      device: session.device,
      inputs: [{ name: 'x', type: 'float32', dims: [MANY] }],
      outputs: [],
    });
    expect(briefly(explained)).toEqual([
      ['elementwise', 'Add#0', 'add'],
      ['hosted', 'NonZero#1', 'NonZero'],
      ['undecided', 'Cast#2', 'Cast'],
      ['undecided', 'Neg#3', 'Neg'],
    ]);
    const x = many((index) => index % 2);
    const profiled = await session.profile({ x }, { runs: 1 });
    // Both have the same parts: those of the profile have other kinds.
    expect(briefly(profiled).slice(0, 2)).toEqual(briefly(explained).slice(0, 2));
    expect(nodesOf(profiled.steps)).toEqual(nodesOf(explained.steps));
    expect(await session.explain({ x: [MANY] })).toEqual(explained);
    const { y } = await session.run({ x });
    expect(y!.dims).toEqual([1, MANY / 2]);
  });

  test('are explained with both branches, and the outputs that dims decide', async () => {
    const session = await open(branching);
    const explained = await session.explain({ x: [MANY] });
    expect(explained.outputs).toEqual([{ name: 'sum', type: 'float32', dims: [] }]);
    const [reduced, compared, ...rest] = briefly(explained);
    expect([reduced![1], compared![1]]).toEqual(['ReduceSum#0', 'Greater#1']);
    expect(rest.map(([kind, , summary]) => [kind, summary])).toEqual([
      ['undecided', 'If'],
      ['undecided', 'Mul'],
      ['undecided', 'Neg'],
    ]);
  });

  test('are explained with the graph of a loop, where nothing comes before it', async () => {
    const session = await open(looping);
    expect(
      briefly(await session.explain({ x: [MANY], rounds: [] })).map(([kind, , what]) => [kind, what]),
    ).toEqual([
      ['hosted', 'Loop'],
      ['undecided', 'Identity'],
      ['undecided', 'Concat'],
      ['undecided', 'Neg'],
    ]);
  });

  test('are not explained by dims alone where elements may be compiled in, and it says what does', async () => {
    const session = await open(selecting);
    const explained = session.explain({ x: [4] });
    await expect(explained).rejects.toMatchObject({ code: 'ERR_WARPCONV_UNSUPPORTED' });
    await expect(explained).rejects.toThrow('; profile(feeds) explains it, for such feeds');
  });
});
