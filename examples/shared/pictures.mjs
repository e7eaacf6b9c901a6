/** Files of pictures and models, and complaints about them. */
import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';

/** No model ends so. */
export const PICTURE = /\.(avif|bmp|gif|heic|jpe?g|png|svg|tiff?|webp)$/i;

export async function loadSharp() {
  try {
    return (await import('sharp')).default;
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error('sharp, which reads and writes pictures, is not installed: npm install sharp');
  }
}

/** What `work` makes of a file. Complaints begin with its name. */
export async function readNamed(file, work) {
  try {
    if ((await stat(file)).isDirectory()) throw new Error('is a directory');
    return await work(file);
  } catch (error) {
    throw Object.assign(new Error(`${file}: ${error.message}`, { cause: error }), { code: error.code });
  }
}

/** What the classes of a model are called: a name a line in model.txt beside model.onnx, or nothing where there is none. */
export async function readNames(model, file = model.replace(/\.onnx$/, '.txt')) {
  if (file === model || !existsSync(file)) return [];
  return (await readFile(file, 'utf8')).trimEnd().split(/\r?\n/);
}
