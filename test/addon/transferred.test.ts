/** A buffer that is transferred away during a call: undefined elements, and never the end of the process. */
import { cleanEnding, runChild } from '../support/child';
import { TEST_DEVICE } from '../support/gpu';

test('a call outlives the transfer of its buffers', async () => {
  const ending = await runChild(['transferred.cjs', TEST_DEVICE], { nodeOptions: ['--expose-gc'] });
  expect(ending).toEqual(cleanEnding('lives\n'));
});
