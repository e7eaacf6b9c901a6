/** Memory of results, which is used again. Each test is a process, so that a crash is a failure. */
import { cleanEnding, runChild } from '../support/child';

const outputs = (task: string) => runChild(['outputs.cjs', task], { nodeOptions: ['--expose-gc'] });

test('memory of a result that was collected serves the next one', async () => {
  expect(await outputs('reused')).toEqual(cleanEnding('401408 bytes, the same\n0 bytes idle\n'));
});

test('of earlier results nothing is seen in new ones', async () => {
  const ways = ['conv2d', 'conv2dSync', 'run', 'run on another thread', 'session.run', 'session.runSync'];
  const lines = ways.map((way) => `${way}: 20 of 20 right\n`);
  expect(await outputs('written')).toEqual(cleanEnding(lines.join('')));
});

test('results are transferred as any other data is', async () => {
  const lines = [
    'left 0, cloned 100352 of 3',
    'left 0, sum in the worker 602112',
    'from the worker that has ended 100352 of 9',
  ];
  expect(await outputs('transferred')).toEqual(cleanEnding(`${lines.join('\n')}\n`));
});

test('a result outlives the only thread that had loaded the binary', async () => {
  expect(await outputs('loadedElsewhere')).toEqual(cleanEnding('100352 of 9\nlives\n'));
});

test('memory that a call writes to is nobody else’s before it has ended', async () => {
  const lines = '0 bytes given back during the call\ngiven back after it\n';
  expect(await outputs('inUse')).toEqual(cleanEnding(lines));
});

test('the result of a call that was aborted is given back', async () => {
  expect(await outputs('failed')).toEqual(cleanEnding('ERR_WARPCONV_ABORTED\ngiven back\n'));
});

test('a runtime other than Node.js has arrays of its own', async () => {
  const line = '100352 of 3, recycled null, 0 bytes idle\n';
  expect(await outputs('elsewhere')).toEqual(cleanEnding(line));
});

test('idle memory and the process are bounded through thousands of results of uneven sizes', async () => {
  expect(await outputs('uneven')).toEqual(cleanEnding('idle true, growth true\n'));
});

test('idle memory goes by itself, and keeps no process from ending', async () => {
  expect(await outputs('idle')).toEqual(cleanEnding('nothing idle\nended with memory idle: true\n'));
});
