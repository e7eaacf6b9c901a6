/** Where NVIDIA's cuDNN and cuBLAS may be: they are never linked or installed with the package. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

interface NvidiaLibrary {
  /** As in `lib<name>.so` */
  readonly name: string;
  /** The environment variable in which a user names a file or a folder */
  readonly variable: string;
  /** Where wheels of Python put it, below `site-packages` */
  readonly wheels: readonly string[];
  /** For the loader, where the system knows it; newest first */
  readonly versions: readonly number[];
}

export const CUDNN: NvidiaLibrary = {
  name: 'cudnn',
  variable: 'WARPCONV_CUDNN',
  wheels: ['nvidia/cudnn/lib'],
  versions: [9, 8],
};

export const CUBLAS: NvidiaLibrary = {
  name: 'cublas',
  variable: 'WARPCONV_CUBLAS',
  wheels: ['nvidia/cu13/lib', 'nvidia/cublas/lib'],
  versions: [13, 12],
};

/** The files in the usual places, a place named by the user first. */
export function findLibrary(library: NvidiaLibrary): string[] {
  const { [library.variable]: named, LD_LIBRARY_PATH = '' } = process.env;
  const places = [
    ...(named ? [named] : []),
    ...LD_LIBRARY_PATH.split(':').filter(Boolean),
    ...librariesOfCache(library),
    `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`,
    '/usr/local/cuda/lib64',
    ...wheels(library),
  ];
  return places.map((place) => libraryAt(place, library)).filter((file) => file !== undefined);
}

/** Everything that is worth a try: the files that were found, and names for the loader. */
export function libraryNames(library: NvidiaLibrary): string[] {
  return [...findLibrary(library), ...library.versions.map((version) => `lib${library.name}.so.${version}`)];
}

/** Where `pip install` puts it, in the environment in use and in the system's and the user's own. */
function wheels(library: NvidiaLibrary): string[] {
  const { VIRTUAL_ENV, CONDA_PREFIX } = process.env;
  const roots = [VIRTUAL_ENV, CONDA_PREFIX, '/usr/local', '/usr', path.join(homedir(), '.local')];
  return roots
    .filter((root) => root !== undefined)
    .flatMap((root) => pythonsIn(path.join(root, 'lib')))
    .flatMap((python) => ['site-packages', 'dist-packages'].map((kind) => path.join(python, kind)))
    .flatMap((packages) => library.wheels.map((folder) => path.join(packages, folder)));
}

function pythonsIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((entry) => /^python3/.test(entry))
    .map((entry) => path.join(folder, entry));
}

function libraryAt(place: string, { name }: NvidiaLibrary): string | undefined {
  if (!existsSync(place)) return undefined;
  if (!statSync(place).isDirectory()) return place;
  const file = new RegExp(`^lib${name}\\.so(\\.\\d+)*$`);
  const found = readdirSync(place).find((entry) => file.test(entry));
  return found && path.join(place, found);
}

function librariesOfCache({ name }: NvidiaLibrary): string[] {
  const line = new RegExp(`^\\s*lib${name}\\.so\\S* .* => (.+)$`, 'gm');
  return [...(loaderCache ??= readLoaderCache()).matchAll(line)].map((match) => match[1]!);
}

let loaderCache: string | undefined;

function readLoaderCache(): string {
  try {
    return execFileSync('ldconfig', ['-p'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return ''; // no ldconfig on this system, or not on the PATH
  }
}
