import { runInNewContext } from 'node:vm';

import {
  checkInteger,
  checkIntegers,
  checkOneOf,
  checkPair,
  describe as describeValue,
  readProperties,
} from '../../lib/check';

const complaint = (message: string) =>
  expect.objectContaining({ code: 'ERR_WARPCONV_INVALID_ARGUMENT', message });

describe('describe', () => {
  const throwing = new Proxy(
    {},
    {
      get() {
        throw new Error('the value was asked');
      },
    },
  );

  it.each<[unknown, string]>([
    ['two', `'two'`],
    ['x'.repeat(100), `'${'x'.repeat(40)}…'`],
    [1.5, '1.5'],
    [Number.NaN, 'NaN'],
    [3n, '3n'],
    [undefined, 'undefined'],
    [null, 'null'],
    [true, 'true'],
    [Symbol('s'), 'Symbol(s)'],
    [() => 1, 'a function'],
    [[1, 'a', null, [2]], `[1, 'a', null, …]`],
    [[1, 2, 3, 4, 5, 6, 7, 8, 9], '[1, 2, 3, 4, 5, 6, 7, 8, …]'],
    [new Float32Array(1), 'Float32Array of 1 element'],
    [runInNewContext('new Int8Array(2)'), 'Int8Array of 2 elements'],
    [{ toString: () => 'fooled' }, 'an object'],
    [throwing, 'an object'],
  ])('%#', (value, text) => {
    expect(describeValue(value)).toBe(text);
  });
});

describe('integers', () => {
  const positive = { min: 1, max: 9 } as const;

  it('takes the ends of the range', () => {
    expect(checkInteger('x', 1, positive)).toBe(1);
    expect(checkInteger('x', 9, positive)).toBe(9);
  });

  it.each<[unknown, string]>([
    [0, 'x must be a positive integer, got 0'],
    [10, 'x must be a positive integer of at most 9, got 10'],
    [1.5, 'x must be a positive integer, got 1.5'],
    ['1', `x must be a positive integer, got '1'`],
    [1n, 'x must be a positive integer, got 1n'],
  ])('refuses %p', (value, message) => {
    expect(() => checkInteger('x', value, positive)).toThrow(complaint(message));
  });

  it('says non-negative where zero is allowed', () => {
    const message = 'x must be a non-negative integer, got -1';
    expect(() => checkInteger('x', -1, { min: 0, max: 9 })).toThrow(complaint(message));
  });

  it('spreads one number over both axes', () => {
    expect(checkPair('x', 2, positive)).toEqual([2, 2]);
    expect(checkPair('x', [2, 3], positive)).toEqual([2, 3]);
  });

  it.each<[unknown, string]>([
    ['two', `x must be a positive integer or [height, width], got 'two'`],
    [[1], 'x must be a positive integer or [height, width], got [1]'],
    [[1, 0], 'x[1] must be a positive integer, got 0'],
    [new Int32Array(2), 'x must be a positive integer or [height, width], got Int32Array of 2 elements'],
  ])('refuses the pair %p', (value, message) => {
    expect(() => checkPair('x', value, positive)).toThrow(complaint(message));
  });

  it('reads each element of a list once, and copies it', () => {
    const reads: PropertyKey[] = [];
    const list = new Proxy([4, 5], {
      get(target, key, receiver) {
        reads.push(key);
        return Reflect.get(target, key, receiver) as unknown;
      },
    });
    expect(checkIntegers('x', list, [2], positive, 'a pair')).toEqual([4, 5]);
    expect(reads).toEqual(['length', '0', '1']);
  });

  it('refuses a list with holes', () => {
    const message = 'x[0] must be a positive integer, got undefined';
    expect(() => checkIntegers('x', new Array(2), [2], positive, 'a pair')).toThrow(complaint(message));
  });
});

describe('closed sets', () => {
  const defaults = { padding: 0, stride: 1, groups: undefined };

  it('fills in defaults for what is absent or undefined, and for nothing else', () => {
    expect(readProperties('options', { stride: undefined, groups: null }, defaults)).toEqual({
      padding: 0,
      stride: 1,
      groups: null,
    });
  });

  it('reads inherited properties', () => {
    expect(readProperties('options', Object.create({ stride: 3 }), defaults).stride).toBe(3);
  });

  it.each<[object, string]>([
    [{ paddding: 1 }, `options.paddding is not known; did you mean 'padding'?`],
    [{ Stride: 1 }, `options.Stride is not known; did you mean 'stride'?`],
    [{ wings: undefined }, 'options.wings is not known; options takes padding, stride, groups'],
    [{ constructor: 1 }, 'options.constructor is not known; options takes padding, stride, groups'],
  ])('refuses %p', (options, message) => {
    expect(() => readProperties('options', options, defaults)).toThrow(complaint(message));
  });

  it.each([null, 7, 'x', [], new Float32Array(1)])('refuses %p for an options object', (value) => {
    expect(() => readProperties('options', value, defaults)).toThrow(/options must be an object, got /);
  });

  it('guesses at a misspelt word, and lists the words', () => {
    const words = ['none', 'relu', 'relu6'] as const;
    expect(checkOneOf('x', 'relu6', words)).toBe('relu6');
    const message = `x must be 'none', 'relu' or 'relu6', got 'ReLU'; did you mean 'relu'?`;
    expect(() => checkOneOf('x', 'ReLU', words)).toThrow(complaint(message));
    expect(() => checkOneOf('x', 5, words)).toThrow(complaint(`x must be 'none', 'relu' or 'relu6', got 5`));
  });
});
