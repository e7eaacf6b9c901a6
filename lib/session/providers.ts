/** onnxruntime's `executionProviders`, as a device. */
import {
  alternatives,
  checkInteger,
  checkList,
  invalid,
  isObject,
  MAX_INT32,
  mismatch,
  propertyOf,
} from '../check';
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
 * Where to run: the device, or what the first provider of ours computes on. `['cuda', 'cpu']` takes the CPU where there is no
 * GPU, `['cuda']` insists. Device `'auto'`, no list and an empty one leave it to the other.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` for a name that is no provider's and for a device that no
 * provider of the list computes on, `ERR_WARPCONV_UNSUPPORTED` where all are others'
 */
export function chooseDevice(device: Device | 'auto', providers: unknown): Device | 'auto' {
  if (providers === undefined) return device;
  const what = 'a list of names, and of objects with a name';
  const read = checkList('options.executionProviders', providers, what, readProvider);
  const wanted = read.filter((one) => one !== undefined);
  if (read.length > 0 && wanted.length === 0) {
    throw new WarpconvError(
      'ERR_WARPCONV_UNSUPPORTED',
      "options.executionProviders names none that there is here; add 'cpu', or 'cuda' for an NVIDIA GPU",
    );
  }
  if (device === 'auto') return deviceOf(wanted);
  if (wanted.length === 0 || wanted.some((one) => covers(one.device, device))) return device;
  throw invalid(
    `options.device is '${device}' and options.executionProviders says ${alternatives(wanted.map((one) => one.device))}; give one of the two, or both the same`,
  );
}

function deviceOf([first, ...others]: readonly Wanted[]): Device | 'auto' {
  if (first === undefined) return 'auto';
  const mayFallBack = first.device === 'cuda' && others.some(({ name }) => name !== 'cuda');
  return mayFallBack ? 'auto' : first.device;
}

/** Whether a provider of one device may run on the other. */
function covers(provided: Device | 'auto', device: Device): boolean {
  return provided === 'auto' || provided === device || (provided === 'cuda' && device.startsWith('cuda:'));
}

function readProvider(called: string, entry: unknown): Wanted | undefined {
  const name = isObject(entry) ? propertyOf(entry, 'name') : entry;
  if (typeof name === 'string' && ELSEWHERE.has(name)) return undefined;
  const provider = PROVIDERS.find((one) => one === name);
  if (provider === undefined) {
    const known = PROVIDERS.map((one) => `'${one}'`).join(', ');
    const what = `one of ${known}, or the name of another provider of onnxruntime`;
    throw invalid(`${mismatch(called, what, entry).message}${guessOf(name)}`);
  }
  if (provider !== 'cuda') return { name: provider, device: provider === 'cpu' ? 'cpu' : 'auto' };
  const index = isObject(entry) ? propertyOf(entry, 'deviceId') : undefined;
  if (index === undefined) return { name: provider, device: 'cuda' };
  return {
    name: provider,
    device: `cuda:${checkInteger(`${called}.deviceId`, index, { min: 0, max: MAX_INT32 })}`,
  };
}

/** Python's names are `'CPUExecutionProvider'` and their like. */
function guessOf(name: unknown): string {
  if (typeof name !== 'string') return '';
  const short = name.replace(/ExecutionProvider$/, '').toLowerCase();
  return PROVIDERS.some((one) => one === short) || ELSEWHERE.has(short) ? `; did you mean '${short}'?` : '';
}
