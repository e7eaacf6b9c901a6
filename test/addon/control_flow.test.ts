/** Branches, loops, and networks whose shapes only a run knows. */
import { InferenceSession, Tensor, type TensorLike } from '../../lib';
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
const int64 = (dims: number[], ...list: number[]) =>
  new Tensor('int64', BigInt64Array.from(list, BigInt), dims);
const bool = (truth: boolean) => new Tensor('bool', Uint8Array.of(Number(truth)), []);

async function outcome(session: InferenceSession, feeds: Record<string, TensorLike>) {
  const results = await session.run(feeds);
  return Object.fromEntries(
    Object.entries(results).map(([name, { dims, data }]) => [
      name,
      { dims, elements: Array.from(data as ArrayLike<number | bigint>, Number) },
    ]),
  );
}

describe('If', () => {
  /** Both branches call their result the same, and read what lies around them. */
  const branches = {
    then_branch: subgraph({
      initializers: [tensor('factor', [], [10])],
      nodes: [node('Mul', ['x', 'factor'], ['result'])],
      outputs: [value('result')],
    }),
    else_branch: subgraph({
      nodes: [node('Neg', ['x'], ['inner']), node('Add', ['inner', 'shift'], ['result'])],
      outputs: [value('result')],
    }),
  };

  test('by an input', async () => {
    const session = await open({
      inputs: [value('x', ['n']), value('condition', [], 'bool')],
      initializers: [tensor('shift', [], [0.5])],
      nodes: [node('If', ['condition'], ['y'], branches)],
      outputs: [value('y')],
    });
    for (const [truth, elements] of [
      [true, [10, 20]],
      [false, [-0.5, -1.5]],
      [true, [10, 20]],
    ] as const) {
      const { y } = await outcome(session, { x: floats(1, 2), condition: bool(truth) });
      expect(y).toEqual({ dims: [2], elements });
    }
  });

  test('by the dims, so that only one branch is compiled', async () => {
    const session = await open({
      inputs: [value('x', ['n'])],
      initializers: [tensor('shift', [], [0.5]), tensor('three', [], [3], 'int64')],
      nodes: [
        node('Size', ['x'], ['size']),
        node('Less', ['size', 'three'], ['condition']),
        node('If', ['condition'], ['y'], branches),
      ],
      outputs: [value('y')],
    });
    expect((await outcome(session, { x: floats(1, 2) })).y!.elements).toEqual([10, 20]);
    expect((await outcome(session, { x: floats(1, 2, 3) })).y!.elements).toEqual([-0.5, -1.5, -2.5]);
    const { steps } = await session.explain({ x: [2] });
    expect(steps.map(({ kind }) => kind)).toEqual(['elementwise']);
  });

  test('by what the network computes, also in runSync once both were run', async () => {
    const session = await open({
      inputs: [value('x', ['n'])],
      initializers: [tensor('shift', [], [0.5]), tensor('zero', [], [0])],
      nodes: [
        node('ReduceSum', ['x'], ['sum'], { keepdims: 0 }),
        node('Greater', ['sum', 'zero'], ['condition']),
        node('If', ['condition'], ['y'], branches),
      ],
      outputs: [value('y'), value('sum')],
    });
    const [positive, negative] = [{ x: floats(3, -1) }, { x: floats(-3, 1) }];
    expect(await outcome(session, positive)).toEqual({
      y: { dims: [2], elements: [30, -10] },
      sum: { dims: [], elements: [2] },
    });
    expect((await outcome(session, negative)).y!.elements).toEqual([3.5, -0.5]);
    expect(Array.from(session.runSync(positive).y!.data as Float32Array)).toEqual([30, -10]);
    expect(Array.from(session.runSync(negative).y!.data as Float32Array)).toEqual([3.5, -0.5]);
  });

  test('within another, whose branch needs what is computed in it', async () => {
    const inner = {
      then_branch: subgraph({ nodes: [node('Identity', ['own'], ['a'])], outputs: [value('a')] }),
      else_branch: subgraph({ nodes: [node('Abs', ['own'], ['a'])], outputs: [value('a')] }),
    };
    const session = await open({
      inputs: [value('x', ['n'])],
      initializers: [tensor('zero', [], [0])],
      nodes: [
        node('ReduceMax', ['x'], ['most'], { keepdims: 0 }),
        node('Greater', ['most', 'zero'], ['outer']),
        node('If', ['outer'], ['y'], {
          then_branch: subgraph({
            nodes: [
              node('Add', ['x', 'x'], ['own']),
              node('ReduceMin', ['own'], ['least'], { keepdims: 0 }),
              node('Greater', ['least', 'zero'], ['isPositive']),
              node('If', ['isPositive'], ['z'], inner),
            ],
            outputs: [value('z')],
          }),
          else_branch: subgraph({ nodes: [node('Identity', ['zero'], ['z'])], outputs: [value('z')] }),
        }),
      ],
      outputs: [value('y')],
    });
    expect((await outcome(session, { x: floats(1, 2) })).y!.elements).toEqual([2, 4]);
    expect((await outcome(session, { x: floats(-1, 2) })).y!.elements).toEqual([2, 4]);
    expect((await outcome(session, { x: floats(-1, -2) })).y).toEqual({ dims: [], elements: [0] });
  });

  test.each([
    ['has no other branch', { then_branch: branches.then_branch }],
    ['has none', {}],
  ])('that %s is refused when it is needed', async (_, given) => {
    const session = await open({
      inputs: [value('x', ['n']), value('condition', [], 'bool')],
      initializers: [tensor('shift', [], [0.5])],
      nodes: [node('If', ['condition'], ['y'], given)],
      outputs: [value('y')],
    });
    const run = session.run({ x: floats(1), condition: bool(false) });
    await expect(run).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: "If 'If#0' has not both branches; compiled for 'x' [1]",
    });
  });

  test('of operators that are not supported is refused at once, in either branch', async () => {
    const odd = (name: string) => subgraph({ nodes: [node(name, ['x'], ['o'])], outputs: [value('o')] });
    const opened = open({
      inputs: [value('x', ['n']), value('condition', [], 'bool')],
      nodes: [node('If', ['condition'], ['y'], { then_branch: odd('Odd'), else_branch: odd('Even') })],
      outputs: [value('y')],
    });
    await expect(opened).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringMatching(/2 operators .*\n {2}Odd: 'Odd#1'\n {2}Even: 'Even#2'/) as string,
    });
  });
});

describe('Loop', () => {
  /** carried = carried * factor; it goes on while that is below the limit; scanned is the number of the round plus x. */
  const body = subgraph({
    inputs: [value('round', [], 'int64'), value('goesOn', [], 'bool'), value('carried')],
    nodes: [
      node('Mul', ['carried', 'factor'], ['next']),
      node('ReduceMax', ['next'], ['most'], { keepdims: 0 }),
      node('Less', ['most', 'limit'], ['again']),
      node('Cast', ['round'], ['number'], { to: 1 }),
      node('Add', ['x', 'number'], ['scanned']),
    ],
    outputs: [value('again'), value('next'), value('scanned')],
  });
  const looping: OnnxModel = {
    inputs: [value('x', ['n']), value('trips', [], 'int64'), value('condition', [], 'bool')],
    initializers: [tensor('factor', [], [2]), tensor('limit', [], [50])],
    nodes: [
      node('Loop', ['trips', 'condition', 'x'], ['last', 'all'], { body }),
      node('Neg', ['last'], ['y']),
    ],
    outputs: [value('y'), value('all')],
  };
  const feeds = (trips: number, truth = true) => ({
    x: floats(1, 3),
    trips: int64([], trips),
    condition: bool(truth),
  });

  test('as often as it says, or until its condition ends it', async () => {
    const session = await open(looping);
    expect(await outcome(session, feeds(3))).toEqual({
      y: { dims: [2], elements: [-8, -24] },
      all: { dims: [3, 2], elements: [1, 3, 2, 4, 3, 5] },
    });
    const { y, all } = await outcome(session, feeds(100));
    expect([y!.elements, all!.dims]).toEqual([
      [-32, -96],
      [5, 2],
    ]);
    expect((await outcome(session, feeds(3, false))).y!.elements).toEqual([-1, -3]);
    expect(Array.from(session.runSync(feeds(3)).y!.data as Float32Array)).toEqual([-8, -24]);
  });

  test('several at once, each with its own count', async () => {
    const session = await open(looping);
    const runs = [1, 2, 3, 4].map((trips) => outcome(session, feeds(trips)));
    const results = await Promise.all(runs);
    expect(results.map(({ y }) => y!.elements[0])).toEqual([-2, -4, -8, -16]);
  });

  test('a signal ends it between two rounds', async () => {
    const session = await open({
      ...looping,
      initializers: [tensor('factor', [], [1]), tensor('limit', [], [50])],
    });
    const run = session.run(feeds(1e9), { signal: AbortSignal.timeout(100) });
    await expect(run).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  });
});

test('Scan goes through sequences along any axis, in either direction', async () => {
  const session = await open({
    inputs: [value('start', ['n']), value('x', ['n', 't'])],
    nodes: [
      node('Scan', ['start', 'x'], ['last', 'sums'], {
        num_scan_inputs: 1,
        scan_input_axes: [1],
        scan_input_directions: [1],
        scan_output_axes: [1],
        body: subgraph({
          inputs: [value('sum'), value('one')],
          nodes: [node('Add', ['sum', 'one'], ['total']), node('Identity', ['total'], ['each'])],
          outputs: [value('total'), value('each')],
        }),
      }),
    ],
    outputs: [value('last'), value('sums')],
  });
  const x = new Tensor('float32', Float32Array.from([1, 2, 3, 10, 20, 30]), [2, 3]);
  expect(await outcome(session, { start: floats(0, 100), x })).toEqual({
    last: { dims: [2], elements: [6, 160] },
    sums: { dims: [2, 3], elements: [3, 5, 6, 130, 150, 160] },
  });
});

describe('Scan of opset 8', () => {
  /** The first sequence backwards and the second forwards: sum += x y, and x y for each step. */
  const model = (inputs: string[], attributes: Record<string, readonly number[]> = {}): OnnxModel => ({
    opset: 8,
    inputs: [
      ...(inputs[0] === '' ? [] : [value('lengths', ['b'], 'int64')]),
      value('start', ['b']),
      value('x', ['b', 't', 2]),
      value('y', ['b', 't', 2]),
    ],
    nodes: [
      node('Scan', inputs, ['last', 'products'], {
        num_scan_inputs: 2,
        ...attributes,
        body: subgraph({
          inputs: [value('sum'), value('a'), value('b')],
          nodes: [
            node('Mul', ['a', 'b'], ['product']),
            node('ReduceSum', ['product'], ['dot'], { keepdims: 0 }),
            node('Add', ['sum', 'dot'], ['next']),
          ],
          outputs: [value('next'), value('product')],
        }),
      }),
    ],
    outputs: [value('last'), value('products')],
  });
  const x = new Tensor('float32', Float32Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), [2, 3, 2]);
  const y = new Tensor('float32', Float32Array.from([1, 1, 2, 2, 3, 3, 1, 0, 0, 1, 5, 5]), [2, 3, 2]);
  const start = floats(1000, 2000);

  test('batches, forwards', async () => {
    const session = await open(model(['', 'start', 'x', 'y']));
    expect(await outcome(session, { start, x, y })).toEqual({
      last: { dims: [2], elements: [1000 + 3 + 14 + 33, 2000 + 7 + 10 + 115] },
      products: { dims: [2, 3, 2], elements: [1, 2, 6, 8, 15, 18, 7, 0, 0, 10, 55, 60] },
    });
  });

  test('of lengths that a run brings, one of them backwards from its own end', async () => {
    const session = await open(model(['lengths', 'start', 'x', 'y'], { directions: [1, 0] }));
    const lengths = int64([2], 2, 3);
    // x is [3, 4], [1, 2] for the first batch, and [11, 12], [9, 10], [7, 8] for the second.
    expect(await outcome(session, { lengths, start, x, y })).toEqual({
      last: { dims: [2], elements: [1000 + 7 + 6, 2000 + 11 + 10 + 75] },
      products: { dims: [2, 3, 2], elements: [3, 4, 2, 4, 0, 0, 11, 0, 0, 10, 35, 40] },
    });
    const none = await outcome(session, { lengths: int64([2], 0, 1), start, x, y });
    expect(none).toEqual({
      last: { dims: [2], elements: [1000, 2007] },
      products: { dims: [2, 3, 2], elements: [0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0] },
    });
  });

  test.each([
    ['lengths beyond the sequences', [2, 4], 'has sequence_lens [2, 4] for 2 sequences of 3 steps'],
    ['negative lengths', [-1, 1], 'has sequence_lens [-1, 1] for 2 sequences of 3 steps'],
  ])('refuses %s', async (_, lengths, message) => {
    const session = await open(model(['lengths', 'start', 'x', 'y']));
    await expect(session.run({ lengths: int64([2], ...lengths), start, x, y })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: `Scan 'Scan#0' ${message}`,
    });
  });

  test('refuses as many directions as there are no sequences for', async () => {
    const session = await open(model(['', 'start', 'x', 'y'], { directions: [1] }));
    await expect(session.run({ start, x, y })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: "Scan 'Scan#0' has directions [1]; it takes 2 of them",
    });
  });
});

describe('dims that a run finds', () => {
  test('NonZero, and what is taken by it', async () => {
    const session = await open({
      inputs: [value('x', ['n'])],
      initializers: [tensor('zero', [], [0]), tensor('flat', [1], [-1], 'int64')],
      nodes: [
        node('Greater', ['x', 'zero'], ['mask']),
        node('NonZero', ['mask'], ['found']),
        node('Reshape', ['found', 'flat'], ['places']),
        node('Gather', ['x', 'places'], ['y']),
        node('Shape', ['y'], ['count']),
      ],
      outputs: [value('y'), value('count')],
    });
    for (const [given, kept] of [
      [
        [1, -2, 3],
        [1, 3],
      ],
      [[-1, -2, 3], [3]],
      [[-1, -2, -3], []],
      [
        [1, -2, 3, 4],
        [1, 3, 4],
      ],
    ] as const) {
      expect(await outcome(session, { x: floats(...given) })).toEqual({
        y: { dims: [kept.length], elements: kept },
        count: { dims: [1], elements: [kept.length] },
      });
    }
  });

  test('NonMaxSuppression behind a network', async () => {
    const session = await open({
      inputs: [value('corners', ['n', 4]), value('scores', ['n'])],
      initializers: [
        tensor('scale', [], [10]),
        tensor('batch', [1], [0], 'int64'),
        tensor('axes', [2], [0, 1], 'int64'),
        tensor('most', [], [2], 'int64'),
        tensor('overlap', [], [0.5]),
        tensor('least', [], [0.3]),
        tensor('last', [], [2], 'int64'),
      ],
      nodes: [
        node('Mul', ['corners', 'scale'], ['scaled']),
        node('Unsqueeze', ['scaled', 'batch'], ['boxes']),
        node('Unsqueeze', ['scores', 'axes'], ['byClass']),
        node('NonMaxSuppression', ['boxes', 'byClass', 'most', 'overlap', 'least'], ['chosen']),
        node('Gather', ['chosen', 'last'], ['places'], { axis: 1 }),
        node('Gather', ['scaled', 'places'], ['y']),
      ],
      outputs: [value('chosen'), value('y')],
    });
    const corners = new Tensor(
      'float32',
      Float32Array.from([0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 2, 1, 3, 5, 5, 6, 6]),
      [4, 4],
    );
    const { chosen, y } = await outcome(session, { corners, scores: floats(0.8, 0.9, 0.1, 0.5) });
    expect(chosen).toEqual({ dims: [2, 3], elements: [0, 0, 1, 0, 0, 3] });
    expect(y!.dims).toEqual([2, 4]);
    expect(y!.elements.map((one) => Math.round(one))).toEqual([0, 1, 10, 11, 50, 50, 60, 60]);
  });

  test('a Reshape to what the network computes', async () => {
    const session = await open({
      inputs: [value('x', [6]), value('rows', [1])],
      initializers: [tensor('rest', [1], [-1], 'int64')],
      nodes: [
        node('Cast', ['rows'], ['count'], { to: 7 }),
        node('Concat', ['count', 'rest'], ['dims'], { axis: 0 }),
        node('Reshape', ['x', 'dims'], ['y']),
      ],
      outputs: [value('y')],
    });
    const x = floats(1, 2, 3, 4, 5, 6);
    expect((await outcome(session, { x, rows: floats(2) })).y!.dims).toEqual([2, 3]);
    expect((await outcome(session, { x, rows: floats(3) })).y!.dims).toEqual([3, 2]);
    await expect(session.run({ x, rows: floats(4) })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
    });
    // What failed leaves the session as it was.
    expect((await outcome(session, { x, rows: floats(2) })).y!.dims).toEqual([2, 3]);
  });

  test('by a node with an output without a name, before one with an input that is left out', async () => {
    const session = await open({
      inputs: [value('x', ['n'])],
      initializers: [tensor('most', [], [2])],
      nodes: [
        node('Unique', ['x'], ['values', '', '', 'counts']),
        node('Clip', ['values', '', 'most'], ['y']),
      ],
      outputs: [value('y'), value('counts', undefined, 'int64')],
    });
    expect(await outcome(session, { x: floats(3, 1, 1) })).toEqual({
      y: { dims: [2], elements: [1, 2] },
      counts: { dims: [2], elements: [2, 1] },
    });
  });

  test('end with the session, runs under way before it', async () => {
    const session = await open({
      inputs: [value('x', ['n'])],
      nodes: [node('NonZero', ['x'], ['y'])],
      outputs: [value('y')],
    });
    const run = outcome(session, { x: floats(1, 0, 1) });
    await session.release();
    expect((await run).y).toEqual({ dims: [1, 2], elements: [0, 2] });
    await expect(session.run({ x: floats(1) })).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });
});

test('a comparison with an input compiles nothing anew for other elements', async () => {
  const session = await open({
    inputs: [value('x', ['n']), value('bound', [1])],
    initializers: [tensor('zero', [], [0])],
    nodes: [node('Less', ['x', 'bound'], ['mask']), node('Where', ['mask', 'zero', 'x'], ['y'])],
    outputs: [value('y')],
  });
  expect((await outcome(session, { x: floats(1, 2, 3), bound: floats(2) })).y!.elements).toEqual([0, 2, 3]);
  // Nothing is compiled here.
  const results = session.runSync({ x: floats(1, 2, 3), bound: floats(3) });
  expect(Array.from(results.y!.data as Float32Array)).toEqual([0, 0, 3]);
});
