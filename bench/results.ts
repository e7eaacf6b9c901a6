/** The files in bench/results: NAME.json, what further measurements of the same day add, and the report. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { devices, type CpuInfo } from 'warpconv';

import { versionNow } from './version';

export const FOLDER = path.join(__dirname, 'results');
/** Times of single kernels, which constants are fitted to. */
export const DATA = path.join(__dirname, 'data');
/** Of what is drawn from them. */
export const PICTURES = path.join(__dirname, 'pictures');

/** How a report's pictures are had, which are not stored. */
export function drawnBy(name: string): string {
  return `Pictures of all this: \`npm run bench -- --pictures bench/results/${name}.json\`.`;
}

/** When and on what something was measured. */
export interface Circumstances {
  readonly date: string;
  readonly node: string;
  /** Of this package, with its commit; files of before have none */
  readonly version?: string;
  readonly cpu: CpuInfo;
  readonly processor: string;
  readonly quick: boolean;
}

export function circumstances(quick: boolean): Circumstances {
  const date = new Date().toISOString().slice(0, 10);
  const cpu = devices()[0] as CpuInfo;
  return { date, node: process.version, version: versionNow(), cpu, processor: processorOf(), quick };
}

/** What was measured, and under what. */
export function softwareOf({ version, node }: Circumstances): string {
  return `${version === undefined ? '' : `warpconv ${version}, `}Node.js ${node}`;
}

export function nameOf({ cpu, processor, date }: Circumstances): string {
  return `${slugOf(`${cpu.name} ${processor}`)}-${date}`;
}

/** What a device is called in the names of files. */
export function slugOf(device: string): string {
  return device.toLowerCase().replace(/[^a-z0-9]+/g, '-');
}

/** Quick measurements have a file of their own, so that they take the place of no thorough one. */
export function gpuFileName(gpu: string, date: string, quick: boolean, of = ''): string {
  return `${slugOf(gpu)}-${date}${of && `-${of}`}${quick ? '-quick' : ''}`;
}

/** Family and model: virtual machines of different processors often share a name. Empty where Linux does not tell. */
function processorOf(): string {
  try {
    const text = readFileSync('/proc/cpuinfo', 'utf8');
    const fact = (name: string) => new RegExp(`^${name}\\s*: (\\d+)`, 'm').exec(text)?.[1];
    const [family, model] = [fact('cpu family'), fact('model')];
    return family && model ? `family ${family} model ${model}` : '';
  } catch {
    return '';
  }
}

/** In one step, so that whoever is interrupted leaves the old file or the new one. */
export function writeText(file: string, text: string, folder = FOLDER): void {
  mkdirSync(folder, { recursive: true });
  const target = path.join(folder, file);
  writeFileSync(`${target}.new`, text);
  renameSync(`${target}.new`, target);
}

/** Into a folder that is not kept, and says where. */
export function writePicture(name: string, svg: string): void {
  writeText(`${name}.svg`, svg, PICTURES);
  console.log(path.relative(process.cwd(), path.join(PICTURES, `${name}.svg`)));
}

/** Compact, and to four digits: measurements repeat to two or three. */
export function writeJson(name: string, value: unknown, folder = FOLDER): void {
  const rounded = (_: string, one: unknown) =>
    typeof one === 'number' && !Number.isInteger(one) ? Number(one.toPrecision(4)) : one;
  writeText(`${name}.json`, `${JSON.stringify(value, rounded)}\n`, folder);
}

/** Nothing where that was not measured. */
export function readJson<T>(name: string, folder = FOLDER): T | undefined {
  try {
    return JSON.parse(readFileSync(path.join(folder, `${name}.json`), 'utf8')) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** What the scripts beside run.ts take: `--quick`, and `--name` and `--out` of the results that theirs belong to. */
export function scriptArguments(): {
  readonly quick: boolean;
  readonly name: string | undefined;
  readonly out: string;
} {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      name: { type: 'string' },
      out: { type: 'string', default: FOLDER },
    },
  });
  return { quick: values.quick, name: values.name, out: values.out };
}
