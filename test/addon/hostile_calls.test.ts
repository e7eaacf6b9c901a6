/** What the addon exports is called as lib/ never would, by a script of somebody else: no value ends the process. */
import { cleanEnding, runChild } from '../support/child';

const { floor, random } = Math;
const seeds = [1, 2, floor(random() * 2 ** 31)];

test.each(seeds)('hostile calls of native code return or throw (seed %i)', async (seed) => {
  expect(await runChild(['hostile_calls.cjs', String(seed), '3000'])).toEqual(cleanEnding('survived\n'));
});
