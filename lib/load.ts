/** Finds the native binary and loads it; when that fails, explains what was tried and what would help. */
import createDebug from 'debug';
import nodeGypBuild from 'node-gyp-build';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import type { Addon } from './addon';
import { isObject } from './check';
import { WarpconvError } from './errors';
import { ownBuilds } from './own_builds';

const debug = createDebug('warpconv:load');

/** The directory of package.json: one above this file, in `lib/` and in `dist/` alike. */
export const PACKAGE_ROOT = path.resolve(__dirname, '..');

/** The version of the package. */
export function packageVersion(): string {
  // Written so that bundlers see it and take the file along.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  return (require('../package.json') as { version: string }).version;
}

/**
 * Each of these packages has the binary of one platform. npm installs the one that fits beside this package. Their names
 * are written out because tracers and bundlers follow no others. scripts/targets.mjs has the same names.
 */
/* eslint-disable @typescript-eslint/no-require-imports, @typescript-eslint/no-unsafe-return */
const PACKAGES: BinaryPackages = {
  '@warpconv/darwin-arm64': () => require('@warpconv/darwin-arm64'),
  '@warpconv/darwin-x64': () => require('@warpconv/darwin-x64'),
  '@warpconv/linux-arm64-gnu': () => require('@warpconv/linux-arm64-gnu'),
  '@warpconv/linux-arm64-musl': () => require('@warpconv/linux-arm64-musl'),
  '@warpconv/linux-x64-gnu': () => require('@warpconv/linux-x64-gnu'),
  '@warpconv/linux-x64-musl': () => require('@warpconv/linux-x64-musl'),
  '@warpconv/win32-x64': () => require('@warpconv/win32-x64'),
};
/* eslint-enable @typescript-eslint/no-require-imports, @typescript-eslint/no-unsafe-return */

/** What loads each, by its name. */
export type BinaryPackages = Readonly<Record<string, () => unknown>>;

export interface LoadedBinary {
  readonly addon: Addon;
  /** The file, or the package that it is in */
  readonly file: string;
}

let loaded: LoadedBinary | undefined;

/** The binary of this package, loaded once. */
export function loadedBinary(): LoadedBinary {
  return (loaded ??= loadBinary(PACKAGE_ROOT));
}

export function addon(): Addon {
  return loadedBinary().addon;
}

interface Failure {
  readonly file: string;
  readonly message: string;
}

/**
 * Loads the first binary that loads: of the package's own build, of its prebuilds, or of the packages for the platform.
 *
 * @param root - the directory of the package
 * @param open - loads one file
 * @throws {@link WarpconvError} `ERR_WARPCONV_LOAD_FAILED`
 */
export function loadBinary(
  root: string,
  open: (file: string) => unknown = createRequire(__filename),
  packages: BinaryPackages = PACKAGES,
): LoadedBinary {
  const failures: Failure[] = [];
  const candidates = [
    ...files(root).map((file) => [file, () => open(file)] as const),
    ...packagesOfPlatform(packages),
  ];
  for (const [file, load] of candidates) {
    try {
      const binary = load();
      if (!isObject(binary)) throw new Error(`it gives ${String(binary)} instead of an addon`);
      debug('loaded %s', file);
      return { addon: binary as Addon, file };
    } catch (error) {
      debug('cannot load %s: %O', file, error);
      if (!isMissing(error, file)) failures.push({ file, message: messageOf(error) });
    }
  }
  throw new WarpconvError('ERR_WARPCONV_LOAD_FAILED', explain(root, failures));
}

/** Those for any C library: npm installs the right one, where it knows, and another one does not load. */
function packagesOfPlatform(packages: BinaryPackages): [name: string, load: () => unknown][] {
  const start = `@warpconv/${process.platform}-${process.arch}`;
  return Object.entries(packages).filter(([name]) => name === start || name.startsWith(`${start}-`));
}

/** Whether the package itself is not there, rather than something that it needs. */
function isMissing(error: unknown, name: string): boolean {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return code === 'MODULE_NOT_FOUND' && messageOf(error).includes(`'${name}'`);
}

/** The files to try: what was built here, node-gyp-build's choice, then everything else that might do. */
function files(root: string): string[] {
  const prebuildRoot = process.env.WARPCONV_PREBUILD || root;
  const builds = process.env.PREBUILDS_ONLY
    ? []
    : [
        ...ownBuilds(prebuildRoot, packageVersion()).map((build) => path.join(build, 'Release')),
        path.join(prebuildRoot, 'build/Debug'),
      ];
  const prebuilds = path.join(prebuildRoot, 'prebuilds', `${process.platform}-${process.arch}`);
  return [...new Set([...builds.flatMap(binariesIn), ...preferred(root), ...binariesIn(prebuilds)])];
}

function preferred(root: string): string[] {
  try {
    return [nodeGypBuild.path(root)];
  } catch (error) {
    debug('node-gyp-build: %s', messageOf(error));
    return [];
  }
}

function binariesIn(folder: string): string[] {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith('.node'));
  return names.sort().map((name) => path.join(folder, name));
}

function messageOf(error: unknown): string {
  // Any realm's Error, and whatever else a binary throws.
  const message = (error as { message?: unknown } | null | undefined)?.message ?? error;
  return String(message).split('\n')[0]!;
}

const BUILD = 'build it: `npx warpconv build` (needs cmake and a C++20 compiler)';

/** What the loader says, and what helps. The first pattern that matches explains a failure. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /version [`'](GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found/,
    `the C or C++ library of this system is older than the binary's; use a newer distribution, or ${BUILD}`,
  ],
  [
    /wrong ELF class|invalid ELF header|not a valid Win32|incompatible architecture|mach-o|Exec format/i,
    `the file is not a binary for ${process.platform}-${process.arch}: install the package on this machine rather than ` +
      `copying node_modules to it, or ${BUILD}`,
  ],
  [
    /musl|ld-linux|Error relocating|fcntl64/,
    `the binary is for the other C library (glibc or musl, as on Alpine): install the package on this system, set ` +
      `LIBC=glibc or LIBC=musl if it was misjudged, or ${BUILD}`,
  ],
  [/undefined symbol: (napi_|node_api_)/, 'the binary needs a newer Node.js: use 20.17 or later'],
  [/cannot open shared object file/, 'install the library that the message names'],
  [
    /file too short|self-register|Cannot find module/,
    `the package is damaged: install it again, or ${BUILD}`,
  ],
];

function remedyFor({ message }: Failure): string {
  return REMEDIES.find(([pattern]) => pattern.test(message))?.[1] ?? BUILD;
}

const BUNDLED =
  'warpconv was bundled without its binary: leave it out of the bundle, and install it where the bundle runs. esbuild: ' +
  "--external:warpconv; webpack: externals: { warpconv: 'commonjs warpconv' }; Rollup: external: ['warpconv']; Vite: " +
  "ssr: { external: ['warpconv'] }; Next.js: serverExternalPackages: ['warpconv']";

/** Whether this file is where the package has it. */
function isBundled(root: string): boolean {
  try {
    const manifest = readFileSync(path.join(root, 'package.json'), 'utf8');
    return (JSON.parse(manifest) as { name?: unknown }).name !== 'warpconv';
  } catch {
    return true;
  }
}

/** What to do where no binary was found. */
function remedyForNone(root: string): string {
  if (isBundled(root)) return BUNDLED;
  const names = packagesOfPlatform(PACKAGES).map(([name]) => name);
  if (names.length === 0) return BUILD;
  return (
    `npm installs ${names.join(' or ')} beside warpconv, but not with --omit=optional, nor by a package-lock.json that was made on ` +
    `another platform: remove node_modules and package-lock.json and install again; or ${BUILD}`
  );
}

function explain(root: string, failures: readonly Failure[]): string {
  const target = `${process.platform}-${process.arch}, Node.js ${process.version}`;
  if (failures.length === 0)
    return `there is no native binary of warpconv for ${target} in ${root}\nTo do: ${remedyForNone(root)}`;
  const tried = failures.map(({ file, message }) => `  ${file}\n    ${message}`);
  const remedies = [...new Set(failures.map(remedyFor))].map((remedy) => `To do: ${remedy}`);
  return [`the native binary of warpconv did not load on ${target}; tried:`, ...tried, ...remedies].join(
    '\n',
  );
}
