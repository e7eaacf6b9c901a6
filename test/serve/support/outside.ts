import type { createRequire } from 'node:module';
import vm from 'node:vm';

interface RealProcess {
  getBuiltinModule(name: string): { createRequire: typeof createRequire };
}

const process = vm.runInThisContext('process') as RealProcess;

/** Loads a module as Node.js does, apart from Jest's. */
export const load = process.getBuiltinModule('node:module').createRequire(__filename);
