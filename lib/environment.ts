/** What programs written for onnxruntime read and set beside sessions and tensors. */
import { checkName, checkNumber, isObject, mismatch } from './check';
import { devices } from './devices';
import { packageVersion } from './load';

/** In the shape of onnxruntime-common's `Env`. */
export interface Env {
  logLevel?: 'verbose' | 'info' | 'warning' | 'error' | 'fatal';
  debug?: boolean;
  trace?: boolean;
  /** Of this package. */
  readonly versions: { readonly common: string; readonly node: string };
  readonly wasm: Record<string, unknown>;
  readonly webgl: Record<string, unknown>;
  readonly webgpu: Record<string, unknown>;
  [name: string]: unknown;
}

const version = packageVersion();

/**
 * onnxruntime's settings, so that code can move over. All can be set, and none has an effect: `setThreads` and the options of
 * sessions say how to compute, and `DEBUG=warpconv:*` what to tell of it.
 */
export const env: Env = {
  logLevel: 'warning',
  versions: { common: version, node: version },
  wasm: {},
  webgl: {},
  webgpu: {},
};

/** An execution provider that sessions may name. */
export interface SupportedBackend {
  readonly name: 'cpu' | 'cuda';
  /** Whether it needs no other package. */
  readonly bundled: boolean;
}

/**
 * onnxruntime-common's, so that code can move over: other backends are taken, and without effect, since sessions are always of
 * this package. `'warpconv/onnxruntime'` is this package as a backend of onnxruntime.
 */
export function registerBackend(name: string, backend: object, priority = 0): void {
  checkName('name', name);
  if (!isObject(backend)) throw mismatch('backend', 'an object', backend);
  checkNumber('priority', priority);
}

/** As onnxruntime-node's: `'cuda'` where there is a usable GPU, and always `'cpu'`. */
export function listSupportedBackends(): SupportedBackend[] {
  const hasGpu = devices().some(({ type, available }) => type === 'cuda' && available);
  return [...(hasGpu ? [{ name: 'cuda', bundled: true } as const] : []), { name: 'cpu', bundled: true }];
}
