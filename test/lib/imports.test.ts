/** No module imports itself by way of others, types included. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { findCycle } from '../support/cycles';

const ROOT = path.join(__dirname, '../..');

/** The modules of a folder, each with those that it imports. */
function importsOf(folder: string): ReadonlyMap<string, readonly string[]> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
    .map((name) => path.join(folder, name));
  const targetOf = (from: string, specifier: string) => {
    const base = path.resolve(path.dirname(from), specifier.replace(/\.js$/, ''));
    return files.find((file) => [`${base}.ts`, path.join(base, 'index.ts')].includes(file));
  };
  return new Map(
    files.map((file) => {
      const specifiers = readFileSync(file, 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g);
      const targets = [...specifiers].map(([, specifier]) => targetOf(file, specifier!));
      return [file, targets.filter((target) => target !== undefined)];
    }),
  );
}

test.each(['lib', 'bench'])('%s has no circle of imports', (folder) => {
  const imports = importsOf(path.join(ROOT, folder));
  expect(imports.size).toBeGreaterThan(40);
  const cycle = findCycle(imports)?.map((file) => path.relative(ROOT, file));
  expect(cycle).toBeUndefined();
});

test('a circle is found', () => {
  const imports = new Map([
    ['a', ['b']],
    ['b', ['c', 'd']],
    ['c', []],
    ['d', ['b']],
  ]);
  expect(findCycle(imports)).toEqual(['b', 'd', 'b']);
});
