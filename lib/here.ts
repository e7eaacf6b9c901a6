/** Where this package lies: in its folder, or in a bundle that a tool made of it and a program. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** This file, or the bundle that has it. An ES module has no `__filename`, and Turbopack's names no file. */
const HERE =
  typeof __filename === 'string' && existsSync(__filename)
    ? __filename
    : path.resolve(fileOfThisCode() ?? process.argv[1] ?? 'index.js');

/** As V8 tells it: an ES module knows its file by `import.meta`, which cannot be written in CommonJS. */
function fileOfThisCode(): string | undefined {
  // Not called, only put back.
  // eslint-disable-next-line @typescript-eslint/unbound-method
  const { prepareStackTrace } = Error;
  Error.prepareStackTrace = (_, sites) => sites[0]?.getFileName();
  const file = new Error().stack;
  Error.prepareStackTrace = prepareStackTrace;
  return file?.startsWith('file:') ? fileURLToPath(file) : file;
}

/** Bundlers do not look into it. */
export const requireHere = createRequire(HERE);

/** The directory of package.json: one above this file, in `lib/` and in `dist/` alike. */
export const PACKAGE_ROOT = path.resolve(HERE, '../..');

/** The directories of the bundle and of the program's main file, or of the executable that has both in it. */
export function bundleFolders(): string[] {
  if (isExecutable()) return [path.dirname(process.execPath)];
  const main = process.argv[1] === undefined ? [] : [path.resolve(process.argv[1], '..')];
  return [...new Set([path.dirname(HERE), ...main])];
}

/** Whether the program is one executable file, which has no packages beside it: of Node.js, or of Bun. */
export function isExecutable(): boolean {
  return HERE === process.execPath || /[\\/](\$bunfs|~BUN)[\\/]/.test(HERE);
}

/** Whether `root` is not the package's own directory. */
export function isBundled(root = PACKAGE_ROOT): boolean {
  try {
    const manifest = readFileSync(path.join(root, 'package.json'), 'utf8');
    return (JSON.parse(manifest) as { name?: unknown }).name !== 'warpconv';
  } catch {
    return true;
  }
}
