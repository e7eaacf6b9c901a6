import { homedir } from 'node:os';
import path from 'node:path';

/**
 * Where this user's caches of the package are. Throws where there is no home directory to have them in.
 *
 * It is where env-paths would put them; that package is ESM only, which CommonJS of Node.js 20 cannot load.
 */
export function cacheFolder(): string {
  const { WARPCONV_CACHE_DIR, XDG_CACHE_HOME, LOCALAPPDATA } = process.env;
  if (WARPCONV_CACHE_DIR) return path.resolve(WARPCONV_CACHE_DIR);
  if (process.platform === 'win32') {
    return path.join(LOCALAPPDATA || path.join(home(), 'AppData', 'Local'), 'warpconv', 'Cache');
  }
  if (process.platform === 'darwin') return path.join(home(), 'Library', 'Caches', 'warpconv');
  // The XDG specification has relative paths ignored.
  const caches =
    XDG_CACHE_HOME && path.isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : path.join(home(), '.cache');
  return path.join(caches, 'warpconv');
}

function home(): string {
  const folder = homedir();
  if (path.isAbsolute(folder)) return folder;
  // It would lie in whatever directory the process was started in.
  throw new Error(`the home directory is '${folder}', and should be an absolute path`);
}
