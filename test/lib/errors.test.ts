import { inspect } from 'node:util';

import { abortedBy, callNative, fromNative, WarpconvError } from '../../lib/errors';

describe('WarpconvError', () => {
  const error = new WarpconvError('ERR_WARPCONV_UNSUPPORTED', 'cannot');

  it('carries its code, and its name in the stack', () => {
    expect(error.code).toBe('ERR_WARPCONV_UNSUPPORTED');
    expect(error.stack).toMatch(/^WarpconvError: cannot\n/);
    expect(String(error)).toBe('WarpconvError: cannot');
  });

  it('shows no properties that it does not have', () => {
    expect(Object.keys(error)).toEqual(['code']);
    expect('cause' in error).toBe(false);
    expect(inspect(error)).not.toMatch(/undefined/);
  });

  it('keeps a cause, even an undefined one, and the name of a CUDA error', () => {
    expect(new WarpconvError('ERR_WARPCONV_ABORTED', 'no', { cause: 7 }).cause).toBe(7);
    expect('cause' in new WarpconvError('ERR_WARPCONV_ABORTED', 'no', { cause: undefined })).toBe(true);
    expect(new WarpconvError('ERR_WARPCONV_CUDA', 'no', { cudaError: 'cudaErrorX' }).cudaError).toBe(
      'cudaErrorX',
    );
  });
});

describe('conversion from native failures', () => {
  it.each([
    ['a plain failure', { code: 'OUT_OF_MEMORY', message: 'too big' }],
    ['an Error with a code', Object.assign(new Error('too big'), { code: 'OUT_OF_MEMORY' })],
  ])('turns %s into a WarpconvError', (_, failure) => {
    expect(fromNative(failure)).toMatchObject({
      name: 'WarpconvError',
      code: 'ERR_WARPCONV_OUT_OF_MEMORY',
      message: 'too big',
    });
  });

  it.each([undefined, null, 'text', new TypeError('x'), abortedBy(AbortSignal.abort())])(
    'leaves %p as it is',
    (thrown) => {
      expect(fromNative(thrown)).toBe(thrown);
    },
  );

  it('passes results through and converts what is thrown', () => {
    expect(callNative(() => 3)).toBe(3);
    const failing = () => {
      throw { code: 'INTERNAL', message: 'broken' };
    };
    expect(() => callNative(failing)).toThrow(expect.objectContaining({ code: 'ERR_WARPCONV_INTERNAL' }));
  });
});
