import { runInNewContext } from 'node:vm';

import {
  checkInteger,
  checkIntegers,
  checkOneOf,
  checkPair,
  describe as describeValue,
  checkList,
  propertyOf,
  readEntries,
  readProperties,
  unreadable,
} from '../../lib/check';
import { WarpconvError } from '../../lib/errors';

const complaint = (message: string) =>
  expect.objectContaining({ code: 'ERR_WARPCONV_INVALID_ARGUMENT', message });

const fail = (message: string): never => {
  throw new Error(message);
};

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
    [new Proxy([1], {}), 'an object'],
    [Promise.resolve(), 'a promise'],

    [[1, , 3], '[1, undefined, 3]'],
    [Object.defineProperty([1], 1, { get: () => fail('the element was asked for') }), '[1, …]'],
    [Object.assign([1, 2], { slice: () => fail('the list was asked'), map: null }), '[1, 2]'],
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

it('knows one zero', () => {
  const natural = { min: 0, max: 9 } as const;
  expect(checkInteger('x', -0, natural)).toBe(0);
  expect(checkIntegers('x', [-0, 1], [2], natural, 'a pair')).toEqual([0, 1]);
});

describe('lists', () => {
  it('are read by their indices', () => {
    const list = Object.assign([1, , 3], { map: () => fail('the list was asked') });
    expect(checkList('x', list, 'a list', (name, element) => [name, element])).toEqual([
      ['x[0]', 1],
      ['x[1]', undefined],
      ['x[2]', 3],
    ]);
  });

  it('are not read where they are longer than any', () => {
    const endless = new Proxy([], { get: (_, key) => (key === 'length' ? 2 ** 32 - 1 : 1) });
    const positive = { min: 1, max: 9 } as const;
    expect(() => checkIntegers('x', endless, 'any', positive, 'dims')).toThrow(/x has 4294967295 elements/);
    expect(() => checkList('x', endless, 'a list', () => 1)).toThrow(/x has 4294967295 elements/);
  });

  it.each([null, 7, 'x', {}, new Float32Array(1)])('are not %p', (given) => {
    expect(() => checkList('x', given, 'a list', () => 1)).toThrow(/x must be a list, got /);
  });
});

describe('what is thrown while an argument is read', () => {
  it('is the cause of an error that names the argument', () => {
    const cause = new TypeError('no');
    expect(unreadable('x', cause)).toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: 'x cannot be read: no',
      cause,
    });
  });

  it('is left as it is where it is ours', () => {
    const ours = new WarpconvError('ERR_WARPCONV_DISPOSED', 'gone');
    expect(unreadable('x', ours)).toBe(ours);
  });

  it.each<[unknown, string]>([
    [undefined, 'it threw undefined'],
    ['words', `it threw 'words'`],
    [Symbol('s'), 'it threw Symbol(s)'],
    [Object.create(null), 'it threw an object'],
    [
      new Proxy(new Error('x'), { get: () => fail('asked'), getPrototypeOf: () => fail('asked') }),
      'it threw an object',
    ],
    [Object.defineProperty(new Error('x'), 'message', { get: () => fail('asked') }), 'it threw an object'],
  ])('may be anything: %#', (cause, text) => {
    expect(unreadable('x', cause).message).toBe(`x cannot be read: ${text}`);
  });
});

describe('properties', () => {
  const prototype = Object.prototype as unknown as Record<string, unknown>;

  it('are those of the object and of its classes', () => {
    class Base {
      get stride() {
        return 2;
      }
    }
    class Derived extends Base {}
    prototype.stride = 7;
    prototype.padding = 7;
    try {
      expect(propertyOf(new Derived(), 'stride')).toBe(2);
      expect(propertyOf(Object.create({ stride: 3 }) as object, 'stride')).toBe(3);
      expect(propertyOf(Object.assign(Object.create(null) as object, { stride: 4 }), 'stride')).toBe(4);
      expect(propertyOf({ stride: 5 }, 'padding')).toBeUndefined();
      expect(propertyOf(new Derived(), 'padding')).toBeUndefined();
      expect(readProperties('options', {}, { stride: 1 })).toEqual({ stride: 1 });
    } finally {
      delete prototype.stride;
      delete prototype.padding;
    }
  });

  it.each(['constructor', 'toString', '__proto__'])('are not %s, which every object has', (key) => {
    expect(propertyOf({}, key)).toBeUndefined();
    expect(propertyOf(JSON.parse(`{"${key}":1}`) as object, key)).toBe(1);
  });

  it('are entries of plain objects and of instances that have some', () => {
    expect(readEntries('x', { a: 1 }, 'an object')).toEqual([['a', 1]]);
    expect(readEntries('x', {}, 'an object')).toEqual([]);
    for (const value of [new Map([['a', 1]]), Promise.resolve(), [], new Uint8Array(1), null]) {
      expect(() => readEntries('x', value, 'an object by name')).toThrow(/x must be an object by name, got /);
    }
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

  it('takes objects of other realms and instances of classes that have some of the options', () => {
    class Options {
      get stride() {
        return undefined;
      }
    }
    for (const options of [
      runInNewContext('({})'),
      Object.create(null),
      new Options(),
      { ...new Options() },
    ]) {
      expect(readProperties('options', options, defaults)).toEqual(defaults);
    }
  });

  it.each([new Map([['stride', 2]]), new Date(), Promise.resolve({ stride: 2 }), new (class {})()])(
    'refuses instances of classes that have none of them: %p',
    (value) => {
      expect(() => readProperties('options', value, defaults)).toThrow(
        /options must be an object whose properties are/,
      );
    },
  );

  it('does not look for what a very long name may have meant', () => {
    const long = 'padding'.repeat(1_500_000);
    expect(() => readProperties('options', { [long]: 1 }, defaults)).toThrow(
      complaint(`options.${long.slice(0, 40)}… is not known; options takes padding, stride, groups`),
    );
    expect(() => checkOneOf('x', long, ['none', long.slice(1)])).toThrow(/^x must be 'none' or 'adding/);
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
