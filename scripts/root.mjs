import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The directory of package.json. */
export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
