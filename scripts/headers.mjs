/**
 * Puts the headers of Node-API into dist/include/, where `warpconv build` finds them: the npm packages that they come from
 * are there while warpconv is developed, and not where it is installed.
 */
import { cpSync, mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { ROOT } from './root.mjs';

/** Folders of npm packages, and where their licences are. */
const SOURCES = [
  ['node-addon-api', '.', 'LICENSE.md'],
  ['node-api-headers', 'include', 'LICENSE'],
];

export function copyHeaders() {
  const to = path.join(ROOT, 'dist/include');
  mkdirSync(to, { recursive: true });
  for (const [name, folder, licence] of SOURCES) {
    const from = path.join(ROOT, 'node_modules', name);
    const headers = readdirSync(path.join(from, folder)).filter((file) => file.endsWith('.h'));
    for (const file of headers) cpSync(path.join(from, folder, file), path.join(to, file));
    cpSync(path.join(from, licence), path.join(to, `${name}-${licence}`));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) copyHeaders();
