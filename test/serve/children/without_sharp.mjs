// Makes the import of sharp fail, in this thread and in those that inherit this import. It looks as if sharp were not
// installed, or, with BROKEN_SHARP in the environment, as if its binary did not load.
import { register } from 'node:module';

const hooks = `export async function resolve(specifier, context, next) {
  if (specifier !== 'sharp') return next(specifier, context);
  throw ${'BROKEN_SHARP' in process.env} ? new Error('Could not load the "sharp" module')
    : Object.assign(new Error("Cannot find package 'sharp'"), { code: 'ERR_MODULE_NOT_FOUND' });
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
