/** Where NVIDIA's cuDNN may be: it is never linked or installed with the package. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/** The cuDNN libraries in the usual places, a place named by the user first. */
export function findCudnn(): string[] {
  const { WARPCONV_CUDNN, LD_LIBRARY_PATH = '' } = process.env;
  const places = [
    ...(WARPCONV_CUDNN ? [WARPCONV_CUDNN] : []),
    ...LD_LIBRARY_PATH.split(':').filter(Boolean),
    ...librariesOfCache(),
    `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`,
    '/usr/local/cuda/lib64',
    ...wheels(),
  ];
  return places.map(cudnnAt).filter((file) => file !== undefined);
}

/** Where `pip install nvidia-cudnn-cu13` puts it, in the environment in use and in the system's and the user's own. */
function wheels(): string[] {
  const { VIRTUAL_ENV, CONDA_PREFIX } = process.env;
  const roots = [VIRTUAL_ENV, CONDA_PREFIX, '/usr/local', '/usr', path.join(homedir(), '.local')];
  return roots
    .filter((root) => root !== undefined)
    .flatMap((root) => pythonsIn(path.join(root, 'lib')))
    .flatMap((python) =>
      ['site-packages', 'dist-packages'].map((kind) => path.join(python, kind, 'nvidia/cudnn/lib')),
    );
}

function pythonsIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((entry) => /^python3/.test(entry))
    .map((entry) => path.join(folder, entry));
}

function cudnnAt(place: string): string | undefined {
  if (!existsSync(place)) return undefined;
  if (!statSync(place).isDirectory()) return place;
  const name = readdirSync(place).find((entry) => /^libcudnn\.so(\.\d+)*$/.test(entry));
  return name && path.join(place, name);
}

function librariesOfCache(): string[] {
  try {
    const listing = execFileSync('ldconfig', ['-p'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return [...listing.matchAll(/^\s*libcudnn\.so\S* .* => (.+)$/gm)].map((match) => match[1]!);
  } catch {
    return []; // no ldconfig on this system, or not on the PATH
  }
}
