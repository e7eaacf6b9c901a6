/** The packed tarball, installed in an empty project that has Node.js and nothing else: no compiler, no network. */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';

const ROOT = path.resolve(__dirname, '../..');
const CONSUMER = path.join(__dirname, 'consumer');
const PROGRAM = path.join(__dirname, 'program');
const UNPACKED_BUDGET_MB = 25;

interface Packed {
  readonly version: string;
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

const scratch = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'warpconv-package-')));
const project = path.join(scratch, 'project');
let packed: Packed;
let tarball: string;
/** The tarballs of what the package depends on */
let dependencies: readonly string[];
let bareEnvironment: NodeJS.ProcessEnv;

/** Runs a program to success and returns what it printed. */
function run(
  command: string,
  args: readonly string[],
  options: { cwd: string; env?: NodeJS.ProcessEnv },
): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (status === 0) return stdout;
  throw new Error(
    `${command} ${args.join(' ')}: ${error?.message ?? `status ${status}`}\n${stdout}${stderr}`,
  );
}

/** Runs a program in the project, where nothing but Node.js is installed. */
function runBare(command: string, ...args: string[]): string {
  return runBareIn(project, command, ...args);
}

function runBareIn(cwd: string, command: string, ...args: string[]): string {
  return run(path.join(scratch, 'bin', command), args, { cwd, env: bareEnvironment });
}

/** Installs tarballs in a folder that has this manifest and nothing else. */
function install(folder: string, manifest: object, ...tarballs: readonly string[]): void {
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ private: true, ...manifest }));
  runBareIn(folder, 'npm', 'install', '--offline', '--no-audit', '--no-fund', ...tarballs);
}

function runTool(file: string, ...args: string[]): string {
  return run(process.execPath, [path.join(ROOT, 'node_modules', file), ...args], { cwd: project });
}

function pack(folders: readonly string[], ...options: string[]): Packed[] {
  const args = ['pack', '--json', '--pack-destination', scratch, ...options, ...folders];
  // Without GPU code: the tests are of the package, and building it takes longer than everything else here.
  const env = { ...process.env, WARPCONV_CUDA: 'OFF' };
  return JSON.parse(run('npm', args, { cwd: ROOT, env })) as Packed[];
}

function exportCount(): number {
  const manifest = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { exports: object };
  return Object.keys(manifest.exports).length;
}

function fileOnPath(command: string): string {
  const files = process.env.PATH!.split(path.delimiter).map((folder) => path.join(folder, command));
  return realpathSync(files.find((file) => existsSync(file))!);
}

/** A port of this machine on which nothing listens. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

beforeAll(async () => {
  packed = pack([ROOT])[0]!;
  tarball = path.join(scratch, packed.filename);
  const names = ['@bufbuild/protobuf', 'lru-cache', 'node-gyp-build', 'debug', 'ms', 'onnxruntime-common'];
  const folders = names.map((name) => path.join(ROOT, 'node_modules', name));
  dependencies = pack(folders, '--ignore-scripts').map(({ filename }) => path.join(scratch, filename));

  const bin = path.join(scratch, 'bin');
  for (const folder of [bin, project]) mkdirSync(folder);
  for (const command of ['npm', 'npx', 'sh']) symlinkSync(fileOnPath(command), path.join(bin, command));
  symlinkSync(process.execPath, path.join(bin, 'node'));
  bareEnvironment = {
    PATH: bin,
    HOME: scratch,
    npm_config_cache: path.join(scratch, 'npm-cache'),
    npm_config_registry: `http://127.0.0.1:${await closedPort()}/`,
    npm_config_update_notifier: 'false',
  };
  install(project, {}, tarball, ...dependencies);
  for (const name of readdirSync(CONSUMER)) copyFileSync(path.join(CONSUMER, name), path.join(project, name));
}, 600_000);

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

describe('the tarball', () => {
  test('is small', () => {
    const megabytes = { packed: packed.size / 1e6, unpacked: packed.unpackedSize / 1e6 };
    process.stdout.write(`tarball in MB: ${JSON.stringify(megabytes)}\n`);
    expect(megabytes.unpacked).toBeLessThan(UNPACKED_BUDGET_MB);
  });

  test('holds what an installation needs, and no state of the build', () => {
    const names = packed.files.map((file) => file.path);
    expect(names).toEqual(
      expect.arrayContaining([
        ...['LICENSE', 'README.md', 'CHANGELOG.md', 'package.json'],
        ...['dist/index.js', 'dist/index.mjs', 'dist/index.d.ts', 'dist/index.d.mts', 'dist/cli.js'],
        expect.stringMatching(
          `^prebuilds/${process.platform}-${process.arch}/warpconv\\.(glibc|musl)\\.node$`,
        ),
      ]),
    );
    expect(names.filter((name) => /stamp|^(build|test|node_modules)|\.tgz$/.test(name))).toEqual([]);
  });

  test('runs nothing when it is installed', () => {
    const installed = path.join(project, 'node_modules/warpconv');
    const manifest = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const onInstall = [
      'preinstall',
      'install',
      'postinstall',
      'prepublish',
      'preprepare',
      'prepare',
      'postprepare',
    ];
    expect(Object.keys(manifest.scripts).filter((name) => onInstall.includes(name))).toEqual([]);
    // npm takes this file for an install script.
    expect(existsSync(path.join(installed, 'binding.gyp'))).toBe(false);
  });

  test('satisfies publint', () => {
    expect(runTool('publint/src/cli.js', 'run', tarball, '--strict')).toContain('All good!');
  });

  test('satisfies are-the-types-wrong', () => {
    const report = runTool(
      '@arethetypeswrong/cli/dist/index.js',
      tarball,
      '--profile',
      'node16',
      // With many exports the tool turns its table round unless told.
      '--format',
      'table',
      '--no-color',
    );
    // Exports below a path do not exist for the resolution of Node.js 10, which the profile ignores but reports.
    const rows = report.match(/^│ (?:node16|bundler).*$/gm)!;
    expect(rows.map((row) => row.split('🟢').length - 1)).toEqual(new Array(3).fill(exportCount()));
  });
});

describe('the installed package', () => {
  test.each(['require.cjs', 'import.mjs', 'both.mjs', 'serve.cjs', 'serve.mjs'])('%s works', (script) => {
    runBare('node', script);
  });

  test('loads its prebuilt binary', () => {
    const print = "process.stdout.write(Object.keys(require.cache).find((file) => file.endsWith('.node')))";
    const folder = path.join(
      project,
      'node_modules/warpconv/prebuilds',
      `${process.platform}-${process.arch}`,
    );
    expect(path.dirname(runBare('node', '-e', `require('warpconv'); ${print}`))).toBe(folder);
  });

  test('loads with prebuilt binaries only', () => {
    const env = { ...bareEnvironment, PREBUILDS_ONLY: '1' };
    run(path.join(scratch, 'bin/node'), ['require.cjs'], { cwd: project, env });
  });

  test('has a doctor who finds it well', () => {
    expect(runBare('npx', '--offline', 'warpconv', 'doctor')).toContain('warpconv');
  });

  /** By one compiler, which reads the declarations that they have in common once. */
  test('has right types, however modules are found', () => {
    const programs: readonly (readonly [string, readonly string[]])[] = [
      ['types', ['es2022']],
      // The least library in which float16 has an array of its own
      ['types', ['es2022', 'es2025.float16']],
      // onnxruntime-common's own declarations need those of browsers.
      ['onnxruntime_types', ['es2022', 'dom']],
    ];
    const ways = [
      ['node16', 'node16'],
      ['nodenext', 'nodenext'],
      ['esnext', 'bundler'],
    ];
    const projects = programs.flatMap(([name, lib]) => {
      const files = ['ts', 'mts', 'cts'].map((extension) => `${name}.${extension}`);
      for (const file of files) copyFileSync(path.join(CONSUMER, `${name}.ts`), path.join(project, file));
      return ways.map(([module, moduleResolution]) => {
        const compilerOptions = {
          ...{ module, moduleResolution, target: 'es2022', lib, strict: true, noEmit: true },
          // All declarations but TypeScript's own
          ...{ skipLibCheck: false, skipDefaultLibCheck: true },
          ...{ types: ['node'], typeRoots: [path.join(ROOT, 'node_modules/@types')] },
        };
        const configuration = `${name}.${lib.at(-1)}.${module}.json`;
        writeFileSync(path.join(project, configuration), JSON.stringify({ compilerOptions, files }));
        return configuration;
      });
    });
    runTool('typescript/bin/tsc', '--build', '--verbose', ...projects);
  });
});

describe('published as a package for each platform', () => {
  const { glibcVersionRuntime } = (process.report.getReport() as { header: { glibcVersionRuntime?: string } })
    .header;
  const libc = process.platform === 'linux' ? [glibcVersionRuntime === undefined ? 'musl' : 'gnu'] : [];
  const target = [process.platform, process.arch, ...libc].join('-');
  const out = path.join(scratch, 'packages');
  const tarballOf = (name: string) => path.join(out, `${name}-${packed.version}.tgz`);

  function make(binary: string): string {
    const script = path.join(ROOT, 'scripts/packages.mjs');
    const options = ['--out', out, ...(process.env.WARPCONV_CUDA === 'ON' ? [] : ['--allow-no-cuda'])];
    return run(process.execPath, [script, ...options, `${target}=${binary}`], { cwd: scratch });
  }

  beforeAll(() => {
    process.stdout.write(make(path.join(ROOT, 'build/Release/warpconv.node')));
  }, 60_000);

  test('a program runs with both', () => {
    const folder = path.join(scratch, 'both');
    mkdirSync(folder);
    install(folder, {}, tarballOf('warpconv'), tarballOf(`warpconv-${target}`), ...dependencies);
    copyFileSync(path.join(CONSUMER, 'require.cjs'), path.join(folder, 'require.cjs'));
    runBareIn(folder, 'node', 'require.cjs');
    expect(runBareIn(folder, 'npx', '--offline', 'warpconv', 'doctor')).toContain(`@warpconv/${target}`);
    expect(readdirSync(path.join(folder, 'node_modules/warpconv'))).not.toContain('prebuilds');
  });

  test('without the one of the platform, the error says why', () => {
    const folder = path.join(scratch, 'alone');
    mkdirSync(folder);
    install(folder, {}, tarballOf('warpconv'), ...dependencies);
    expect(() => runBareIn(folder, 'node', '-e', "require('warpconv')")).toThrow(
      /npm installs @warpconv\/.* --omit=optional/,
    );
  });

  const hasNewGlibc = Number(glibcVersionRuntime?.split('.')[1]) >= 34;
  (hasNewGlibc ? test : test.skip)('a binary for a newer C library is refused', () => {
    expect(() => make(fileOnPath('ls'))).toThrow(/needs .*@GLIBC_2\.34/);
  });

  test('what is no binary is refused', () => {
    expect(() => make(path.join(ROOT, 'package.json'))).toThrow(/is no binary for/);
    expect(() => make(ROOT)).toThrow(/is no file/);
  });
});

describe('in the place of onnxruntime-node', () => {
  const application = path.join(scratch, 'application');

  beforeAll(() => {
    mkdirSync(application);
    const program = path.join(scratch, pack([PROGRAM], '--ignore-scripts')[0]!.filename);
    const overrides = { 'onnxruntime-node': `file:${tarball}` };
    install(application, { overrides }, program, ...dependencies);
  }, 60_000);

  test.each(['required.cjs', 'imported.mjs'])('an unchanged program works: %s', (script) => {
    runBareIn(application, 'node', path.join('node_modules/program', script));
  });

  test('onnxruntime-common comes along, for programs that do not name it', () => {
    expect(existsSync(path.join(application, 'node_modules/onnxruntime-common/package.json'))).toBe(true);
  });

  test('the provider of onnxruntime does not take the package for it', () => {
    rmSync(path.join(application, 'node_modules/onnxruntime-common'), { recursive: true });
    const script = path.join(application, 'provider.cjs');
    writeFileSync(script, "require('onnxruntime-node/onnxruntime');");
    expect(() => runBareIn(application, 'node', script)).toThrow(
      /needs onnxruntime-node .*: the onnxruntime-node that is installed is this package/,
    );
  });
});
