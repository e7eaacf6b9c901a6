/** ONNX's operators of attention that came last, against their definitions: token by token, and head by head. */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import {
  float,
  node,
  onnxModel,
  subgraph,
  tensor,
  value,
  type AttributeValue,
  type OnnxModel,
  type OnnxType,
} from '../support/onnx_builder';
import { Random } from '../support/random';

interface Given {
  readonly dims: readonly number[];
  readonly data: readonly number[];
}

type Made = Record<string, { readonly type: string; readonly dims: number[]; readonly data: number[] }>;

const { fround } = Math;
const sizeOf = (dims: readonly number[]) => dims.reduce((product, extent) => product * extent, 1);
const range = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Numbers of float32 between two others. */
function drawn(random: Random, dims: readonly number[], low = -1, high = 1): Given {
  return { dims, data: range(sizeOf(dims)).map(() => fround(low + (high - low) * random.uniform())) };
}

async function run(model: OnnxModel, feeds: Readonly<Record<string, Given>>): Promise<Made> {
  const bytes = onnxModel({ opset: 27, irVersion: 13, ...model });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const tensors = Object.entries(feeds).map(
    ([name, { dims, data }]) => [name, new Tensor('float32', Float32Array.from(data), dims)] as const,
  );
  const results = await session.run(Object.fromEntries(tensors));
  return Object.fromEntries(
    Object.entries(results).map(([name, { type, dims, data }]) => [
      name,
      { type, dims: [...dims], data: Array.from(data as Float32Array, Number) },
    ]),
  );
}

/** float32 rounds by 2^-24 of a number; some hundred roundings in a row are behind an element here. */
const TOLERANCE = 2 ** -17;

function expectClose(made: Made[string], expected: Given, tolerance = TOLERANCE): void {
  expect(made.dims).toEqual(expected.dims);
  const largest = Math.max(...expected.data.map(Math.abs), 0);
  const off = made.data.map((x, i) => Math.abs(x - expected.data[i]!));
  // Written so that NaN fails.
  expect(off.every((one) => one <= tolerance * largest)).toBe(true);
}

describe('LinearAttention', () => {
  const RULES = ['linear', 'gated', 'delta', 'gated_delta'] as const;

  interface Problem {
    readonly rule: (typeof RULES)[number];
    readonly batch?: number;
    readonly tokens: number;
    readonly heads: number;
    readonly queryHeads: number;
    readonly keySize: number;
    readonly valueSize: number;
    readonly hasPast?: boolean;
    readonly isDecayOfVectors?: boolean;
    readonly hasOneRate?: boolean;
    readonly scale?: number;
  }

  /** Each key of length one, and rates below one: so the delta rule forgets, and does not grow. */
  function feedsOf(problem: Problem, seed: number): Record<string, Given> {
    const { rule, batch = 1, tokens, heads, queryHeads, keySize, valueSize } = problem;
    const random = new Random(seed);
    const key = drawn(random, [batch, tokens, heads * keySize]);
    const lengths = range(key.data.length / keySize).map((i) =>
      Math.hypot(...key.data.slice(i * keySize, (i + 1) * keySize)),
    );
    const decaySize = problem.isDecayOfVectors ? heads * keySize : heads;
    return {
      query: drawn(random, [batch, tokens, queryHeads * keySize]),
      key: { ...key, data: key.data.map((x, i) => fround(x / lengths[Math.floor(i / keySize)]!)) },
      value: drawn(random, [batch, tokens, heads * valueSize]),
      ...(problem.hasPast ? { past: drawn(random, [batch, heads, keySize, valueSize]) } : {}),
      ...(rule.startsWith('gated') ? { decay: drawn(random, [batch, tokens, decaySize], -0.3, 0) } : {}),
      ...(rule.endsWith('delta')
        ? { beta: drawn(random, [batch, tokens, problem.hasOneRate ? 1 : heads], 0, 1) }
        : {}),
    };
  }

  const NAMES = ['query', 'key', 'value', 'past', 'decay', 'beta'];

  function modelOf(problem: Problem, feeds: Readonly<Record<string, Given>>): OnnxModel {
    const { rule, heads, queryHeads, scale } = problem;
    const names = NAMES.map((name) => (name in feeds ? name : ''));
    while (names.at(-1) === '') names.pop();
    const attributes: Record<string, AttributeValue> = {
      update_rule: rule,
      q_num_heads: queryHeads,
      kv_num_heads: heads,
      ...(scale === undefined ? {} : { scale: float(scale) }),
    };
    return {
      inputs: Object.entries(feeds).map(([name, { dims }]) => value(name, dims)),
      nodes: [node('LinearAttention', names, ['y', 'state'], attributes)],
      outputs: [value('y'), value('state')],
    };
  }

  /** By the recurrence, in doubles. */
  function expected(problem: Problem, feeds: Readonly<Record<string, Given>>): { y: Given; state: Given } {
    const { rule, batch = 1, tokens, heads, queryHeads, keySize, valueSize } = problem;
    const scale = problem.scale ?? 1 / Math.sqrt(keySize);
    const y = new Array<number>(batch * tokens * queryHeads * valueSize);
    const states: number[] = [];
    const at = (name: string, b: number, t: number, i: number) => {
      const { dims, data } = feeds[name]!;
      return data[(b * tokens + t) * dims[2]! + i]!;
    };
    for (let b = 0; b < batch; b++) {
      for (let h = 0; h < heads; h++) {
        const first = (b * heads + h) * keySize * valueSize;
        const state = range(keySize).map((d) =>
          range(valueSize).map((m) => feeds.past?.data[first + d * valueSize + m] ?? 0),
        );
        for (let t = 0; t < tokens; t++) {
          const key = range(keySize).map((d) => at('key', b, t, h * keySize + d));
          const decay = range(keySize).map((d) => {
            if (feeds.decay === undefined) return 1;
            return Math.exp(at('decay', b, t, problem.isDecayOfVectors ? h * keySize + d : h));
          });
          state.forEach((row, d) => row.forEach((x, m) => (row[m] = x * decay[d]!)));
          for (let m = 0; m < valueSize; m++) {
            let written = at('value', b, t, h * valueSize + m);
            if (rule.endsWith('delta')) {
              const known = state.reduce((sum, row, d) => sum + row[m]! * key[d]!, 0);
              written = at('beta', b, t, problem.hasOneRate ? 0 : h) * (written - known);
            }
            state.forEach((row, d) => (row[m]! += key[d]! * written));
          }
          for (let q = (h * queryHeads) / heads; q < ((h + 1) * queryHeads) / heads; q++) {
            for (let m = 0; m < valueSize; m++) {
              const read = state.reduce(
                (sum, row, d) => sum + row[m]! * at('query', b, t, q * keySize + d),
                0,
              );
              y[((b * tokens + t) * queryHeads + q) * valueSize + m] = scale * read;
            }
          }
        }
        states.push(...state.flat());
      }
    }
    return {
      y: { dims: [batch, tokens, queryHeads * valueSize], data: y },
      state: { dims: [batch, heads, keySize, valueSize], data: states },
    };
  }

  const small = { heads: 2, queryHeads: 4, keySize: 5, valueSize: 3 } as const;

  describe.each(RULES)('%s', (rule) => {
    test.each([
      ['one token', { ...small, tokens: 1, hasPast: true }],
      ['no past', { ...small, tokens: 1 }],
      ['part of a chunk', { ...small, batch: 2, tokens: 13, hasPast: true, scale: 0.7 }],
      ['a chunk and a token', { ...small, tokens: 65 }],
      [
        'several chunks of many channels',
        {
          ...{ tokens: 200, heads: 1, queryHeads: 1, keySize: 32, valueSize: 40, hasPast: true },
        },
      ],
      [
        'queries of one head, and one rate for all',
        {
          ...{ batch: 2, tokens: 130, heads: 3, queryHeads: 3, keySize: 4, valueSize: 4, hasOneRate: true },
        },
      ],
      ['a decay of each element', { ...small, batch: 2, tokens: 37, isDecayOfVectors: true, hasPast: true }],
      ['a decay of the only element', { ...small, tokens: 5, keySize: 1, isDecayOfVectors: true }],
    ])('%s', async (_, sizes) => {
      const problem: Problem = { rule, ...sizes };
      const feeds = feedsOf(problem, 7);
      const made = await run(modelOf(problem, feeds), feeds);
      const { y, state } = expected(problem, feeds);
      expectClose(made.y!, y);
      expectClose(made.state!, state);
    });
  });

  test('keys that are all alike, at the full rate: the inverse does not lose what the recurrence has', async () => {
    const problem: Problem = {
      rule: 'delta',
      tokens: 128,
      heads: 1,
      queryHeads: 1,
      keySize: 8,
      valueSize: 8,
    };
    const given = feedsOf(problem, 3);
    const key = { ...given.key!, data: given.key!.data.map((_, i) => given.key!.data[i % 8]!) };
    const beta = { ...given.beta!, data: given.beta!.data.map(() => 1) };
    const feeds = { ...given, key, beta };
    const made = await run(modelOf(problem, feeds), feeds);
    const { y, state } = expected(problem, feeds);
    expectClose(made.y!, y);
    expectClose(made.state!, state);
  });

  test.each([false, true])(
    'decays to nothing, and to less than float32 has: of vectors %j',
    async (isDecayOfVectors) => {
      const problem: Problem = { ...small, rule: 'gated_delta', tokens: 70, isDecayOfVectors, hasPast: true };
      const given = feedsOf(problem, 5);
      const steep = (_: number, i: number) =>
        i % 7 === 0 ? -Infinity : i % 5 === 0 ? -90 : i % 3 === 0 ? 0 : -1e-3;
      const feeds = { ...given, decay: { ...given.decay!, data: given.decay!.data.map(steep) } };
      const made = await run(modelOf(problem, feeds), feeds);
      const { y, state } = expected(problem, feeds);
      expectClose(made.y!, y);
      expectClose(made.state!, state);
    },
  );

  test('more at once than there is room for goes chunk by chunk', async () => {
    // 16 * 16 * 64 elements for each of 128 heads are half of what is computed at once.
    const problem: Problem = {
      ...{ rule: 'gated_delta', tokens: 50, heads: 128, queryHeads: 128, keySize: 64, valueSize: 1 },
      isDecayOfVectors: true,
    };
    const feeds = feedsOf(problem, 11);
    const made = await run(modelOf(problem, feeds), feeds);
    const { y, state } = expected(problem, feeds);
    expectClose(made.y!, y);
    expectClose(made.state!, state);
  });

  test('sequences of no tokens leave the state as it is', async () => {
    const problem: Problem = { ...small, rule: 'gated_delta', tokens: 0, hasPast: true };
    const feeds = feedsOf(problem, 2);
    const made = await run(modelOf(problem, feeds), feeds);
    expect(made.y!.dims).toEqual([1, 0, 12]);
    expect(made.state!.data).toEqual(feeds.past!.data);
  });

  test("the state is of the past's type, the output of the query's", async () => {
    const problem: Problem = { ...small, rule: 'linear', tokens: 3, hasPast: true };
    const feeds = feedsOf(problem, 2);
    const types: Record<string, OnnxType> = {
      query: 'float16',
      key: 'float16',
      value: 'float16',
      past: 'float32',
    };
    const number = { float16: 10, float32: 1 } as Record<string, number>;
    const model = modelOf(problem, feeds);
    const casts = Object.keys(feeds).map((name) =>
      node('Cast', [name], [`${name}_`], { to: number[types[name]!]! }),
    );
    const [attention] = model.nodes!;
    const renamed = { ...attention!, input: attention!.input.map((name) => `${name}_`) };
    const made = await run({ ...model, nodes: [...casts, renamed] }, feeds);
    expect([made.y!.type, made.state!.type]).toEqual(['float16', 'float32']);
  });

  test.each<[string, Partial<Problem>, (feeds: Record<string, Given>) => Record<string, Given>, string]>([
    [
      'no rate',
      { rule: 'delta' },
      ({ beta: _, ...rest }) => rest,
      "lacks its input 5, 'beta', with the update_rule 'delta'",
    ],
    [
      'a decay',
      { rule: 'gated' },
      (feeds) => feeds,
      "has its input 4, 'decay', with the update_rule 'linear'",
    ],
    [
      'an odd decay',
      { rule: 'gated' },
      (feeds) => ({ ...feeds, decay: drawn(new Random(1), [1, 3, 3]) }),
      'takes 2 or 10 elements a token as its input 4, got float32[1,3,3]',
    ],
    [
      'an odd past',
      { rule: 'linear' },
      (feeds) => ({ ...feeds, past: drawn(new Random(1), [1, 2, 3, 5]) }),
      'takes dims [1, 2, 5, 3] as its input 3, got float32[1,2,3,5]',
    ],
    [
      'heads that do not fit',
      { rule: 'linear', queryHeads: 3 },
      (feeds) => feeds,
      'has 3 heads of queries for 2 of keys',
    ],
  ])('refuses %s', async (what, changed, change, message) => {
    const problem: Problem = { ...small, rule: 'linear', tokens: 3, ...changed };
    const feeds = change(feedsOf(problem, 1));
    const said: Problem = what === 'a decay' ? { ...problem, rule: 'linear' } : problem;
    await expect(run(modelOf(said, feeds), feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringContaining(message) as string,
    });
  });

  test('refuses sequences that would make too many steps', async () => {
    const problem: Problem = {
      rule: 'linear',
      tokens: 2 ** 20 + 1,
      heads: 1,
      queryHeads: 1,
      keySize: 1,
      valueSize: 1,
    };
    const feeds = feedsOf(problem, 1);
    await expect(run(modelOf(problem, feeds), feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringContaining('has sequences of 1048577 tokens; here it can have 1048576') as string,
    });
  });
});

describe('CausalConvWithState', () => {
  /** By the definition, in doubles. */
  function expected(x: Given, w: Given, bias: Given | undefined, past: Given | undefined, isSilu: boolean) {
    const [batch, channels, length] = x.dims as [number, number, number];
    const taps = w.dims[2]!;
    const y: number[] = [];
    const state: number[] = [];
    for (let row = 0; row < batch * channels; row++) {
      const before =
        past?.data.slice(row * (taps - 1), (row + 1) * (taps - 1)) ?? new Array<number>(taps - 1).fill(0);
      const whole = [...before, ...x.data.slice(row * length, (row + 1) * length)];
      const channel = row % channels;
      for (let t = 0; t < length; t++) {
        const sum = range(taps).reduce(
          (total, r) => total + whole[t + r]! * w.data[channel * taps + r]!,
          bias?.data[channel] ?? 0,
        );
        y.push(isSilu ? sum / (1 + Math.exp(-sum)) : sum);
      }
      state.push(...whole.slice(length));
    }
    return { y: { dims: x.dims, data: y }, state: { dims: [batch, channels, taps - 1], data: state } };
  }

  test.each([
    { length: 9, taps: 4, hasBias: true, hasPast: true, activation: 'silu' },
    { length: 9, taps: 4, hasBias: false, hasPast: false, activation: 'none' },
    { length: 1, taps: 5, hasBias: true, hasPast: true, activation: 'swish' },
    { length: 2, taps: 5, hasBias: false, hasPast: false, activation: undefined },
    { length: 6, taps: 1, hasBias: false, hasPast: true, activation: undefined },
  ])('%j', async ({ length, taps, hasBias, hasPast, activation }) => {
    const random = new Random(length);
    const [batch, channels] = [2, 3];
    const x = drawn(random, [batch, channels, length]);
    const w = drawn(random, [channels, 1, taps]);
    const bias = hasBias ? drawn(random, [channels]) : undefined;
    const past = hasPast ? drawn(random, [batch, channels, taps - 1]) : undefined;
    const feeds = { x, w, ...(bias && { bias }), ...(past && { past }) };
    const names = ['x', 'w', hasBias ? 'bias' : '', hasPast ? 'past' : ''];
    const attributes: Record<string, AttributeValue> = activation === undefined ? {} : { activation };
    const made = await run(
      {
        inputs: Object.entries(feeds).map(([name, { dims }]) => value(name, dims)),
        nodes: [node('CausalConvWithState', names, ['y', 'state'], attributes)],
        outputs: [value('y'), value('state')],
      },
      feeds,
    );
    const { y, state } = expected(x, w, bias, past, activation === 'silu' || activation === 'swish');
    expectClose(made.y!, y);
    // Positions are copied.
    expect(made.state).toEqual({ type: 'float32', ...state });
  });

  test.each([
    ['a filter of two inputs', [3, 2, 4], [2, 3, 3], 'has float32[3,2,4] for one filter a channel'],
    ['an odd past', [3, 1, 4], [2, 3, 4], 'takes dims [2, 3, 3] as its input 3, got float32[2,3,4]'],
  ])('refuses %s', async (_, weight, past, message) => {
    const random = new Random(1);
    const feeds = { x: drawn(random, [2, 3, 5]), w: drawn(random, weight), past: drawn(random, past) };
    const model = {
      inputs: Object.entries(feeds).map(([name, { dims }]) => value(name, dims)),
      nodes: [node('CausalConvWithState', ['x', 'w', '', 'past'], ['y'])],
      outputs: [value('y')],
    };
    await expect(run(model, feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringContaining(message) as string,
    });
  });
});

describe('FlexAttention', () => {
  const [batch, queryHeads, heads, length, keys, size, width] = [2, 4, 2, 3, 5, 4, 6];
  type Change = (rows: number[], b: number, h: number, i: number) => number[];

  /** By the definition, in doubles; changes are of rows of scores and of weights. */
  function expected(
    { q, k, v }: Record<string, Given>,
    scale: number,
    ofScores: Change,
    ofWeights: Change,
  ): Given {
    const data: number[] = [];
    for (let b = 0; b < batch; b++) {
      for (let h = 0; h < queryHeads; h++) {
        const shared = b * heads + Math.floor((h * heads) / queryHeads);
        for (let i = 0; i < length; i++) {
          const raw = range(keys).map((j) =>
            range(size).reduce(
              (sum, d) =>
                sum +
                q!.data[((b * queryHeads + h) * length + i) * size + d]! *
                  k!.data[(shared * keys + j) * size + d]!,
              0,
            ),
          );
          const scores = ofScores(
            raw.map((x) => x * scale),
            b,
            h,
            i,
          );
          const most = Math.max(...scores);
          const powers = scores.map((x) => Math.exp(x - most));
          const total = powers.reduce((a, x) => a + x, 0);
          const weights = ofWeights(
            powers.map((x) => x / total),
            b,
            h,
            i,
          );
          for (let m = 0; m < width; m++) {
            data.push(
              weights.reduce((sum, weight, j) => sum + weight * v!.data[(shared * keys + j) * width + m]!, 0),
            );
          }
        }
      }
    }
    return { dims: [batch, queryHeads, length, width], data };
  }

  const random = new Random(9);
  const feeds = {
    q: drawn(random, [batch, queryHeads, length, size]),
    k: drawn(random, [batch, heads, keys, size]),
    v: drawn(random, [batch, heads, keys, width]),
  };
  const same: Change = (row) => row;

  function modelOf(attributes: Record<string, AttributeValue>, more: Partial<OnnxModel> = {}): OnnxModel {
    return {
      opset: 26,
      domains: { 'ai.onnx.preview': 1 },
      inputs: Object.entries(feeds).map(([name, { dims }]) => value(name, dims)),
      outputs: [value('y')],
      ...more,
      nodes: [
        ...(more.nodes ?? []),
        node('FlexAttention', ['q', 'k', 'v'], ['y'], attributes, { domain: 'ai.onnx.preview' }),
      ],
    };
  }

  test('without graphs, keys shared by groups of heads', async () => {
    const made = await run(modelOf({}), feeds);
    expectClose(made.y!, expected(feeds, 1 / Math.sqrt(size), same, same));
  });

  test('scores and weights are changed by graphs that read what is around them', async () => {
    const bias = drawn(new Random(4), [length, keys]);
    const mod = {
      // Both call their values the same.
      score_mod: subgraph({
        inputs: [value('t')],
        nodes: [node('Add', ['t', 'twice'], ['u']), node('Tanh', ['u'], ['r'])],
        outputs: [value('r')],
      }),
      prob_mod: subgraph({
        inputs: [value('t')],
        initializers: [tensor('u', [], [0.5])],
        nodes: [node('Mul', ['t', 'u'], ['r'])],
        outputs: [value('r')],
      }),
      scale: float(0.75),
    };
    const around = {
      initializers: [tensor('bias', bias.dims, bias.data)],
      nodes: [node('Add', ['bias', 'bias'], ['twice'])],
    };
    const made = await run(modelOf(mod, around), feeds);
    const ofScores: Change = (row, _b, _h, i) =>
      row.map((x, j) => Math.tanh(x + 2 * bias.data[i * keys + j]!));
    expectClose(
      made.y!,
      expected(feeds, 0.75, ofScores, (row) => row.map((x) => x / 2)),
    );
  });

  test('graphs see the type that softmax_precision says', async () => {
    const halved = subgraph({
      inputs: [value('t', undefined, 'float64')],
      initializers: [tensor('half', [], [0.5], 'float64')],
      nodes: [node('Mul', ['t', 'half'], ['r'])],
      outputs: [value('r', undefined, 'float64')],
    });
    const made = await run(modelOf({ score_mod: halved, softmax_precision: 11 }), feeds);
    expect(made.y!.type).toBe('float32');
    expectClose(made.y!, expected(feeds, 0.5 / Math.sqrt(size), same, same));
    await expect(run(modelOf({ score_mod: halved }), feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
    });
  });

  test.each<[string, OnnxModel, string]>([
    [
      'makes other dims',
      { inputs: [value('t')], nodes: [node('ReduceSum', ['t'], ['r'])], outputs: [value('r')] },
      'has a score_mod that makes float32[1,1,1,1] of float32[2,4,3,5]',
    ],
    [
      'takes nothing',
      { nodes: [node('Neg', ['q'], ['r'])], outputs: [value('r')] },
      'has a score_mod of 0 inputs and 1 outputs',
    ],
  ])('refuses a graph that %s', async (_, graph, message) => {
    await expect(run(modelOf({ score_mod: subgraph(graph) }), feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_MODEL',
      message: expect.stringContaining(message) as string,
    });
  });

  test.each([
    [
      'NonZero',
      [node('NonZero', ['t'], ['n']), node('Size', ['n'], ['s']), node('CastLike', ['s', 't'], ['c'])],
    ],
    [
      'Range',
      [
        node('ReduceMax', ['t'], ['c0'], { keepdims: 0 }),
        node('Range', ['c0', 'c0', 'one'], ['e']),
        node('ReduceSum', ['e'], ['c']),
      ],
    ],
  ])('refuses a graph whose %s only a run can compute', async (operator, nodes) => {
    const graph = subgraph({
      inputs: [value('t')],
      initializers: [tensor('one', [], [1])],
      nodes: [...nodes, node('Add', ['t', 'c'], ['r'])],
      outputs: [value('r')],
    });
    await expect(run(modelOf({ score_mod: graph }), feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringMatching(
        new RegExp(`has a score_mod whose node '${operator}#\\d+' needs what only a run knows`),
      ) as string,
    });
  });

  test('an operator within a graph that nothing computes is refused at once', async () => {
    const graph = subgraph({
      inputs: [value('t')],
      nodes: [node('Odd', ['t'], ['r'])],
      outputs: [value('r')],
    });
    await expect(run(modelOf({ prob_mod: graph }), feeds)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringContaining("Odd: 'Odd#") as string,
    });
  });
});
