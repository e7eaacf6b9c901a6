import path from 'node:path';

import { cacheFolder } from './cache_folder';

/**
 * Where `warpconv build` builds: in the package, or else in the user's cache, if there can be one.
 *
 * @param root - the directory of the package
 * @param version - its version: a cache outlives it
 */
export function ownBuilds(root: string, version: string): string[] {
  const inPackage = path.join(root, 'build');
  try {
    return [inPackage, path.join(cacheFolder(), `build-${version}-${process.platform}-${process.arch}`)];
  } catch {
    return [inPackage];
  }
}
