/**
 * Builds tiny programs with bundlers, installs them with package managers and runs them in runtimes; then prints a table.
 * Once it has tried everything, it writes the table into results.md beside this file.
 *
 *     npm run bundlers                    # all of it
 *     npm run bundlers -- esbuild Next    # what has one of these in its name
 *
 * The tools are those of package.json beside this file, which are installed where they are not.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { ROOT } from '../../scripts/root.mjs';
import { CASES, TARGET } from './cases.mjs';
import { SCRATCH, tool, useRegistry, versionOf } from './place.mjs';
import { startRegistry } from './registry.mjs';

const wanted = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = (name) => wanted.length === 0 || wanted.some((part) => name.toLowerCase().includes(part));

if (!existsSync(tool('esbuild')))
  // Not ci: it refuses a lock that lacks packages of other platforms, which a registry may not have.
  execFileSync('npm', ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'], {
    cwd: import.meta.dirname,
    stdio: 'inherit',
  });

const registry = await startRegistry(SCRATCH, TARGET, path.join(ROOT, 'build/Release/warpconv.node'));
useRegistry(registry.url);

const rows = [];
for (const [name, { package: packageName, version, run }] of Object.entries(CASES)) {
  if (!isWanted(name)) continue;
  const title = `${name} ${version ?? versionOf(packageName)}`.trim();
  const row = async (setting, act) => {
    const begun = performance.now();
    const failure = await act().then(
      () => undefined,
      (error) => error,
    );
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    console.log(`${failure ? 'FAILED' : 'ok    '}  ${title}: ${setting} (${seconds} s)`);
    if (failure)
      console.log(
        String(failure.message ?? failure)
          .replace(/^/gm, '        ')
          .slice(0, 6000),
      );
    rows.push([title, setting, failure ? 'FAILED' : 'ok']);
  };
  await run(row).catch((error) => row('set-up', () => Promise.reject(error)));
}
registry.close();

const table = [
  `Node.js ${process.version}, ${TARGET}`,
  '',
  '| tool | how | result |',
  '| --- | --- | --- |',
  ...rows.map(([title, setting, result]) => `| ${title} | ${setting} | ${result} |`),
].join('\n');
console.log(`\n${table}`);
if (wanted.length === 0) {
  const head = '# What `npm run bundlers` found\n\nMade by main.mjs.';
  writeFileSync(path.join(import.meta.dirname, 'results.md'), `${head} ${table}\n`);
}
const failed = rows.filter(([, , result]) => result === 'FAILED').length;
console.log(`\n${rows.length - failed} passed, ${failed} failed`);
process.exitCode = failed === 0 && rows.length > 0 ? 0 : 1;
