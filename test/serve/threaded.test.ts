/** What holds for a server holds for one whose requests several threads read. */
import type * as Serving from './support/serving';

jest.mock('./support/serving', () => {
  const serving = jest.requireActual<typeof Serving>('./support/serving');
  return { ...serving, THREADS: 2, open: serving.openThreaded };
});
// Runs are joined by the built package, which is not what those tests would mock.
jest.mock('../../lib/serve/batch_sizes', () => jest.requireActual<object>('../../dist/serve/batch_sizes'));

describe.each(['drain', 'malformed', 'protocol', 'encodings', 'overload', 'metrics', 'batching'])(
  '%s',
  (suite) => {
    jest.requireActual(`./${suite}.test`);
  },
);
