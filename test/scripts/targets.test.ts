/** The platforms that binaries are published for. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const ROOT = path.join(__dirname, '../..');
const MODULE = pathToFileURL(path.join(ROOT, 'scripts/targets.mjs')).href;

test('the loader knows the package of every platform', () => {
  const print = `import { packageName, TARGETS } from '${MODULE}'; console.log(Object.keys(TARGETS).map(packageName).join())`;
  const published = execFileSync(process.execPath, ['--input-type=module', '-e', print], {
    encoding: 'utf8',
  });
  const loader = readFileSync(path.join(ROOT, 'lib/load.ts'), 'utf8');
  const known = [...loader.matchAll(/case '(\S+)':\s+return require\.resolve\('\1'\)/g)].map(
    ([, name]) => name,
  );
  expect(known).toEqual(published.trim().split(','));
  const [, listed] = /const TARGETS = \[([^\]]+)\]/.exec(loader)!;
  expect(listed!.match(/[\w-]+/g)!.map((target) => `@warpconv/${target}`)).toEqual(known);
});
