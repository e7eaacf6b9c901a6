/** `npx warpconv compare`: one convolution beside cuDNN, as a table. */
import { command, Misuse } from './command';
import { table } from './table';
import type { CudnnComparison } from '../conv2d/compare';
import type { CompareOptions } from '../conv2d/options';
import type { FloatType } from '../native_types';
import { admit } from '../tensor/allocation';
import { Tensor } from '../tensor/tensor';
import { FLOAT_TYPES } from '../tensor/tensor_like';

const text = { type: 'string' } as const;

export const compareCommand = command({
  name: 'compare',
  summary: "run one convolution on a GPU beside cuDNN's fastest algorithm",
  synopsis: 'compare --input NxCxHxW --weight KxCxRxS [options]',
  help: `
Run one convolution of random numbers on a GPU beside cuDNN's fastest algorithm,
in whichever layout that is, judge both against double precision and time them.
It exits with 0 when the result is within the tolerance.

  --input NxCxHxW   dims of the input
  --weight KxCxRxS  dims of the filters
  --stride N        also 1x2: height and width
  --padding N       also 1x2, or 1x1x0x0: top, left, bottom and right; 'same' or 'valid'
  --dilation N      also 1x2
  --groups N
  --type T          float16 or bfloat16 tensors instead of float32
  --layout L        nhwc: dims of the input are NxHxWxC, and the output's likewise
  --precision P     fp32, tf32, fp16 or bf16; by default the type's
  --algorithm NAME  pin an algorithm of warpconv
  --variant NAME    pin its variant
  --device cuda:N   which GPU
  --json            print the result as JSON
`,
  options: {
    ...{ input: text, weight: text, stride: text, padding: text, dilation: text, groups: text },
    ...{ type: text, layout: text, precision: text },
    ...{ algorithm: text, variant: text, device: text, json: { type: 'boolean' } },
  },
  mostArguments: 0,
  async run({ json = false, ...args }) {
    const request = readArguments(args);
    if (typeof request === 'string') throw new Misuse(request);
    const { compareWithCudnn } = await import('../conv2d/compare.js');
    const result = await compareWithCudnn(request.input, request.weight, request.options);
    process.stdout.write(`${json ? JSON.stringify(result, null, 2) : formatComparison(result)}\n`);
    return result.withinTolerance ? 0 : 1;
  },
});

/** Options of the command line, as text. */
interface CompareArguments {
  readonly input?: string;
  readonly weight?: string;
  readonly stride?: string;
  readonly padding?: string;
  readonly dilation?: string;
  readonly groups?: string;
  readonly type?: string;
  readonly layout?: string;
  readonly precision?: string;
  readonly algorithm?: string;
  readonly variant?: string;
  readonly device?: string;
}

interface CompareRequest {
  readonly input: Tensor<FloatType>;
  readonly weight: Tensor<FloatType>;
  readonly options: CompareOptions;
}

/** What the arguments ask for, with random tensors; a sentence where they do not say it. */
function readArguments(args: CompareArguments): CompareRequest | string {
  const inputDims = args.input === undefined ? undefined : extents(args.input);
  const weightDims = args.weight === undefined ? undefined : extents(args.weight);
  if (inputDims?.length !== 4) return `compare needs --input NxCxHxW, for example --input 1x64x56x56`;
  if (weightDims?.length !== 4) return `compare needs --weight KxCxRxS, for example --weight 64x64x3x3`;
  const { type = 'float32' } = args;
  if (!isFloatType(type)) return `--type takes ${FLOAT_TYPES.join(', ')}, got ${type}`;
  const options: Record<string, unknown> = {};
  for (const name of ['stride', 'padding', 'dilation'] as const) {
    const value = args[name];
    if (value !== undefined) options[name] = oneOrMore(value);
  }
  if (args.groups !== undefined) options.groups = Number(args.groups);
  for (const name of ['layout', 'precision', 'algorithm', 'variant', 'device'] as const) {
    if (args[name] !== undefined) options[name] = args[name];
  }
  return { input: random(type, inputDims), weight: random(type, weightDims), options };
}

const isFloatType = (type: string): type is FloatType => (FLOAT_TYPES as readonly string[]).includes(type);

/** `3` as a number, `1x2` as a list, a word as it is. */
function oneOrMore(text: string): number | number[] | string {
  const numbers = extents(text);
  if (numbers === undefined) return text;
  return numbers.length === 1 ? numbers[0]! : numbers;
}

function extents(text: string): number[] | undefined {
  // Longer numbers are beyond what counts there are.
  return /^\d{1,10}(x\d{1,10})*$/.test(text) ? text.split('x').map(Number) : undefined;
}

function random(type: FloatType, dims: readonly number[]): Tensor<FloatType> {
  const size = dims.reduce((product, extent) => product * extent, 1);
  const numbers = { length: size };
  const draw = () => 2 * Math.random() - 1;
  // Numbers are made as a list first.
  admit({ what: 'random numbers', dims, bytes: size * Float64Array.BYTES_PER_ELEMENT });
  return type === 'float32'
    ? new Tensor('float32', Float32Array.from(numbers, draw), dims)
    : new Tensor<FloatType>(type, Array.from(numbers, draw), dims);
}

function formatComparison(result: CudnnComparison): string {
  const rows = [
    ['', 'algorithm', 'milliseconds', 'workspace', 'error', 'relative error'],
    row(
      'warpconv',
      result.algorithm,
      result.milliseconds,
      result.workspaceBytes,
      result.maxError,
      result.maxRelativeError,
    ),
    row(
      `cuDNN ${result.cudnnVersion} ${result.cudnnLayout.toUpperCase()}`,
      result.cudnnAlgorithm,
      result.cudnnMilliseconds,
      result.cudnnWorkspaceBytes,
      result.cudnnMaxError,
      result.cudnnMaxRelativeError,
    ),
  ];
  const verdict = result.withinTolerance ? 'within' : 'OUTSIDE';
  return `${table(rows)}speed-up ${result.speedup.toFixed(2)} × on ${result.device}; warpconv is ${verdict} the tolerance of ${result.precision}`;
}

function row(
  name: string,
  algorithm: string,
  milliseconds: number,
  workspaceBytes: number,
  error: number,
  relativeError: number,
): string[] {
  return [
    name,
    algorithm,
    milliseconds.toFixed(4),
    `${(workspaceBytes / 2 ** 20).toFixed(1)} MiB`,
    error.toExponential(1),
    relativeError.toExponential(1),
  ];
}
