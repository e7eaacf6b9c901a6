// Hides sharp from whoever imports it, in this thread and in those that inherit this import.
import { register } from 'node:module';

const hooks = `export async function resolve(specifier, context, next) {
  if (specifier !== 'sharp') return next(specifier, context);
  throw Object.assign(new Error("Cannot find package 'sharp'"), { code: 'ERR_MODULE_NOT_FOUND' });
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
