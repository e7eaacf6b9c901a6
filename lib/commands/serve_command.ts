/** `npx warpconv serve`: ONNX files over HTTP. */
import { statSync } from 'node:fs';
import path from 'node:path';

import { command, Misuse } from './command';
import { DEVICE } from './model_options';
import { leaveSignals } from './serve_signals';
import {
  ADDRESS_HELP,
  ADDRESS_OPTIONS,
  explainAddress,
  readAddress,
  type AddressArguments,
} from './serve_address';
import {
  FOLDER_HELP,
  FOLDER_OPTIONS,
  FOLDER_SHAPES,
  LOGGER,
  readFolderArguments,
  reloadOnHangup,
  type FolderArguments,
} from './served_folder';
import type { Precision } from '../conv2d/names';
import type { Device } from '../placement';
import type { AnyModel, ModelFolderOptions, ServeOptions } from '../serve';

const text = { type: 'string' } as const;

export const serveCommand = command({
  name: 'serve',
  summary: 'serve ONNX files over HTTP by the Open Inference Protocol',
  synopsis: 'serve [NAME=]MODEL.onnx ...|FOLDER [options]',
  help: `
Serve ONNX files, or a folder of them, over HTTP by the Open Inference Protocol, on all GPUs or else the CPU, until Ctrl+C.

  ${ADDRESS_HELP}
  --threads N      threads that read requests
  --device NAME    'cpu' or 'cuda:N'
  --precision P    the least exact products that may be made: fp32 (default), tf32, fp16 or bf16
  --max-batch N    most rows of a batch

These let requests bring images of 8 bits, and JPEG, PNG or WebP files. A byte becomes (byte / 255 - mean) / std.

  --mean R,G,B
  --std R,G,B
  --resize N       scale the shorter side to N pixels; 'cover' or 'fill' scale to the model's size
${FOLDER_HELP}`,
  options: {
    ...ADDRESS_OPTIONS,
    ...{ threads: text, device: text, precision: text, 'max-batch': text },
    ...{ mean: text, std: text, resize: text },
    ...FOLDER_OPTIONS,
  },
  mostArguments: Infinity,
  async run(args, files) {
    const asked = readServeArguments(files, args);
    if (typeof asked === 'string') throw new Misuse(asked);
    try {
      // With a log, its lines are all there is on stdout.
      const output = asked.options.accessLog ? process.stderr : process.stdout;
      await runServer(asked, (line) => output.write(`${line}\n`));
      return 0;
    } catch (error) {
      throw explainAddress(error, args);
    }
  },
});

/** Options of the command line, as text. */
interface ServeArguments extends FolderArguments, AddressArguments {
  readonly threads?: string;
  readonly device?: string;
  readonly precision?: string;
  readonly 'max-batch'?: string;
  readonly mean?: string;
  readonly std?: string;
  readonly resize?: string;
}

/** What the command is to do. */
interface Asked {
  readonly models: Readonly<Record<string, AnyModel>> | FolderOfModels;
  readonly options: Omit<ServeOptions, 'models'>;
}

class FolderOfModels {
  constructor(
    readonly path: string,
    readonly options: ModelFolderOptions,
  ) {}
}

/** What the arguments ask for; a sentence where they do not say it. */
function readServeArguments(files: readonly string[], args: ServeArguments): Asked | string {
  if (files.length === 0) return 'serve needs an ONNX file, for example: warpconv serve model.onnx';
  const wrong = findMisspelt(args);
  if (wrong !== undefined) return wrong;
  const models = readModels(files, args);
  if (typeof models === 'string') return models;
  const options = serverOptions(args);
  return typeof options === 'string' ? options : { models, options };
}

function readModels(files: readonly string[], args: ServeArguments): Asked['models'] | string {
  const folder = files.find((file) => statSync(file, { throwIfNoEntry: false })?.isDirectory());
  if (folder !== undefined) {
    if (files.length > 1) return `serve takes one folder, or files; got the folder '${folder}' and more`;
    return new FolderOfModels(folder, { ...readFolderArguments(args), defaults: modelOptions(args) });
  }
  const stray = Object.keys(FOLDER_OPTIONS).find((name) => args[name as keyof FolderArguments] !== undefined);
  if (stray !== undefined) return `--${stray} needs a folder of models, for example: warpconv serve models`;
  const models = Object.fromEntries(files.map((file) => modelOf(file, args)));
  if (Object.keys(models).length === files.length) return models;
  return `two of the files have one name; name them as in other=${files.at(-1)}`;
}

function serverOptions(args: ServeArguments): Asked['options'] | string {
  const { threads } = args;
  const address = readAddress(args);
  if (typeof address === 'string') return address;
  return {
    closeOn: ['SIGINT', 'SIGTERM'],
    ...address,
    ...(threads !== undefined && { threads: Number(threads) }),
  };
}

const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e-?\d+)?`;
const SHAPES: Readonly<Record<string, readonly [shape: RegExp, expected: string]>> = {
  port: [/^\d{1,9}$/, 'a number'],
  threads: [/^\d{1,9}$/, 'a number'],
  device: [DEVICE, "'cpu' or 'cuda:N'"],
  precision: [/^(?:fp32|tf32|fp16|bf16)$/, 'fp32, tf32, fp16 or bf16'],
  'max-batch': [/^\d{1,9}$/, 'a number'],
  mean: [new RegExp(`^${NUMBER}(?:,${NUMBER})*$`), 'numbers with commas between them'],
  std: [new RegExp(`^${NUMBER}(?:,${NUMBER})*$`), 'numbers with commas between them'],
  resize: [/^(?:\d{1,9}|cover|fill)$/, "a number of pixels, 'cover' or 'fill'"],
  ...FOLDER_SHAPES,
};

function findMisspelt(args: ServeArguments): string | undefined {
  for (const [name, [shape, expected]] of Object.entries(SHAPES)) {
    const text = args[name as keyof ServeArguments];
    if (typeof text === 'string' && !shape.test(text)) return `--${name} takes ${expected}, got '${text}'`;
  }
  return undefined;
}

/** `model.onnx`, or `name=model.onnx` */
function modelOf(text: string, args: ServeArguments): [name: string, model: AnyModel] {
  const [, name, file] = /^(?:([^=/\\]+)=)?(.*)$/s.exec(text)!;
  return [name ?? path.parse(file!).name, { file: file!, ...modelOptions(args) }];
}

function modelOptions(args: ServeArguments): NonNullable<ModelFolderOptions['defaults']> {
  const { device, precision, 'max-batch': maxBatch, mean, std, resize } = args;
  const sessionOptions = {
    ...(device !== undefined && { device: device as Device }),
    ...(precision !== undefined && { precision: precision as Precision }),
  };
  const image = {
    ...(mean !== undefined && { mean: numbers(mean) }),
    ...(std !== undefined && { std: numbers(std) }),
    ...(resize !== undefined && { resize: numberOr(resize) as 'cover' }),
  };
  return {
    ...(Object.keys(sessionOptions).length > 0 && { sessionOptions }),
    ...(maxBatch !== undefined && { maxBatch: Number(maxBatch) }),
    ...(Object.keys(image).length > 0 && { image }),
  };
}

function numbers(text: string): number[] {
  return text.split(',').map(Number);
}

function numberOr(text: string): number | string {
  return /^\d+$/.test(text) ? Number(text) : text;
}

/**
 * Serves until SIGINT or SIGTERM, or a failure to begin.
 *
 * @param print - told where each model is
 */
async function runServer({ models, options }: Asked, print: (line: string) => void): Promise<void> {
  if (models instanceof FolderOfModels) return runFolder(models, options, print);
  await runUntilClosed({ ...options, models }, async () => Object.keys(models), print);
}

async function runFolder(
  { path: place, options: given }: FolderOfModels,
  options: Asked['options'],
  print: (line: string) => void,
): Promise<void> {
  const { ModelFolder } = await import('../serve/index.js');
  const opening = ModelFolder.open(place, { ...given, logger: LOGGER });
  const end = reloadOnHangup(opening);
  try {
    const models = await opening;
    const names = async () =>
      (await models.index()).filter(({ state }) => state === 'READY').map(({ name }) => name);
    await runUntilClosed({ ...options, models }, names, print).finally(() => models.close());
  } finally {
    end();
  }
}

async function runUntilClosed(
  options: ServeOptions,
  names: () => Promise<readonly string[]>,
  print: (line: string) => void,
): Promise<void> {
  const { serve } = await import('../serve/index.js');
  const { url, server } = await serve(options);
  leaveSignals();
  outliveReaders();
  for (const name of await names()) print(`${url}/v2/models/${encodeURIComponent(name)}`);
  print('Ctrl+C ends the server once all requests have been answered.');
  await new Promise((resolve) => server.once('close', resolve));
}

/** Other commands end with whoever reads their output. A server has clients, and a log may be read by a program that restarts. */
function outliveReaders(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.removeAllListeners('error').on('error', () => {});
}
