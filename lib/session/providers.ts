/** onnxruntime's `executionProviders`: a device, and options of ours beside our name. */
import {
  alternatives,
  checkInteger,
  checkList,
  invalid,
  isObject,
  MAX_INT32,
  mismatch,
  propertyOf,
  readProperties,
} from '../check';
import { WarpconvError } from '../errors';
import { checkDeviceOrAuto, type Device } from '../placement';

/** Those that there are here; `'warpconv'` takes the GPU that there is, or the CPU. */
const PROVIDERS = ['cpu', 'cuda', 'warpconv'] as const;
type Provider = (typeof PROVIDERS)[number];

/** onnxruntime's others: passed over where one of ours is named, too. */
const ELSEWHERE = new Set(
  'coreml dml migraphx nnapi openvino qnn rocm tensorrt wasm webgl webgpu webnn xnnpack'.split(' '),
);

/** A provider of ours that a list names. */
export interface ListedProvider {
  /** The entry as the caller wrote it, for example `options.executionProviders[0]` */
  readonly called: string;
  readonly name: Provider;
  readonly device: Device | 'auto';
  /** Those of the session that stand beside our own name; `undefined` where one does not */
  readonly options: Readonly<Record<string, unknown>>;
}

/**
 * The providers of ours in a list.
 *
 * @param known - the options that `'warpconv'` takes beside its name, each `undefined`
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` for a name that is no provider's and for options that it does
 * not take, `ERR_WARPCONV_UNSUPPORTED` where all are others'
 */
export function readProviders(list: unknown, known: object): readonly ListedProvider[] {
  if (list === undefined) return [];
  const what = 'a list of names, and of objects with a name';
  const read = checkList('options.executionProviders', list, what, (called, entry) =>
    readProvider(called, entry, known),
  );
  const listed = read.filter((one) => one !== undefined);
  if (read.length > 0 && listed.length === 0) {
    throw new WarpconvError(
      'ERR_WARPCONV_UNSUPPORTED',
      "options.executionProviders names none that there is here; add 'cpu', or 'cuda' for an NVIDIA GPU",
    );
  }
  return listed;
}

/**
 * Where to run: the device, or what the first provider computes on. `['cuda', 'cpu']` takes the CPU where there is no GPU,
 * `['cuda']` insists. Device `'auto'` and an empty list leave it to the other.
 *
 * @throws {@link WarpconvError} `ERR_WARPCONV_INVALID_ARGUMENT` for a device that no provider of the list computes on
 */
export function chooseDevice(device: Device | 'auto', providers: readonly ListedProvider[]): Device | 'auto' {
  if (device === 'auto') return deviceOf(providers);
  if (providers.length === 0 || providers.some((one) => covers(one.device, device))) return device;
  throw invalid(
    `options.device is '${device}' and options.executionProviders says ${alternatives(providers.map((one) => one.device))}; give one of the two, or both the same`,
  );
}

function deviceOf([first, ...others]: readonly ListedProvider[]): Device | 'auto' {
  if (first === undefined) return 'auto';
  const isAnyGpu = first.name === 'cuda' && first.device === 'cuda';
  return isAnyGpu && others.some(({ name }) => name !== 'cuda') ? 'auto' : first.device;
}

/** Whether a provider of one device may run on the other. */
function covers(provided: Device | 'auto', device: Device): boolean {
  return provided === 'auto' || provided === device || (provided === 'cuda' && device.startsWith('cuda:'));
}

function readProvider(called: string, entry: unknown, known: object): ListedProvider | undefined {
  const name = isObject(entry) ? propertyOf(entry, 'name') : entry;
  if (typeof name === 'string' && ELSEWHERE.has(name)) return undefined;
  const provider = PROVIDERS.find((one) => one === name);
  if (provider === undefined) {
    const names = PROVIDERS.map((one) => `'${one}'`).join(', ');
    const what = `one of ${names}, or the name of another provider of onnxruntime`;
    throw invalid(`${mismatch(called, what, entry).message}${guessOf(name)}`);
  }
  const beside = isObject(entry) ? entry : {};
  if (provider !== 'warpconv')
    return { called, name: provider, device: deviceBeside(called, provider, beside), options: {} };
  const { device = 'auto', ...options } = readProperties<Record<string, unknown>>(called, beside, {
    name: undefined,
    ...known,
  });
  return { called, name: provider, device: checkDeviceOrAuto(`${called}.device`, device), options };
}

/** That of a provider of onnxruntime's own, which takes what it takes there. */
function deviceBeside(called: string, name: 'cpu' | 'cuda', beside: object): Device {
  if (name === 'cpu') {
    readProperties(called, beside, { name: undefined, useArena: undefined });
    return 'cpu';
  }
  const { deviceId } = readProperties(called, beside, { name: undefined, deviceId: undefined });
  if (deviceId === undefined) return 'cuda';
  return `cuda:${checkInteger(`${called}.deviceId`, deviceId, { min: 0, max: MAX_INT32 })}`;
}

/** Python's names are `'CPUExecutionProvider'` and their like. */
function guessOf(name: unknown): string {
  if (typeof name !== 'string') return '';
  const short = name.replace(/ExecutionProvider$/, '').toLowerCase();
  return PROVIDERS.some((one) => one === short) || ELSEWHERE.has(short) ? `; did you mean '${short}'?` : '';
}
