/** What the commands that take a model have in common: which model, what it is given, and where it runs. */
import { Misuse } from './command';
import type { Request } from './feeds';
import type { Precision } from '../conv2d/names';
import type { Device } from '../placement';

const text = { type: 'string' } as const;
const list = { type: 'string', multiple: true } as const;

export const MODEL_OPTIONS = {
  ...{ device: text, precision: text, threads: text, batch: text },
  ...{ shape: list, dim: list, fill: list },
  json: { type: 'boolean' },
} as const;

export const MODEL_OPTIONS_HELP = `
  --device NAME    'auto', 'cpu', 'cuda' or 'cuda:N'; auto takes a GPU if there is one (default)
  --precision P    the least exact products that may be made: fp32 (default), tf32, fp16 or bf16
  --threads N      CPU threads (default: one for each processor)
  --batch N        the batch, where the model leaves it open (default 1)
  --dim NAME=N     an extent that the model has by name; may be repeated
  --shape [INPUT=]1x3x224x224
                   dims of an input, or scalar; may be repeated
  --fill INPUT=NUMBER
                   the value of all elements of an input; may be repeated. Others are made up
  --json           print the result as JSON`;

interface ModelArguments {
  readonly device?: string;
  readonly precision?: string;
  readonly threads?: string;
  readonly batch?: string;
  readonly shape?: readonly string[];
  readonly dim?: readonly string[];
  readonly fill?: readonly string[];
}

/** @throws {@link Misuse} where there is not one model */
export function readModelFile(command: string, args: readonly string[]): string {
  if (args[0] !== undefined) return args[0];
  throw new Misuse(`${command} needs an ONNX file, for example: warpconv ${command} model.onnx`);
}

/** A device, as the command line takes it. */
export const DEVICE = /^(?:auto|cpu|cuda(?::\d{1,9})?)$/;

function readDevice({ device }: ModelArguments): Device | 'auto' {
  if (device === undefined || DEVICE.test(device)) return (device ?? 'auto') as Device | 'auto';
  throw new Misuse(`--device takes auto, cpu, cuda or cuda:N, got '${device}'`);
}

/** What a session is to compute in, and where; without a precision as the session has it. */
export interface Place {
  readonly device: Device | 'auto';
  readonly precision?: Precision;
}

export function readPlace({ precision, ...args }: ModelArguments): Place {
  const device = readDevice(args);
  if (precision === undefined) return { device };
  if (/^(fp32|tf32|fp16|bf16)$/.test(precision)) return { device, precision: precision as Precision };
  throw new Misuse(`--precision takes fp32, tf32, fp16 or bf16, got '${precision}'`);
}

/** What the inputs are to be. */
export function readRequest({ batch, shape = [], dim = [], fill = [] }: ModelArguments): Request {
  return {
    batch: readCount('batch', batch),
    shapes: new Map(shape.map((one) => readShape(one))),
    extents: new Map(dim.map((one) => readPair('dim', one, (number) => readCount('dim', number)!))),
    fills: new Map(fill.map((one) => readPair('fill', one, readNumber))),
  };
}

export function readCount(name: string, given: string | undefined, most = 2 ** 31 - 1): number | undefined {
  if (given === undefined) return undefined;
  const count = Number(given);
  if (/^\d+$/.test(given) && count >= 1 && count <= most) return count;
  throw new Misuse(`--${name} takes an integer from 1 to ${most}, got '${given}'`);
}

/** The name is empty where the model has but one input. */
function readShape(given: string): [input: string, dims: number[]] {
  const [, name = '', dims] = /^(?:(.*)=)?(\d+(?:x\d+)*|scalar)$/s.exec(given) ?? [];
  if (dims === 'scalar') return [name, []];
  if (dims !== undefined) return [name, dims.split('x').map(Number)];
  throw new Misuse(`--shape takes dims as in 1x3x224x224 or input=1x3x224x224, or scalar, got '${given}'`);
}

function readPair<T>(option: string, given: string, read: (text: string) => T): [name: string, value: T] {
  const at = given.lastIndexOf('=');
  if (at > 0) return [given.slice(0, at), read(given.slice(at + 1))];
  throw new Misuse(`--${option} takes a name and a number as in name=1, got '${given}'`);
}

function readNumber(given: string): number {
  const number = Number(given);
  if (given.trim() !== '' && !Number.isNaN(number)) return number;
  throw new Misuse(`--fill takes a name and a number as in name=1, got '${given}'`);
}
