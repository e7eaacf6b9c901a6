/** Files that are none: nothing waits for them, and nothing else is held up. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { cleanEnding, runChild } from '../support/child';

const folder = mkdtempSync(path.join(tmpdir(), 'warpconv-special-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const itOnLinux = process.platform === 'linux' ? it : it.skip;

itOnLinux('are refused, as models and in the tuning cache, and the cache replaces them', async () => {
  const expected = ['pipe', 'device', 'directory'].flatMap((kind) => [
    `${kind} in the cache: undefined ${kind !== 'directory'}\n`,
    `${kind} as a model: ERR_WARPCONV_INVALID_ARGUMENT\n`,
    `${kind} instead of a file: it is not a file: '${path.join(folder, kind)}.onnx'\n`,
  ]);
  const ending = await runChild(['read_special_files.cjs', folder], { nodeOptions: ['--no-warnings'] });
  expect(ending).toEqual(cleanEnding(expected.join('')));
});
