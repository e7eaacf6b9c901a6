/** Who runs a model that this package cannot run. */
import { WarpconvError } from '../../lib/errors';
import { Fallback, type OtherSession } from '../../lib/session/fallback';

const unsupported = new WarpconvError('ERR_WARPCONV_UNSUPPORTED', "no kernel for Odd: 'odd'");
const release = jest.fn(() => Promise.resolve());
const other = { release } as unknown as OtherSession;
const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});

beforeEach(() => jest.clearAllMocks());
afterAll(() => warn.mockRestore());

test('runs at the same time load it once, with one warning', async () => {
  const open = jest.fn(() => Promise.resolve(other));
  const fallback = new Fallback('another', open);
  const own = jest.fn(() => Promise.reject(unsupported));
  const taken = await Promise.all([1, 2].map(() => fallback.run(own, (session) => Promise.resolve(session))));
  expect(taken).toEqual([other, other]);
  expect(await fallback.run(own, () => Promise.resolve('there'))).toBe('there');
  expect([open.mock.calls.length, own.mock.calls.length]).toEqual([1, 2]);
  expect(warn.mock.calls).toEqual([
    [
      "a model is run by another: no kernel for Odd: 'odd'",
      { type: 'WarpconvWarning', code: 'WARPCONV_FALLBACK' },
    ],
  ]);
  await fallback.release();
  expect(release).toHaveBeenCalledTimes(1);
});

test.each([new WarpconvError('ERR_WARPCONV_INVALID_ARGUMENT', 'feeds.x is missing'), new Error('a bug')])(
  '%s is no reason',
  async (error) => {
    const open = jest.fn(() => Promise.resolve(other));
    const fallback = new Fallback('another', open);
    await expect(fallback.takeOver(error)).rejects.toBe(error);
    expect([open.mock.calls, fallback.taken]).toEqual([[], undefined]);
  },
);

test('where nobody runs the model, both say why, and it is tried again', async () => {
  const open = jest.fn(() => Promise.reject(new Error('nor I')));
  const fallback = new Fallback('another', open);
  for (let run = 0; run < 2; run++) {
    await expect(fallback.takeOver(unsupported)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: "no kernel for Odd: 'odd'; another cannot run the model either: nor I",
    });
  }
  expect([open.mock.calls.length, warn.mock.calls]).toEqual([2, []]);
});
