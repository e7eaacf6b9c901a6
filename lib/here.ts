/** Where this package lies: in its folder, or in a bundle that a tool made of it and a program. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

/**
 * This file, or the bundle that has it. In a bundle that is an ES module there is no `__filename`, and Turbopack's names no
 * file: the program's main file stands for it.
 */
const HERE =
  typeof __filename === 'string' && existsSync(__filename)
    ? __filename
    : (process.argv[1] ?? path.join(process.cwd(), 'index.js'));

/** Bundlers do not look into it. */
export const requireHere = createRequire(HERE);

/** The directory of package.json: one above this file, in `lib/` and in `dist/` alike. */
export const PACKAGE_ROOT = path.resolve(HERE, '../..');

/** The directories of the bundle and of the program's main file. */
export function bundleFolders(): string[] {
  const main = process.argv[1] === undefined ? [] : [path.dirname(process.argv[1])];
  return [...new Set([path.dirname(HERE), ...main])];
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
