/**
 * A program that is traced by @vercel/nft, or bundled by esbuild, and runs elsewhere. What other tools make of it is tried
 * by `npm run bundlers`.
 */
import { nodeFileTrace } from '@vercel/nft';
import { build, type BuildOptions } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const ROOT = path.resolve(__dirname, '../..');
const BINARY = path.join(ROOT, 'build/Release/warpconv.node');
const PROGRAMS = ['app.cjs', 'app.mjs', 'check.cjs'];
const RESULT = '4,6,4,6,9,6,4,6,4,12\n';

const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
const libc = process.platform === 'linux' ? [header.glibcVersionRuntime === undefined ? 'musl' : 'gnu'] : [];
const PLATFORM = ['@warpconv', [process.platform, process.arch, ...libc].join('-')].join('/');

interface Manifest {
  readonly dependencies?: Record<string, string>;
}
const manifestOf = (folder: string) =>
  JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Manifest;

const scratch = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'warpconv-bundles-')));
const app = path.join(scratch, 'app');
const packages = path.join(app, 'node_modules');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function copyPackage(name: string, from: string): void {
  const to = path.join(packages, name);
  cpSync(from, to, { recursive: true });
  for (const other of Object.keys(manifestOf(from).dependencies ?? {}))
    copyPackage(other, path.join(ROOT, 'node_modules', other));
}

/** As npm installs what is published: the binary is in a package of its own. */
beforeAll(() => {
  const warpconv = path.join(scratch, 'warpconv');
  cpSync(path.join(ROOT, 'dist'), path.join(warpconv, 'dist'), { recursive: true });
  copyFileSync(path.join(ROOT, 'package.json'), path.join(warpconv, 'package.json'));
  copyPackage('warpconv', warpconv);
  const platform = path.join(packages, PLATFORM);
  mkdirSync(platform, { recursive: true });
  copyFileSync(BINARY, path.join(platform, 'warpconv.node'));
  writeFileSync(
    path.join(platform, 'package.json'),
    JSON.stringify({ name: PLATFORM, version: '0.0.0', main: 'warpconv.node' }),
  );
  for (const name of PROGRAMS) copyFileSync(path.join(__dirname, 'apps', name), path.join(app, name));
});

const newFolder = () => mkdtempSync(path.join(scratch, 'away-'));

function run(folder: string, file: string) {
  const env = { ...process.env, WARPCONV_NO_CPU_WARNING: '1' };
  return spawnSync(process.execPath, [path.join(folder, file)], { cwd: folder, env, encoding: 'utf8' });
}

const right = expect.objectContaining({ stdout: RESULT, stderr: '', status: 0 }) as unknown;

test('@vercel/nft finds all that a program needs, and little else', async () => {
  const away = newFolder();
  const { fileList } = await nodeFileTrace(
    ['app.cjs', 'app.mjs'].map((name) => path.join(app, name)),
    {
      base: app,
    },
  );
  for (const file of fileList) cpSync(path.join(app, file), path.join(away, file));
  expect(run(away, 'app.cjs')).toEqual(right);
  expect(run(away, 'app.mjs')).toEqual(right);
  expect([...fileList].filter((file) => /\.(d\.ts|md)$/.test(file))).toEqual([]);
});

describe('esbuild', () => {
  const bundle = (entry: string, folder: string, options: BuildOptions = {}) =>
    build({
      ...{ absWorkingDir: app, entryPoints: [entry], outdir: folder, bundle: true, platform: 'node' },
      ...{ logLevel: 'silent' },
      ...options,
    });

  test('makes a bundle that runs beside the binary, and says so without', async () => {
    const away = newFolder();
    const { warnings } = await bundle('app.cjs', away);
    expect(warnings).toEqual([]);
    const refused = run(away, 'app.js');
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain(
      `warpconv was bundled without its binary: copy node_modules/${PLATFORM}/warpconv.node into ${away}`,
    );
    expect(refused.stderr).toContain('esbuild: --external:warpconv;');
    copyFileSync(BINARY, path.join(away, 'warpconv.node'));
    expect(run(away, 'app.js')).toEqual(right);
  });

  // The banner is docs/bundlers.md's.
  test('makes an ES module', async () => {
    const away = newFolder();
    const page = readFileSync(path.join(ROOT, 'docs/bundlers.md'), 'utf8');
    const [, banner] = /--banner:js="(.*)"$/m.exec(page)!;
    await bundle('app.mjs', away, {
      format: 'esm',
      banner: { js: banner! },
      outExtension: { '.js': '.mjs' },
    });
    copyFileSync(BINARY, path.join(away, 'warpconv.node'));
    expect(run(away, 'app.mjs')).toEqual(right);
  });

  test('leaves the package out', async () => {
    const folder = path.join(app, 'out');
    await bundle('app.cjs', folder, { external: ['warpconv'] });
    expect(run(folder, 'app.js')).toEqual(right);
  });
});
