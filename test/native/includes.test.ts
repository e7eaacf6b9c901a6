/** What C++ and CUDA files include: no circle, only what the architecture allows, each header by a name of its own. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { findCycle } from '../support/cycles';

const ROOT = path.join(__dirname, '../..');

/**
 * The folders of native/ from the top down; '' is native/ itself. A file includes files of its own folder and of later
 * ones. A GPU and the CPU implement `backend`, and choose for the steps of a network by `planner`: both stand above.
 */
const LAYERS = [
  'binding',
  'gpu',
  'cpu',
  'cpu/operators',
  'cpu/im2col',
  'cpu/winograd',
  'cpu/depthwise',
  'cpu/sconv',
  'cpu/stem',
  'cpu/direct',
  'cpu/formats',
  'cpu/microkernels',
  'cpu/algorithm',
  'cpu/vector_loops',
  'cpu/vector',
  'planner',
  'backend',
  'typed',
  'program',
  'weights',
  'executor',
  'devices',
  'memory',
  'problem',
  'portability',
  '',
];

type Includes = ReadonlyMap<string, readonly string[]>;

/** The files of native/ and cuda/ by their paths from the root. */
const FILES: ReadonlySet<string> = new Set(
  ['native', 'cuda'].flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(h|cuh|cpp|cu)$/.test(name))
      .map((name) => `${folder}/${name.replaceAll(path.sep, '/')}`),
  ),
);

/** Where compilers look: in native/ and in the root (CMakeLists.txt). */
const resolve = (name: string) => [`native/${name}`, name].find((file) => FILES.has(file));

const includedNames = (file: string) =>
  [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(/^\s*#\s*include\s*"([^"]+)"/gm)].map(
    ([, name]) => name!,
  );

const INCLUDES: Includes = new Map(
  [...FILES].map((file) => [
    file,
    includedNames(file)
      .map(resolve)
      .filter((target) => target !== undefined),
  ]),
);

const layerOf = (file: string) => path.posix.dirname(file).replace(/^native\/?/, '');

/** Includes of files of native/ that go up, or out of it. */
function wrongWays(includes: Includes): string[] {
  const wrong: string[] = [];
  for (const [file, targets] of includes) {
    if (!file.startsWith('native/')) continue;
    const layer = LAYERS.indexOf(layerOf(file));
    const isBelow = (target: string) =>
      target.startsWith('native/') && LAYERS.indexOf(layerOf(target)) >= layer;
    wrong.push(...targets.filter((target) => !isBelow(target)).map((target) => `${file} includes ${target}`));
  }
  return wrong;
}

/**
 * Headers of native/ that have the name of another one. Those of cuda/ may share names among themselves: its algorithms
 * name like parts alike, as in tile.h and kernel.cuh.
 */
function sharedNames(files: Iterable<string>): string[] {
  const byName = new Map<string, string[]>();
  for (const file of files) {
    if (!/\.(h|cuh)$/.test(file)) continue;
    const name = path.posix.basename(file);
    byName.set(name, [...(byName.get(name) ?? []), file]);
  }
  return [...byName.values()]
    .filter((same) => same.length > 1 && same.some((file) => file.startsWith('native/')))
    .map((same) => same.join(', '));
}

test('every include is found', () => {
  expect(FILES.size).toBeGreaterThan(300);
  const lost = [...FILES].flatMap((file) =>
    includedNames(file)
      .filter((name) => resolve(name) === undefined)
      .map((name) => `${file} includes ${name}`),
  );
  expect(lost).toEqual([]);
});

test('no file includes itself by way of others', () => {
  expect(findCycle(INCLUDES)).toBeUndefined();
});

test('every folder of native/ has its layer', () => {
  const folders = new Set([...FILES].filter((file) => file.startsWith('native/')).map(layerOf));
  expect([...folders].sort()).toEqual([...LAYERS].sort());
});

test('native/ includes from the top down, and nothing of cuda/', () => {
  expect(wrongWays(INCLUDES)).toEqual([]);
});

test('no header of native/ has the name of another one', () => {
  expect(sharedNames(FILES)).toEqual([]);
});

test('what is wrong is found', () => {
  const backend = 'native/backend/backend.h';
  expect(
    wrongWays(
      new Map([
        [backend, ['native/planner/choose.h', 'native/status.h', 'cuda/device.h']],
        ['native/planner/choose.h', [backend]],
        ['cuda/device.h', ['native/status.h']],
      ]),
    ),
  ).toEqual([`${backend} includes native/planner/choose.h`, `${backend} includes cuda/device.h`]);
  expect(
    sharedNames(['native/program/store.h', 'cuda/program/store.h', 'cuda/halo/tile.h', 'cuda/stem/tile.h']),
  ).toEqual(['native/program/store.h, cuda/program/store.h']);
});
