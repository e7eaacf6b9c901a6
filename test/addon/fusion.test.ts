/**
 * What becomes one step gives what its nodes give one by one, on floats of every magnitude. A node whose result is an
 * output of the network stays a step of its own, so that the network with all results as outputs is the one without
 * fusion. To repeat a failure, set WARPCONV_FUZZ_SEED to the seed that it prints; WARPCONV_FUZZ_CASES=1000 tries more.
 */
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';
import { float, node, onnxModel, tensor, value } from '../support/onnx_builder';
import { Random } from '../support/random';

const firstSeed = Number(process.env.WARPCONV_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));

const CASES = Number(process.env.WARPCONV_FUZZ_CASES ?? 400);

const GREATEST = 3.4028234663852886e38;
const SMALLEST = 2 ** -149;
const CHANNELS = 2;
const PIXELS = 16;

/** The fp32 rule for a convolution, and a few roundings for each node after it. */
const CONVOLUTION_RULE = 4e-6;
const NODE_RULE = 2 ** -21;

/** Of any exponent, or an ordinary one. */
function anyFloat(random: Random): number {
  const sign = random.chance(0.5) ? -1 : 1;
  const exponent = random.chance(0.5) ? random.integer(-4, 4) : random.integer(-140, 127);
  return random.chance(0.05) ? 0 : Math.fround(sign * (1 + random.uniform()) * 2 ** exponent);
}

/** What an error becomes in a node, where `y` is its result without fusion. */
interface Error {
  /** The sum of the magnitudes that were added up: a rounding error is a fraction of it */
  readonly magnitude: number;
  /** What underflow adds */
  readonly absolute: number;
}

interface Link {
  readonly nodes: (from: string, to: string) => ReturnType<typeof node>[];
  readonly constants?: ReturnType<typeof tensor>[];
  /** Of channel `c` */
  readonly error: (before: Error, c: number) => Error;
}

const rounded = ({ magnitude, absolute }: Error): Error => ({ magnitude, absolute: absolute + SMALLEST });
/** After a function that is never steeper than `slope`, and has this magnitude at 0 */
const steep =
  (slope: number, atZero = 0) =>
  ({ magnitude, absolute }: Error): Error =>
    rounded({ magnitude: magnitude * slope + atZero, absolute: absolute * slope });

/** A number for all channels, or one for each. */
function operand(random: Random, name: string) {
  const isOne = random.chance(0.5);
  const numbers = Array.from({ length: isOne ? 1 : CHANNELS }, () => anyFloat(random));
  const dims = isOne ? [] : [CHANNELS, 1, 1];
  return { constants: [tensor(name, dims, numbers)], of: (c: number) => Math.abs(numbers[isOne ? 0 : c]!) };
}

function linear(random: Random, name: string): Link {
  const { constants, of } = operand(random, name);
  const operator = random.pick(['Mul', 'Add', 'Sub', 'Div']);
  return {
    constants,
    nodes: (from, to) => [node(operator, [from, name], [to])],
    error: ({ magnitude, absolute }, c) =>
      operator === 'Mul' || operator === 'Div'
        ? steep(operator === 'Mul' ? of(c) : 1 / of(c))({ magnitude, absolute })
        : rounded({ magnitude: magnitude + of(c), absolute }),
  };
}

function normalization(random: Random, name: string): Link {
  const drawn = { scale: anyFloat, shift: anyFloat, mean: anyFloat, variance: anyFloat };
  const numbers = Object.fromEntries(
    Object.entries(drawn).map(([key, draw]) => [key, Array.from({ length: CHANNELS }, () => draw(random))]),
  ) as Record<keyof typeof drawn, number[]>;
  // Where the factor and what it makes of the mean are no floats, a float32 formula has none either.
  numbers.variance = numbers.variance.map((variance) => Math.fround(1 + Math.min(Math.abs(variance), 1e6)));
  numbers.mean = numbers.mean.map((mean) => Math.max(-1e3, Math.min(1e3, mean)));
  numbers.scale = numbers.scale.map((scale) => Math.max(-1e30, Math.min(1e30, scale)));
  return {
    constants: Object.entries(numbers).map(([key, list]) => tensor(`${name}${key}`, [CHANNELS], list)),
    nodes: (from, to) => [
      node('BatchNormalization', [from, ...Object.keys(numbers).map((key) => `${name}${key}`)], [to]),
    ],
    error: ({ magnitude, absolute }, c) => {
      const factor = Math.abs(numbers.scale[c]!) / Math.sqrt(numbers.variance[c]!);
      const added = Math.abs(numbers.shift[c]!) + Math.abs(numbers.mean[c]!) * factor;
      return rounded({ magnitude: magnitude * factor + added, absolute: absolute * factor });
    },
  };
}

function activation(random: Random, name: string): Link {
  const one = (operator: string, attributes = {}, slope = 1.2, atZero = 0): Link => ({
    nodes: (from, to) => [node(operator, [from], [to], attributes)],
    error: steep(slope, atZero),
  });
  const slope = Math.fround(random.uniform() * 4 - 2);
  const isBelow = random.chance(0.3);
  const bounds = [isBelow ? -GREATEST : anyFloat(random), anyFloat(random)];
  const numbers = [
    tensor(`${name}three`, [], [3]),
    tensor(`${name}six`, [], [6]),
    tensor(`${name}zero`, [], [0]),
  ];
  return random.pick<() => Link>([
    () => one('Relu'),
    () => one('Sigmoid', {}, 0.25, 0.5),
    () => one('HardSwish'),
    () => one('LeakyRelu', { alpha: float(slope) }, Math.max(1, Math.abs(slope))),
    () => ({
      constants: [tensor(`${name}low`, [], [bounds[0]!]), tensor(`${name}high`, [], [bounds[1]!])],
      nodes: (from, to) => [node('Clip', [from, isBelow ? '' : `${name}low`, `${name}high`], [to])],
      error: steep(1, Math.abs(Math.min(Math.max(0, bounds[0]!), bounds[1]!))),
    }),
    () => ({
      nodes: (from, to) => [node('Sigmoid', [from], [`${name}g`]), node('Mul', [from, `${name}g`], [to])],
      error: steep(1.2),
    }),
    () => ({
      nodes: (from, to) => [
        node('HardSigmoid', [from], [`${name}g`], { alpha: float(1 / 6), beta: float(0.5) }),
        node('Mul', [from, `${name}g`], [to]),
      ],
      error: steep(1.6),
    }),
    () => ({
      constants: numbers,
      nodes: (from, to) => [
        node('Add', [from, `${name}three`], [`${name}a`]),
        node('Clip', [`${name}a`, `${name}zero`, `${name}six`], [`${name}b`]),
        node('Div', [`${name}b`, `${name}six`], [`${name}d`]),
        node('Mul', [from, `${name}d`], [to]),
      ],
      error: steep(1.6),
    }),
  ])();
}

function draw(random: Random) {
  const links = Array.from({ length: random.integer(1, 4) }, (_, i) =>
    random.pick([linear, linear, normalization, activation])(random, `c${i}`),
  );
  const weight = Array.from({ length: CHANNELS * CHANNELS }, () => anyFloat(random));
  const bias = random.chance(0.5) ? Array.from({ length: CHANNELS }, () => anyFloat(random)) : undefined;
  const x = Array.from({ length: CHANNELS * PIXELS }, () => (random.chance(0.2) ? 0 : anyFloat(random)));
  return { links, weight, bias, x };
}

type Drawn = ReturnType<typeof draw>;

/** The names of all results, the convolution's first. */
const results = ({ links }: Drawn) => ['t0', ...links.map((_, i) => `t${i + 1}`)];

function nodesOf(drawn: Drawn) {
  const inputs = drawn.bias === undefined ? ['x', 'w'] : ['x', 'w', 'b'];
  return [
    node('Conv', inputs, ['t0']),
    ...drawn.links.flatMap(({ nodes }, i) => nodes(`t${i}`, `t${i + 1}`)),
  ];
}

async function run(drawn: Drawn, nodes: ReturnType<typeof nodesOf>, names: readonly string[]) {
  const bytes = onnxModel({
    inputs: [value('x', [1, CHANNELS, 1, PIXELS])],
    initializers: [
      tensor('w', [CHANNELS, CHANNELS, 1, 1], drawn.weight),
      ...(drawn.bias === undefined ? [] : [tensor('b', [CHANNELS], drawn.bias)]),
      ...drawn.links.flatMap(({ constants }) => constants ?? []),
    ],
    nodes,
    outputs: names.map((name) => value(name)),
  });
  await using session = await InferenceSession.create(bytes, { device: TEST_DEVICE });
  const x = new Tensor('float32', Float32Array.from(drawn.x), [1, CHANNELS, 1, PIXELS]);
  const y = await session.run({ x }, names);
  return names.map((name) => y[name]!.data as Float32Array);
}

/** Magnitudes of the convolution's sum at a pixel. */
function errorOfSum({ weight, bias, x }: Drawn, c: number, pixel: number): Error {
  const products = Array.from({ length: CHANNELS }, (_, i) =>
    Math.abs(weight[c * CHANNELS + i]! * x[i * PIXELS + pixel]!),
  );
  const magnitude = products.reduce((sum, product) => sum + product, Math.abs(bias?.[c] ?? 0));
  return { magnitude, absolute: (CHANNELS + 1) * SMALLEST };
}

async function check(random: Random): Promise<number> {
  const drawn = draw(random);
  const nodes = nodesOf(drawn);
  const names = results(drawn);
  const everything = [...new Set(nodes.flatMap(({ output }) => output))];
  const [fused] = await run(drawn, nodes, names.slice(-1));
  const all = await run(drawn, nodes, everything);
  const apart = all[everything.indexOf(names.at(-1)!)]!;
  let compared = 0;
  for (let i = 0; i < CHANNELS * PIXELS; i++) {
    const c = Math.floor(i / PIXELS);
    const first = errorOfSum(drawn, c, i % PIXELS);
    const errors = drawn.links.reduce((list, link) => [...list, link.error(list.at(-1)!, c)], [first]);
    // Sums whose terms leave float32's range may end in an infinity either way.
    const isInRange = errors.every(({ magnitude }) => magnitude < GREATEST / 2);
    if (!isInRange || !all.every((list) => Number.isFinite(list[i]))) continue;
    const { magnitude, absolute } = errors.at(-1)!;
    const allowed = (CONVOLUTION_RULE + drawn.links.length * NODE_RULE) * magnitude + 4 * absolute;
    compared++;
    if (Math.abs(fused![i]! - apart[i]!) <= allowed) continue;
    const chain = nodes.map(({ opType }) => opType).join(', ');
    throw new Error(
      `element ${i} of ${chain} is ${fused![i]}, and ${apart[i]} node by node; x ${drawn.x[i]}`,
    );
  }
  return compared;
}

test('chains after a convolution give what their nodes give', async () => {
  let compared = 0;
  for (let index = 0; index < CASES; index++) {
    const seed = (firstSeed + index) % 2 ** 32;
    compared += await check(new Random(seed)).catch((error: unknown) => {
      throw new Error(`${String(error)}; repeat with WARPCONV_FUZZ_SEED=${seed}`, { cause: error });
    });
  }
  process.stdout.write(`fusion, first seed ${firstSeed}: ${compared} elements compared\n`);
  expect(compared).toBeGreaterThan(5 * CASES);
}, 120_000);
