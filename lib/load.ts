/** Finds the native binary and loads it. */
import createDebug from 'debug';
import nodeGypBuild from 'node-gyp-build';
import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import path from 'node:path';

import type { Addon } from './addon';
import { isObject } from './check';
import { WarpconvError } from './errors';
import { bundleFolders, isBundled, PACKAGE_ROOT, requireHere } from './here';
import { explain, type Failure } from './load_failure';
import { ownBuilds } from './own_builds';

const debug = createDebug('warpconv:load');

/** The version of the package. */
export function packageVersion(): string {
  // Written so that bundlers see it and take the file along.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  return (require('../package.json') as { version: string }).version;
}

/** Defined in what webpack and its relatives make. */
declare const __webpack_require__: unknown;

/** The platforms that have a package with their binary. npm installs the one that fits. scripts/targets.mjs has them, too. */
const TARGETS = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-x64',
];

/**
 * The file of a package.
 *
 * @throws where it is not installed
 */
function packageFile(name: string): string {
  const file = fileByLiteral(name);
  // `bun build` writes into the bundle where the file was.
  return file !== undefined && existsSync(file) ? file : requireHere.resolve(name);
}

/**
 * Names are written out because tracers follow no others. webpack and Turbopack take binaries for JavaScript, and skip a
 * branch whose test they know. Turbopack knows NEXT_RUNTIME where it bundles, but not where it traces. esbuild accepts
 * within `try` that most are not installed.
 */
function fileByLiteral(name: string): string | undefined {
  if (typeof __webpack_require__ !== 'function' && !process.env.NEXT_RUNTIME) {
    try {
      switch (name) {
        case '@warpconv/darwin-arm64':
          return require.resolve('@warpconv/darwin-arm64');
        case '@warpconv/darwin-x64':
          return require.resolve('@warpconv/darwin-x64');
        case '@warpconv/linux-arm64-gnu':
          return require.resolve('@warpconv/linux-arm64-gnu');
        case '@warpconv/linux-arm64-musl':
          return require.resolve('@warpconv/linux-arm64-musl');
        case '@warpconv/linux-x64-gnu':
          return require.resolve('@warpconv/linux-x64-gnu');
        case '@warpconv/linux-x64-musl':
          return require.resolve('@warpconv/linux-x64-musl');
        case '@warpconv/win32-x64':
          return require.resolve('@warpconv/win32-x64');
      }
    } catch {
      // An ES module that was bundled has no `require.resolve`.
    }
  }
  return undefined;
}

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

/**
 * Loads the first binary that loads: of the package's own build, of its prebuilds, or of the packages for the platform.
 * In a bundle it is the file beside that, or such a package.
 *
 * @param root - the directory of the package
 * @param open - loads one file
 * @param find - the file of a package with a binary
 * @throws {@link WarpconvError} `ERR_WARPCONV_LOAD_FAILED`
 */
export function loadBinary(
  root: string,
  open: (file: string) => unknown = requireHere,
  find: (name: string) => string = packageFile,
): LoadedBinary {
  const failures: Failure[] = [];
  const named = namedFolder();
  // Who names a folder wants what is there.
  const names = named === undefined ? packagesOfPlatform() : [];
  const candidates = [
    ...files(root).map((file) => [file, () => file] as const),
    ...names.map((name) => [name, () => find(name)] as const),
  ];
  for (const [file, locate] of candidates) {
    try {
      const place = locate();
      requireWhole(place);
      const binary = open(place);
      if (!isObject(binary)) throw new Error(`it gives ${String(binary)} instead of an addon`);
      const { version } = binary as Partial<Addon>;
      if (version !== packageVersion()) throw new Error(otherVersion(version));
      debug('loaded %s', file);
      return { addon: binary as Addon, file };
    } catch (error) {
      debug('cannot load %s: %O', file, error);
      if (!isMissing(error, file)) failures.push({ file, message: messageOf(error) });
    }
  }
  const others = TARGETS.map(packageName).filter((name) => isInstalled(name, find));
  throw new WarpconvError('ERR_WARPCONV_LOAD_FAILED', explain({ root, named, failures, names, others }));
}

function otherVersion(version: string | undefined): string {
  return `it is of ${version === undefined ? 'another version' : `version ${version}`} and this is warpconv ${packageVersion()}`;
}

const ELF = Buffer.from('\x7fELF\x02\x01', 'latin1');
const ELF_HEADER = 64;

/** Loading an ELF file that is cut off ends the process by SIGBUS. Its last part is the table of its sections. */
function requireWhole(file: string): void {
  if (process.platform !== 'linux' || !isFile(file)) return;
  const header = headerOf(file);
  if (!header?.subarray(0, ELF.length).equals(ELF)) return;
  const end = Number(header.readBigUInt64LE(40)) + header.readUInt16LE(58) * header.readUInt16LE(60);
  const { size } = statSync(file);
  if (size < end) throw new Error(`file too short: it has ${size} bytes, and should have ${end}`);
}

/** Undefined where only loading opens the file, as in a program by pkg. What else is wrong with it, loading says. */
function headerOf(file: string): Buffer | undefined {
  const header = Buffer.alloc(ELF_HEADER);
  let descriptor: number | undefined;
  try {
    descriptor = openSync(file, 'r');
    readSync(descriptor, header, 0, ELF_HEADER, 0);
    return header;
  } catch {
    return undefined;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

const packageName = (target: string) => `@warpconv/${target}`;

/** Those for any C library: npm installs the right one, where it knows, and another one does not load. */
function packagesOfPlatform(): string[] {
  const platform = `${process.platform}-${process.arch}`;
  return TARGETS.filter((target) => target === platform || target.startsWith(`${platform}-`)).map(
    packageName,
  );
}

function isInstalled(name: string, find: (name: string) => string): boolean {
  try {
    find(name);
    return true;
  } catch {
    return false;
  }
}

/** Whether the package itself is not there, rather than something that it needs. */
function isMissing(error: unknown, name: string): boolean {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return code === 'MODULE_NOT_FOUND' && messageOf(error).includes(`'${name}'`);
}

/** Where the user says that the binary is, if anywhere. */
function namedFolder(): string | undefined {
  const { WARPCONV_PREBUILD } = process.env;
  return WARPCONV_PREBUILD ? path.resolve(WARPCONV_PREBUILD) : undefined;
}

/** The files to try: what was built here, node-gyp-build's choice, then everything else that might do. */
function files(root: string): string[] {
  const named = namedFolder();
  // What lies around a bundle is the program's: its build/Release has other addons.
  if (isBundled(root)) return (named === undefined ? bundleFolders() : [named]).map(inFolder).filter(isFile);
  const prebuildRoot = named ?? root;
  const own = named === undefined ? ownBuilds(root, packageVersion()) : [path.join(named, 'build')];
  const builds = process.env.PREBUILDS_ONLY
    ? []
    : [...own.map((build) => path.join(build, 'Release')), path.join(prebuildRoot, 'build/Debug')];
  const prebuilds = path.join(prebuildRoot, 'prebuilds', `${process.platform}-${process.arch}`);
  return [
    ...new Set([
      ...(named === undefined ? [] : [inFolder(named)].filter(isFile)),
      ...builds.flatMap(binariesIn),
      ...preferred(root),
      ...binariesIn(prebuilds),
    ]),
  ];
}

const inFolder = (folder: string) => path.join(folder, 'warpconv.node');
// An executable of pkg takes no options of statSync for the files within it.
const isFile = (file: string) => existsSync(file) && statSync(file).isFile();
const isFolder = (folder: string) => existsSync(folder) && statSync(folder).isDirectory();

function preferred(root: string): string[] {
  try {
    return [path.resolve(nodeGypBuild.path(root))];
  } catch (error) {
    debug('node-gyp-build: %s', messageOf(error));
    return [];
  }
}

function binariesIn(folder: string): string[] {
  if (!isFolder(folder)) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith('.node'));
  return names.sort().map((name) => path.join(folder, name));
}

function messageOf(error: unknown): string {
  // Any realm's Error, and whatever else a binary throws.
  const message = (error as { message?: unknown } | null | undefined)?.message ?? error;
  return String(message).split('\n')[0]!;
}
