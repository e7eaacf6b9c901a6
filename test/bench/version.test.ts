import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

import { softwareOf, type Circumstances } from '../../bench/results';
import { versionNow } from '../../bench/version';

describe('the version that results name', () => {
  const root = mkdtempSync(path.join(os.tmpdir(), 'warpconv-version-'));
  const write = (file: string, text: string) => writeFileSync(path.join(root, file), text);
  const git = (...args: readonly string[]) => {
    const author = ['-c', 'user.name=test', '-c', 'user.email=test@localhost', '-c', 'commit.gpgsign=false'];
    return execFileSync('git', [...author, ...args], { cwd: root, encoding: 'utf8' }).trim();
  };

  beforeAll(() => {
    mkdirSync(path.join(root, 'bench/results'), { recursive: true });
    write('package.json', '{ "version": "1.2.3" }');
    write('bench/results/gpu.json', '{}');
    write('code.ts', '1');
  });
  afterAll(() => rmSync(root, { recursive: true }));

  it('is that of the package, with the commit, marked where the code has changed since', () => {
    git('init', '--quiet');
    git('add', '.');
    git('commit', '--quiet', '--message', 'first');
    const clean = `1.2.3 (${git('rev-parse', '--short', 'HEAD')})`;
    expect(versionNow(root)).toBe(clean);
    write('bench/results/gpu.json', '{ "layers": [] }');
    expect(versionNow(root)).toBe(clean);
    write('code.ts', '2');
    expect(versionNow(root)).toBe(clean.replace(')', '-dirty)'));
  });

  it('is shown where it was stored', () => {
    const about = { node: 'v22.0.0' } as Circumstances;
    expect(softwareOf({ ...about, version: '1.2.3 (abc)' })).toBe('warpconv 1.2.3 (abc), Node.js v22.0.0');
    expect(softwareOf(about)).toBe('Node.js v22.0.0');
  });
});
