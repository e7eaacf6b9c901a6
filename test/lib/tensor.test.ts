import { runInNewContext } from 'node:vm';

import type { Addon } from '../../lib/addon';
import { copyOf, liveTensors, Tensor, type DataType } from '../../lib/tensor/tensor';
import { readTensor, stableData, writableElements } from '../../lib/tensor/tensor_like';
import type { TypedArray } from '../../lib/tensor/typed_array';
import { bitsIn } from '../support/float16_bits';

jest.mock('../../lib/load', () => ({
  addon: () =>
    ({
      hasGpu: () => false,
      gpuProbe: () => ({ missing: 'driver', reason: 'no driver here', driver: '', gpus: [] }),
      gpusProbed: () => true,
    }) as Partial<Addon>,
}));

const invalid = (message: unknown) =>
  expect.objectContaining({ code: 'ERR_WARPCONV_INVALID_ARGUMENT', message });
const disposed = expect.objectContaining({ code: 'ERR_WARPCONV_DISPOSED' });

describe('Tensor', () => {
  const arrays: [DataType, TypedArray][] = [
    ['float32', new Float32Array(6)],
    ['float64', new Float64Array(6)],
    ['float16', new Uint16Array(6)],
    ['bfloat16', new Uint16Array(6)],
    ['int8', new Int8Array(6)],
    ['int16', new Int16Array(6)],
    ['int32', new Int32Array(6)],
    ['int64', new BigInt64Array(6)],
    ['uint8', new Uint8Array(6)],
    ['uint16', new Uint16Array(6)],
    ['uint32', new Uint32Array(6)],
    ['uint64', new BigUint64Array(6)],
    ['bool', new Uint8Array(6)],
  ];

  it.each(arrays)('holds %s without a copy', (type, data) => {
    const tensor = new Tensor(type, data as never, [2, 3]);
    expect(tensor).toMatchObject({ type, dims: [2, 3], size: 6, location: 'cpu' });
    expect(tensor.data).toBe(data);
  });

  it.each(arrays.filter(([type]) => !['float16', 'bfloat16', 'bool'].includes(type)))(
    'infers %s from its array',
    (type, data) => {
      expect(new Tensor(data as Float32Array, [6])).toMatchObject({ type, size: 6 });
    },
  );

  const Float16 = (globalThis as { Float16Array?: Uint16ArrayConstructor }).Float16Array;
  (Float16 ? it : it.skip)('takes a Float16Array where there is one', () => {
    expect(new Tensor(new Float16!(2)).type).toBe('float16');
    expect(new Tensor('float16', new Float16!(2)).size).toBe(2);
  });

  (Float16 ? it : it.skip)('keeps the bits of a Float16Array that is copied', () => {
    const halves = Float16!.from([0.5, -2]);
    expect(copyOf('float16', halves, [2])).toEqual(Uint16Array.of(0x3800, 0xc000));
  });

  it('has one dimension by default, and may have none or a zero', () => {
    expect(new Tensor(new Float32Array(5)).dims).toEqual([5]);
    expect(new Tensor('float32', new Float32Array(1), [])).toMatchObject({ dims: [], size: 1 });
    expect(new Tensor('float32', new Float32Array(0), [3, 0])).toMatchObject({ dims: [3, 0], size: 0 });
  });

  it('makes floats of plain numbers', () => {
    expect([...new Tensor('float32', [1, 2.5], [2]).data]).toEqual([1, 2.5]);
    expect([...new Tensor('float64', [0.1]).data]).toEqual([0.1]);
  });

  it.each<[DataType, readonly unknown[], readonly (number | bigint)[]]>([
    ['int8', [-128, 127], [-128, 127]],
    ['uint16', [0, 65_535], [0, 65_535]],
    ['int32', [-(2 ** 31)], [-(2 ** 31)]],
    ['int64', [-3, 2n ** 63n - 1n], [-3n, 2n ** 63n - 1n]],
    ['uint64', [2n ** 64n - 1n], [2n ** 64n - 1n]],
    ['bool', [true, false, 1], [1, 0, 1]],
    // Halves round to even, and what is beyond the largest is infinite.
    ['float16', [1, -2.5, 2049, 1e6, -Infinity], [0x3c00, 0xc100, 0x6800, 0x7c00, 0xfc00]],
    ['bfloat16', [1, 3e38, -1e39], [0x3f80, 0x7f62, 0xff80]],
  ])('makes %s elements of a list', (type, list, expected) => {
    const { data } = new Tensor(type, list as never);
    expect([...(bitsIn(data) as Iterable<number | bigint>)]).toEqual(expected);
  });

  it('makes quiet NaNs of 16 bits', () => {
    expect(bitsIn(new Tensor('float16', [NaN]).data)).toEqual(Uint16Array.of(0x7e00));
    expect(new Tensor('bfloat16', [NaN]).data).toEqual(Uint16Array.of(0x7fc0));
  });

  it('takes a copy of clamped bytes, for uint8 alone', () => {
    const pixels = Uint8ClampedArray.of(1, 300);
    for (const made of [new Tensor('uint8', pixels), new Tensor(pixels)]) {
      expect(made).toMatchObject({ type: 'uint8', dims: [2], data: Uint8Array.of(1, 255) });
      expect(made.data.buffer).not.toBe(pixels.buffer);
    }
    expect(() => new Tensor('bool', pixels as never)).toThrow(/^data must be a Uint8Array/);
  });

  it('knows the type of a list of booleans', () => {
    expect(new Tensor([true, false])).toMatchObject({ type: 'bool', dims: [2] });
  });

  it('takes arrays of other realms', () => {
    const foreign = runInNewContext('new Float32Array([1, 2])') as Float32Array;
    expect(foreign instanceof Float32Array).toBe(false);
    expect(new Tensor('float32', foreign).data).toBe(foreign);
  });

  it('freezes a copy of its dims', () => {
    const dims = [2, 2];
    const tensor = new Tensor('float32', new Float32Array(4), dims);
    dims[0] = 9;
    expect(tensor.dims).toEqual([2, 2]);
    expect(Object.isFrozen(tensor.dims)).toBe(true);
  });

  it.each<[string, () => unknown, string]>([
    [
      'an unknown type',
      () => new Tensor('float23' as 'float32', new Float32Array(1)),
      `did you mean 'float32'?`,
    ],
    [
      'another array',
      () => new Tensor('int8', new Float32Array(1) as never),
      `data must be a Int8Array, or a list, for type 'int8'`,
    ],
    [
      'an integer that is too large',
      () => new Tensor('int8', [1, 128]),
      'data[1] must be an integer from -128 to 127, got 128',
    ],
    ['a fraction', () => new Tensor('uint8', [0.5]), 'data[0] must be an integer from 0 to 255, got 0.5'],
    ['a number that is no exact integer', () => new Tensor('int64', [2 ** 53]), 'data[0] must be a bigint'],
    ['a bigint that is too large', () => new Tensor('uint64', [-1n]), 'got -1n'],
    ['a number for a truth value', () => new Tensor('bool', [2]), 'data[0] must be true or false, got 2'],
    [
      'numbers without a type',
      () => new Tensor([1, 2] as never),
      'given after the type of its elements, got [1, 2]',
    ],
    [
      'strings',
      () => new Tensor(['a'] as never),
      'data holds strings, and tensors of strings are not supported',
    ],
    [
      'the type of strings',
      () => new Tensor('string' as never, ['a'] as never),
      "type is 'string', and tensors of strings are not supported",
    ],
    [
      'a word among the numbers',
      () => new Tensor('float32', [1, 'x' as never]),
      `data[1] must be a number, got 'x'`,
    ],
    ['no data', () => new Tensor(undefined as never), 'data must be a typed array'],
    ['a DataView', () => new Tensor(new DataView(new ArrayBuffer(4)) as never), 'data must be a typed array'],
    [
      'too few elements',
      () => new Tensor('float32', new Float32Array(3), [4]),
      'data has 3 elements; dims [4] needs 4',
    ],
    ['too many elements', () => new Tensor('float32', new Float32Array(5), [2, 2]), 'needs 4'],
    [
      'a negative extent',
      () => new Tensor('float32', new Float32Array(1), [-1]),
      'dims[0] must be a non-negative integer, got -1',
    ],
    ['a fraction', () => new Tensor('float32', new Float32Array(1), [1.5]), 'dims[0] must be'],
    [
      'an extent that is no exact integer',
      () => new Tensor('float32', new Float32Array(0), [2 ** 60, 0]),
      'at most 9007199254740991',
    ],
    [
      'dims that are no list',
      () => new Tensor('float32', new Float32Array(1), 1 as never),
      'dims must be a list',
    ],
    ['a detached buffer', () => new Tensor('float32', detachedArray(4), [4]), 'data is detached'],
  ])('refuses %s', (_, make, message) => {
    expect(make).toThrow(invalid(expect.stringContaining(message)));
  });

  it('reshapes without a copy', () => {
    const tensor = new Tensor('float32', new Float32Array(6), [6]);
    const reshaped = tensor.reshape([2, 3]);
    expect(reshaped.dims).toEqual([2, 3]);
    expect(reshaped.data).toBe(tensor.data);
    expect(() => tensor.reshape([4])).toThrow(invalid(expect.stringContaining('needs 4')));
  });

  it('gives its data and itself', async () => {
    const tensor = new Tensor('float32', new Float32Array(1));
    expect(await tensor.getData(true)).toBe(tensor.data);
    expect(await tensor.to('cpu')).toBe(tensor);
  });

  it('names what is missing for a GPU, and refuses other places', async () => {
    const tensor = new Tensor('float32', new Float32Array(1));
    await expect(tensor.to('cuda')).rejects.toMatchObject({
      code: 'ERR_WARPCONV_NO_DEVICE',
      message: `cannot use device 'cuda': no driver here`,
    });
    await expect(tensor.to('gpu' as 'cuda')).rejects.toEqual(
      invalid(`device must be 'cpu', 'cuda' or 'cuda:N', got 'gpu'`),
    );
  });

  it('refuses everything but its shape once disposed', async () => {
    const tensor = new Tensor('float32', new Float32Array(2));
    tensor.dispose();
    tensor.dispose();
    expect(tensor).toMatchObject({ location: 'none', dims: [2], size: 2 });
    expect(() => tensor.data).toThrow(disposed);
    expect(() => tensor.reshape([2])).toThrow(disposed);
    await expect(tensor.getData()).rejects.toEqual(disposed);
    await expect(tensor.to('cpu')).rejects.toEqual(disposed);
  });

  it('disposes through the symbols', async () => {
    const [sync, async] = [new Tensor(new Float32Array(1)), new Tensor(new Float32Array(1))];
    sync[Symbol.dispose]();
    await async[Symbol.asyncDispose]();
    expect([sync.location, async.location]).toEqual(['none', 'none']);
  });

  it('counts the live ones', () => {
    const before = liveTensors();
    const tensors = [1, 2, 3].map((length) => new Tensor(new Float32Array(length)));
    expect(() => new Tensor('float32', new Float32Array(1), [2])).toThrow();
    expect(liveTensors()).toBe(before + 3);
    tensors[0]!.dispose();
    tensors[0]!.dispose();
    expect(liveTensors()).toBe(before + 2);
  });
});

describe('tensor arguments', () => {
  const like = (changes: object = {}) => ({
    type: 'float32',
    dims: [1, 1, 2, 3],
    data: new Float32Array(6),
    location: 'cpu',
    ...changes,
  });

  it('takes anything of the shape, its own tensors among them', () => {
    const data = new Float32Array(6);
    const own = new Tensor('float32', data, [1, 1, 2, 3]);
    for (const tensor of [
      own,
      like({ data }),
      like({ data, location: undefined }),
      like({ data, location: 'cpu-pinned' }),
    ]) {
      const argument = readTensor('input', tensor, 4);
      expect(argument.dims).toEqual([1, 1, 2, 3]);
      expect(stableData(argument)).toBe(data);
    }
  });

  it('reads each property once', () => {
    const reads: PropertyKey[] = [];
    const tensor = new Proxy(like(), {
      get(target, key, receiver) {
        reads.push(key);
        return Reflect.get(target, key, receiver) as unknown;
      },
    });
    stableData(readTensor('input', tensor, 4));
    expect(reads.sort()).toEqual(['data', 'dims', 'location', 'type']);
  });

  it('sees through arrays that lie about their length', () => {
    const data = Object.defineProperty(new Float32Array(2), 'length', { value: 6 });
    expect(() => stableData(readTensor('input', like({ data }), 4))).toThrow(/input.data has 2 elements/);
  });

  it('copies shared and resizable memory, and refuses to write to it', () => {
    const resizableBuffer = new (ArrayBuffer as new (length: number, options: object) => ArrayBuffer)(24, {
      maxByteLength: 48,
    });
    for (const buffer of [new SharedArrayBuffer(24), resizableBuffer]) {
      const data = new Float32Array(buffer, 0, 6).fill(7);
      const argument = readTensor('input', like({ data }), 4);
      const stable = stableData(argument);
      expect(stable.buffer).not.toBe(buffer);
      expect([...stable]).toEqual([...data]);
      expect(() => writableElements(argument, 'cpu')).toThrow(
        invalid(expect.stringContaining('ordinary ArrayBuffer')),
      );
    }
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'input must be a tensor'],
    [
      'an array',
      new Float32Array(6),
      'input must be a tensor ({ type, dims, data }), got Float32Array of 6 elements',
    ],
    [
      'a type',
      like({ type: 'float64', data: new Float64Array(6) }),
      `input.type must be 'float32', 'float16' or 'bfloat16', got 'float64'`,
    ],
    ['a rank', like({ dims: [2, 3] }), 'input.dims must be a list of 4 positive integers, got [2, 3]'],
    ['a zero extent', like({ dims: [1, 0, 2, 3] }), 'input.dims[1] must be a positive integer, got 0'],
    [
      'other elements',
      like({ data: new Uint8Array(6) }),
      'input.data must be a Float32Array, got Uint8Array of 6 elements',
    ],
    ['a list', like({ data: [1, 2, 3, 4, 5, 6] }), 'input.data must be a Float32Array'],
    [
      'too little data',
      like({ data: new Float32Array(5) }),
      'input.data has 5 elements; input.dims [1, 1, 2, 3] needs 6',
    ],
    ['detached data', like({ data: detachedArray(6) }), 'input.data is detached'],
    [
      'GPU memory of another',
      like({ location: 'gpu-buffer' }),
      "input is in GPU memory that is not warpconv's own",
    ],
  ])('refuses %s', (_, value, message) => {
    expect(() => stableData(readTensor('input', value, 4))).toThrow(
      invalid(expect.stringContaining(message)),
    );
  });

  it('tells a disposed tensor by its location, before its data throws', () => {
    const tensor = new Tensor('float32', new Float32Array(6), [1, 1, 2, 3]);
    tensor.dispose();
    expect(() => readTensor('weight', tensor, 4)).toThrow(disposed);
    expect(() => readTensor('weight', tensor, 4)).toThrow('weight has been disposed');
  });
});

/** An array whose memory went elsewhere. */
function detachedArray(length: number): Float32Array<ArrayBuffer> {
  const array = new Float32Array(length);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}
