// Calls everything that the addon exports with what no caller in lib/ would pass. Each call must return or throw, and
// one that returned must be done once. Then what is usual must still be right, and the process end by itself.
//
// Arguments: the seed and how many calls. Steps of programs are not drawn here.
'use strict';
const path = require('node:path');
const { conv2d, Tensor } = require('warpconv');
const { addon: load } = require(path.join(path.dirname(require.resolve('warpconv')), 'load.js'));

const [seed, calls] = process.argv.slice(2).map(Number);
const addon = load();

/** mulberry32 (Tommy Ettinger) */
let state = seed >>> 0;
function uniform() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = (n) => Math.floor(uniform() * n);
const pick = (list) => list[below(list.length)];

const FLOATS = { type: 'float32', layout: 'nchw', pitch: 0 };
const SPEC = {
  inputDims: [1, 4, 8, 8],
  weightDims: [4, 4, 3, 3],
  stride: [1, 1],
  padding: [1, 1, 1, 1],
  dilation: [1, 1],
  groups: 1,
  activation: { name: 'none', parameters: [] },
  device: -1,
  algorithm: 'auto',
  variant: '',
  workspaceLimit: Infinity,
  sconv: { schedule: null, presentation: null, vectorPacking: true, packing: 'onDemand' },
  format: { input: FLOATS, residual: FLOATS, output: FLOATS },
  precision: 'fp32',
};
const store = new addon.Store(-1);
const PROGRAM = {
  store,
  steps: [],
  constants: [],
  sharedConstants: [],
  arenaBytes: 0,
  inputBytes: [16],
  outputBytes: [16],
};
const plan = new addon.Plan(SPEC);
plan.prepareSync(new Float32Array(144), null);
const program = new addon.Program(PROGRAM);

function throwing() {
  throw new Error('on purpose');
}
function transferred(array) {
  structuredClone(array, { transfer: [array.buffer] });
  return array;
}
function revoked() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** Every one new, since calls may change or transfer it. */
const HOSTILE = [
  ...[undefined, null, true, '', 'x', 'relu', 1n, Symbol('s')].map((value) => () => value),
  ...[0, 1, 2, -1, -0, 1.5, NaN, Infinity, 2 ** 31, 2 ** 32, 4e9, 2 ** 53, -(2 ** 63)].map(
    (value) => () => value,
  ),
  () => ({}),
  () => [],
  () => [undefined],
  () => [1, 2, 3, 4],
  () => new Array(2 ** 32 - 1),
  () => ({ length: 4e9 }),
  () => ({ length: -1, 0: 0 }),
  () => () => {},
  () => throwing,
  () => class {},
  () => new Proxy({}, { get: throwing, has: throwing, getPrototypeOf: throwing }),
  () => new Proxy([1, 2, 3, 4], { get: throwing }),
  () => new Proxy(plan, {}),
  () => new Proxy(new Float32Array(4), {}),
  revoked,
  () => ({ valueOf: throwing, toString: throwing, [Symbol.toPrimitive]: throwing }),
  () => ({ valueOf: () => 1e300 }),
  () => Object.freeze({}),
  () => Object.freeze([]),
  () => new Date(NaN),
  () => new Float32Array(0),
  () => new Float32Array(4),
  () => new Float32Array(144),
  () => new Float32Array(256),
  () => transferred(new Float32Array(256)),
  () => new Float32Array(new SharedArrayBuffer(1024)),
  () => new Float32Array(new ArrayBuffer(1024, { maxByteLength: 4096 })),
  () => new Float64Array(256),
  () => new Uint8Array(1024).subarray(1),
  () => new BigInt64Array(2),
  () => new DataView(new ArrayBuffer(16)),
  () => new ArrayBuffer(16),
  () => new SharedArrayBuffer(16),
  () => new WeakMap(),
  () => globalThis,
  () => plan,
  () => program,
  () => addon,
  () => addon.Plan,
  () => addon.Plan.prototype,
  () => Object.create(addon.Plan.prototype),
  () => Object.setPrototypeOf(new addon.Program(PROGRAM), addon.Plan.prototype),
  () => new addon.Program({ ...PROGRAM, inputBytes: [], outputBytes: [] }),
  () => mutated(SPEC),
  () => mutated(PROGRAM),
  () => mutated({ entries: [], cudnnLibraries: [], cublasLibraries: [], rounds: 1, coldRounds: 0 }),
  () => [new Float32Array(4)],
];

/** A copy with one of its parts, at any depth, replaced. */
function mutated(value) {
  if (typeof value !== 'object' || value === null || uniform() < 0.2) return hostile();
  const copy = Array.isArray(value) ? [...value] : { ...value };
  const keys = Object.keys(copy);
  const key = keys.length === 0 ? 'x' : pick(keys);
  // The addon trusts steps of a kind that there is: see native/program.
  const part =
    key === 'steps' ? pick([null, {}, [{}], [null], [{ kind: 'none' }], new Array(4e9)]) : mutated(copy[key]);
  if (uniform() < 0.1) Object.defineProperty(copy, key, { get: throwing, enumerable: true });
  else copy[key] = part;
  return copy;
}

const hostile = () => pick(HOSTILE)();

const RIGHT = { Plan: () => [SPEC], Program: () => [PROGRAM] };
const input = () => new Float32Array(256);
const right = {
  prepare: () => [new Float32Array(144), null],
  prepareSync: () => [new Float32Array(144), null],
  run: () =>
    pick([() => [input(), null, input()], () => [[new Float32Array(4)], [new Float32Array(4)], null]])(),
  runSync: () =>
    pick([() => [input(), null, input()], () => [[new Float32Array(4)], [new Float32Array(4)]]])(),
  convolve: () => [new Float32Array(144), null, input(), null, input()],
  add: () => [{ steps: [], constants: [new Float32Array(4)], sharedConstants: [true] }],
  filterRanges: () => [[new Float32Array(8)], [2], [new Float32Array(4)]],
  convolveSync: () => [new Float32Array(144), null, input(), null, input()],
};

/** Functions, methods and getters, each with what it is called on and, for methods, the class. */
const targets = [];
for (const [name, value] of Object.entries(addon)) {
  targets.push({ name, callee: value, receiver: () => addon });
  for (const key of Object.getOwnPropertyNames(value.prototype ?? {})) {
    const { get, value: method } = Object.getOwnPropertyDescriptor(value.prototype, key);
    // measure() of a plan with hostile extents would do as it is told, and take all memory.
    const own = { Plan: () => plan, Program: () => new addon.Program(PROGRAM) }[name] ?? hostile;
    if (key !== 'constructor') targets.push({ name: key, callee: get ?? method, receiver: own, owner: name });
  }
}

const asked = [];
/** The place of `done` among the arguments of plans' methods; a program's are at a place of their own. */
const DONE = {
  prepare: [2, 0],
  run: [3],
  convolve: [5],
  filterRanges: [3],
  measure: [1],
  holdContest: [4],
  write: [1],
  read: [1],
  probeGpus: [0],
  openGpu: [1],
  gpuCeilings: [2],
  nextTurn: [0],
};

function argumentsFor(name) {
  const list = (right[name] ?? RIGHT[name])?.() ?? [];
  for (let i = below(3); i > 0; i--) {
    if (list.length > 0 && uniform() < 0.7) list[below(list.length)] = hostile();
    else list.push(hostile());
  }
  return list;
}

function callOnce({ name, callee, receiver, owner }) {
  const list = argumentsFor(name);
  let ended = 0;
  const done = () => ended++;
  if (DONE[name] !== undefined && uniform() < 0.8) list[pick(DONE[name])] = done;
  const isClass = RIGHT[name] !== undefined || name === 'GpuBuffer';
  const self = uniform() < 0.7 ? receiver() : hostile();
  let times = 0;
  try {
    if (isClass && uniform() < 0.9) Reflect.construct(callee, list, pick([callee, addon.Plan, Object]));
    else if (typeof Reflect.apply(callee, self, list) === 'number')
      times = isTaken(name, owner, list, done) ? 1 : 0;
  } catch {
    times = 0;
  }
  asked.push({ name, isRight: () => ended === times });
}

/** Whether `done` is where the call looks for it. */
function isTaken(name, owner, list, done) {
  const places = DONE[name];
  return places !== undefined && list[owner === 'Program' ? places.at(-1) : places[0]] === done;
}

async function main() {
  for (let call = 0; call < calls; call++) {
    callOnce(pick(targets));
    if (call % 100 === 0) await new Promise(setImmediate);
  }
  const one = new Tensor(new Float32Array(1024).fill(1), [1, 16, 8, 8]);
  const weight = new Tensor(new Float32Array(16 * 16 * 9).fill(1), [16, 16, 3, 3]);
  const { signal } = new AbortController();
  const { data } = await conv2d(one, weight, { padding: 1, device: 'cpu', signal });
  if (data[9] !== 144) console.log('wrong afterwards');
  process.on('beforeExit', () => {
    const wrong = asked.filter(({ isRight }) => !isRight()).map(({ name }) => name);
    if (wrong.length > 0) console.log(`not done once: ${wrong.join(' ')}`);
    console.log(`${asked.length > 0 ? 'survived' : 'nothing was asked'}`);
    process.exit(wrong.length > 0 ? 1 : 0);
  });
}

// What a hostile `done` throws. What main() throws keeps it from saying that it survived.
process.on('uncaughtException', () => {});
main();
