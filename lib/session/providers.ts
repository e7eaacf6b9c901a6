/** onnxruntime's `executionProviders`, as a device. */
import { checkInteger, checkList, isObject, MAX_INT32, mismatch, propertyOf } from '../check';
import { WarpconvError } from '../errors';
import type { Device } from '../placement';

/** Those that there are here; `'warpconv'` takes the GPU that there is, or the CPU. */
const PROVIDERS = ['cpu', 'cuda', 'warpconv'] as const;
type Provider = (typeof PROVIDERS)[number];

/** onnxruntime's others: passed over where one of ours is named, too. */
const ELSEWHERE = new Set(
  'coreml dml migraphx nnapi openvino qnn rocm tensorrt wasm webgl webgpu webnn xnnpack'.split(' '),
);

interface Wanted {
  readonly name: Provider;
  readonly device: Device | 'auto';
}

/**
 * The device that the first provider of ours computes on; `undefined` for no list and for an empty one. `['cuda', 'cpu']` takes
 * the CPU where there is no GPU, `['cuda']` insists.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` for a name that is no provider's, `ERR_WARPCONV_UNSUPPORTED` where
 * all are others'
 */
export function deviceOfProviders(value: unknown): Device | 'auto' | undefined {
  if (value === undefined) return undefined;
  const what = 'a list of names, and of objects with a name';
  const read = checkList('options.executionProviders', value, what, readProvider);
  const [first, ...others] = read.filter((one) => one !== undefined);
  if (first !== undefined) {
    const mayFallBack = first.device === 'cuda' && others.some(({ name }) => name !== 'cuda');
    return mayFallBack ? 'auto' : first.device;
  }
  if (read.length === 0) return undefined;
  throw new WarpconvError(
    'ERR_WARPCONV_UNSUPPORTED',
    "options.executionProviders names none that there is here; add 'cpu', or 'cuda' for an NVIDIA GPU",
  );
}

function readProvider(called: string, entry: unknown): Wanted | undefined {
  const name = isObject(entry) ? propertyOf(entry, 'name') : entry;
  if (typeof name === 'string' && ELSEWHERE.has(name)) return undefined;
  const provider = PROVIDERS.find((one) => one === name);
  if (provider === undefined) {
    const known = PROVIDERS.map((one) => `'${one}'`).join(', ');
    throw mismatch(called, `one of ${known}, or the name of another provider of onnxruntime`, entry);
  }
  if (provider !== 'cuda') return { name: provider, device: provider === 'cpu' ? 'cpu' : 'auto' };
  const index = isObject(entry) ? propertyOf(entry, 'deviceId') : undefined;
  if (index === undefined) return { name: provider, device: 'cuda' };
  return {
    name: provider,
    device: `cuda:${checkInteger(`${called}.deviceId`, index, { min: 0, max: MAX_INT32 })}`,
  };
}
