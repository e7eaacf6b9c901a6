/** Threads and processes that end in the middle of calls. Each test is a process, so that a crash is a failure. */
import { cleanEnding, runChild } from '../support/child';

test.each(['quick', 'slow'])('workers may be terminated in the middle of %s calls', async (layer) => {
  const round = 'terminated 1 1, others right 0, right 0\n';
  const ending = await runChild(['terminate_workers.cjs', layer]);
  expect(ending).toEqual(cleanEnding(`${round.repeat(2)}0 bytes left\n`));
});

test.each([1, 2, 3])('process.exit in the middle of calls (%i)', async () => {
  expect(await runChild(['exit_during_call.cjs', 'exit'])).toEqual(cleanEnding());
});

test.each([1, 2, 3, 4, 5, 6])('process.exit while workers are in the middle of calls (%i)', async () => {
  expect(await runChild(['exit_during_call.cjs', 'exitWithWorkers'])).toEqual(cleanEnding());
});

test('an uncaught exception in the middle of calls ends the process as usual', async () => {
  const { code, signal, stderr } = await runChild(['exit_during_call.cjs', 'throw']);
  expect({ code, signal }).toEqual({ code: 1, signal: null });
  expect(stderr).toContain('on purpose');
});

test('a process with nothing else to do waits for its calls', async () => {
  expect(await runChild(['exit_during_call.cjs', 'natural'])).toEqual(cleanEnding('4 done\n'));
});
