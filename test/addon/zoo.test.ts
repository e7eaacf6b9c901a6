import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { readExpected, samplesOf, SMALL_PACKAGES } from '../../bench/zoo/expected';
import { feedOf, zooModels } from '../../bench/zoo/models';
import { InferenceSession, Tensor } from '../../lib';
import { TEST_DEVICE } from '../support/gpu';

const ZOO = path.join(__dirname, '../../bench/zoo');

let folder: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-zoo-'));
  const { dependencies } = JSON.parse(readFileSync(path.join(ZOO, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  for (const name of SMALL_PACKAGES)
    unpack(`${name}@${dependencies[name]}`, path.join(folder, 'node_modules', name));
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A package alone, without what it depends on. */
function unpack(specifier: string, to: string): void {
  mkdirSync(to, { recursive: true });
  execFileSync('npm', ['pack', '--silent', '--pack-destination', to, specifier], { stdio: 'pipe' });
  const [file] = readdirSync(to);
  execFileSync('tar', ['xzf', file!, '--strip-components=1'], { cwd: to });
}

test.each(Object.entries(readExpected()))('%s gives what onnxruntime-node does', async (name, expected) => {
  const { file } = zooModels(folder, SMALL_PACKAGES).find((model) => model.name === name)!;
  await using session = await InferenceSession.create(file, { device: TEST_DEVICE });
  const feeds = session.inputMetadata.map((input) => {
    const { type, data, dims } = feedOf(name, input);
    return [input.name, new Tensor(type, data as never, dims)] as const;
  });
  const outputs = await session.run(Object.fromEntries(feeds));
  expect(Object.keys(outputs)).toEqual(Object.keys(expected));
  for (const [output, { dims, largest, samples }] of Object.entries(expected)) {
    const actual = outputs[output]!;
    expect(actual.dims).toEqual(dims);
    const differences = samplesOf(actual).map((value, i) => Math.abs(value - samples[i]!));
    expect(Math.max(...differences) / (largest || 1)).toBeLessThan(1e-4);
  }
});
