import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { ROOT } from './command';

/** Of this package, with the commit where it is known, and with `-dirty` where the code is another than that commit's. */
export function versionNow(root = ROOT): string {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    version: string;
  };
  try {
    const commit = git(root, 'rev-parse', '--short', 'HEAD');
    // A bench that is run after another finds what that one has stored.
    const changes = git(root, 'status', '--porcelain', '--untracked-files=no', '--', '.', ':!bench/results');
    return `${version} (${commit}${changes && '-dirty'})`;
  } catch {
    return version;
  }
}

function git(root: string, ...args: readonly string[]): string {
  const output = execFileSync('git', args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return output.trim();
}
