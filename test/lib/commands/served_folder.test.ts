import { LOGGER } from '../../../lib/commands/served_folder';

test.each([
  [{ model: 'a', version: '2' }, 'a model is served', 'a model is served: "a" 2'],
  [{ err: new Error('none\nthere') }, 'it cannot be read', 'it cannot be read: none there'],
  [
    { model: '\u001b[31m\n', err: new Error('Odd\u009b2J') },
    'a model cannot be loaded',
    'a model cannot be loaded: "\\u001b[31m\\n": Odd\\u009b2J',
  ],
])('a line of the log: %j', (details, message, line) => {
  const write = jest.spyOn(process.stderr, 'write').mockReturnValue(true);
  LOGGER.info!(details, message);
  expect(write.mock.calls).toEqual([[`warpconv: ${line}\n`]]);
  write.mockRestore();
});
