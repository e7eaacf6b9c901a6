/** Values that no argument should be, and places in arguments to put them. */
import { Tensor } from '../../lib';

const thrown = new Error('a getter or trap of the caller');
const fail = (): never => {
  throw thrown;
};

/** Answers each question with an error. */
function throwingProxy(target: object): object {
  const traps = ['get', 'has', 'ownKeys', 'getPrototypeOf', 'getOwnPropertyDescriptor'] as const;
  return new Proxy(target, Object.fromEntries(traps.map((trap) => [trap, fail])));
}

function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

/** A list that claims to have as many elements as lists can have, all of them 1. */
function endlessList(): unknown {
  return new Proxy([], { get: (_, key) => (key === 'length' ? 2 ** 32 - 1 : 1) });
}

/** Every object behind it has another one behind it. */
function endlessChain(): object {
  return new Proxy({}, { getPrototypeOf: endlessChain, get: () => undefined });
}

class LyingArray extends Float32Array {
  static get [Symbol.species](): Float32ArrayConstructor {
    return fail();
  }
  override get length(): number {
    return 2 ** 30;
  }
  override get buffer(): ArrayBuffer {
    return fail();
  }
  override slice = fail;
  override map = fail;
  override subarray = fail;
  override set = fail;
  override fill = fail;
  override [Symbol.iterator] = fail;
  /** What tells a tensor on a GPU */
  readonly place = 'cuda:0';
}

class LyingList extends Array<unknown> {
  static override get [Symbol.species](): ArrayConstructor {
    return fail();
  }
  override map = fail;
  override slice = fail;
  override [Symbol.iterator] = fail;
}

class Throwing {
  get stride() {
    return fail();
  }
  get type() {
    return fail();
  }
  get signal() {
    return fail();
  }
}

/** Made once, and not in parts: what looks at it first would join them. */
const LONG = Buffer.alloc(10_200_000, 'stride').toString('latin1');

/** Each is made anew, since some can be used up. By the names that a failing test shows. */
export const HOSTILE: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  null: () => null,
  true: () => true,
  '-0': () => -0,
  '-1': () => -1,
  '1.5': () => 1.5,
  NaN: () => NaN,
  Infinity: () => Infinity,
  '1e308': () => 1e308,
  '2 ** 31': () => 2 ** 31,
  '2 ** 53': () => 2 ** 53,
  '1n': () => 1n,
  'a symbol': () => Symbol('s'),
  'an empty string': () => '',
  'a string': () => 'hostile',
  'a string with a zero': () => 'cpu\0',
  'ten million characters': () => LONG,
  'a GPU by too large a number': () => 'cuda:4294967296',
  'a function': () => fail,
  'a class': () => Throwing,
  'no elements': () => [],
  'a list with a hole': () => [1, , 3],
  'a list of holes': () => new Array(4),
  'a list as long as can be': () => new Array(2 ** 32 - 1),
  'a list of what is no number': () => [1, '2', null, {}],
  'a list whose methods fail': () => LyingList.from([1, 4, 5, 5]),
  'a list whose element fails': () => Object.defineProperty([1, 4, 5, 5], 2, { get: fail }),
  'an endless list': endlessList,
  'like a list': () => ({ length: 4, 0: 1, 1: 4, 2: 5, 3: 5 }),
  'an object': () => ({}),
  'an object of another option': () => ({ hostile: 1 }),
  'an option of ten million characters': () => ({ [LONG]: 1 }),
  'a Map': () => new Map([['stride', 2]]),
  'a Set': () => new Set([1, 2]),
  'a promise': () => Promise.resolve({ stride: 2 }),
  'a date': () => new Date(0),
  'a regular expression': () => /x/,
  'an error': () => new Error('x'),
  'a WeakMap': () => new WeakMap(),
  'a number as an object': () => new Number(2),
  'a string as an object': () => new String('relu'),
  'an instance of a class': () => new Throwing(),
  'what cannot be converted': () => ({ [Symbol.toPrimitive]: fail, toString: fail, valueOf: fail }),
  'a getter that fails': () => ({
    get type() {
      return fail();
    },
    get padding() {
      return fail();
    },
  }),
  'a failing proxy': () => throwingProxy({}),
  'a failing proxy of a list': () => throwingProxy([]),
  'a failing proxy of a function': () => throwingProxy(fail),
  'a revoked proxy': () => revoked({}),
  'a revoked proxy of a list': () => revoked([]),
  'an endless chain of prototypes': endlessChain,
  'an array': () => new Float32Array(3),
  'an array whose methods fail': () => new LyingArray(100),
  'an array of integers': () => Int32Array.of(1, 4, 5, 5),
  'an array of bytes': () => new Uint8Array(3),
  'an array of bigints': () => BigInt64Array.of(1n, 4n),
  'a DataView': () => new DataView(new ArrayBuffer(4)),
  'an ArrayBuffer': () => new ArrayBuffer(4),
  'shared memory': () => new SharedArrayBuffer(4),
  'an aborted signal': () => AbortSignal.abort(thrown),
  'a signal in words': () => ({ aborted: 'no', addEventListener: 1 }),
  'a signal that fails': () => ({
    get aborted() {
      return fail();
    },
  }),
  'a tensor': () => new Tensor(new Float32Array(2), [1, 2]),
  'a disposed tensor': () => {
    const tensor = new Tensor(new Float32Array(2), [1, 2]);
    tensor.dispose();
    return tensor;
  },
  'a tensor on no GPU': () => ({
    type: 'float32',
    dims: [1, 4, 5, 5],
    location: 'gpu-buffer',
    device: 'nowhere',
    gpuBuffer: {},
  }),
  'a tensor with a GPU buffer that is none': () => ({
    type: 'float32',
    dims: [1, 4, 5, 5],
    location: 'gpu-buffer',
    device: 'cuda:0',
    gpuBuffer: {},
  }),
  'a tensor with holes in its dims': () => ({
    type: 'float32',
    dims: [1, , 5, 5],
    data: new Float32Array(9),
  }),
};

/** What those of them that are legal somewhere say to who does not let them deceive him. */
export const HONEST: Readonly<Record<string, () => unknown>> = {
  '-0': () => 0,
  'no elements': () => [],
  'a list whose methods fail': () => [1, 4, 5, 5],
  'an array whose methods fail': () => new Float32Array(100),
};

export type Path = readonly (string | number)[];

/** The places in arguments: each of them, and whatever is in plain objects and lists. */
export function pathsOf(value: unknown, path: Path = []): Path[] {
  const here = path.length === 0 ? [] : [path];
  const isOpen =
    Array.isArray(value) ||
    (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype);
  if (!isOpen) return here;
  const inside = Object.entries(value).flatMap(([key, part]) => pathsOf(part, [...path, key]));
  return [...here, ...inside];
}

/** The arguments with something else at that place. */
export function withValue<T>(root: T, [key, ...rest]: Path, value: unknown): T {
  if (key === undefined) return value as T;
  const copy = (Array.isArray(root) ? [...(root as unknown[])] : { ...root }) as Record<string, unknown>;
  copy[key] = withValue(copy[key], rest, value);
  return copy as T;
}
