/** `npx warpconv serve`: ONNX files over HTTP. */
import path from 'node:path';

import { command, Misuse } from './command';
import type { WarpconvError } from '../errors';
import type { Device } from '../placement';
import type { AnyModel, ServeOptions } from '../serve';

const text = { type: 'string' } as const;

export const serveCommand = command({
  name: 'serve',
  summary: 'serve ONNX files over HTTP by the Open Inference Protocol',
  synopsis: 'serve [NAME=]MODEL.onnx ... [options]',
  help: `
Serve ONNX files over HTTP by the Open Inference Protocol, on all GPUs or else the CPU, until Ctrl+C.

  --port N         the port; 8080 by default, 0 for one that is free
  --host ADDRESS   where to listen; 127.0.0.1 by default
  --threads N      threads that read requests
  --device NAME    'cpu' or 'cuda:N'
  --max-batch N    most rows of a batch

These let requests bring images of 8 bits, and JPEG, PNG or WebP files. A byte becomes (byte / 255 - mean) / std.

  --mean R,G,B
  --std R,G,B
  --resize N       scale the shorter side to N pixels; 'cover' or 'fill' scale to the model's size
`,
  options: {
    ...{ port: text, host: text, threads: text, device: text, 'max-batch': text },
    ...{ mean: text, std: text, resize: text },
  },
  mostArguments: Infinity,
  async run(args, files) {
    const options = readServeArguments(files, args);
    if (typeof options === 'string') throw new Misuse(options);
    try {
      await runServer(options, (line) => process.stdout.write(`${line}\n`));
      return 0;
    } catch (error) {
      const { code, message } = error as WarpconvError;
      if (code === 'ERR_WARPCONV_INVALID_ARGUMENT' && message.startsWith('options.'))
        throw new Misuse(message);
      throw error;
    }
  },
});

/** Options of the command line, as text. */
interface ServeArguments {
  readonly port?: string;
  readonly host?: string;
  readonly threads?: string;
  readonly device?: string;
  readonly 'max-batch'?: string;
  readonly mean?: string;
  readonly std?: string;
  readonly resize?: string;
}

/** What the arguments ask for; a sentence where they do not say it. */
function readServeArguments(files: readonly string[], args: ServeArguments): ServeOptions | string {
  if (files.length === 0) return 'serve needs an ONNX file, for example: warpconv serve model.onnx';
  const wrong = findMisspelt(args);
  if (wrong !== undefined) return wrong;
  const { port, host, threads } = args;
  const models = Object.fromEntries(files.map((file) => modelOf(file, args)));
  if (Object.keys(models).length < files.length)
    return `two of the files have one name; name them as in other=${files.at(-1)}`;
  return {
    models,
    closeOn: ['SIGINT', 'SIGTERM'],
    ...(port !== undefined && { port: Number(port) }),
    ...(host !== undefined && { host }),
    ...(threads !== undefined && { threads: Number(threads) }),
  };
}

const NUMBER = String.raw`-?\d+(?:\.\d+)?(?:e-?\d+)?`;
const SHAPES: Readonly<Record<string, readonly [shape: RegExp, expected: string]>> = {
  port: [/^\d{1,9}$/, 'a number'],
  threads: [/^\d{1,9}$/, 'a number'],
  'max-batch': [/^\d{1,9}$/, 'a number'],
  mean: [new RegExp(`^${NUMBER}(?:,${NUMBER})*$`), 'numbers with commas between them'],
  std: [new RegExp(`^${NUMBER}(?:,${NUMBER})*$`), 'numbers with commas between them'],
  resize: [/^(?:\d{1,9}|cover|fill)$/, "a number of pixels, 'cover' or 'fill'"],
};

function findMisspelt(args: ServeArguments): string | undefined {
  for (const [name, [shape, expected]] of Object.entries(SHAPES)) {
    const text = args[name as keyof ServeArguments];
    if (text !== undefined && !shape.test(text)) return `--${name} takes ${expected}, got '${text}'`;
  }
  return undefined;
}

/** `model.onnx`, or `name=model.onnx` */
function modelOf(text: string, args: ServeArguments): [name: string, model: AnyModel] {
  const [, name, file] = /^(?:([^=/\\]+)=)?(.*)$/s.exec(text)!;
  const { device, 'max-batch': maxBatch, mean, std, resize } = args;
  const image = {
    ...(mean !== undefined && { mean: numbers(mean) }),
    ...(std !== undefined && { std: numbers(std) }),
    ...(resize !== undefined && { resize: numberOr(resize) as 'cover' }),
  };
  const model = {
    file: file!,
    ...(device !== undefined && { sessionOptions: { device: device as Device } }),
    ...(maxBatch !== undefined && { maxBatch: Number(maxBatch) }),
    ...(Object.keys(image).length > 0 && { image }),
  };
  return [name ?? path.parse(file!).name, model];
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
async function runServer(options: ServeOptions, print: (line: string) => void): Promise<void> {
  const { serve } = await import('../serve/index.js');
  const { url, server } = await serve(options);
  for (const name of Object.keys(options.models)) print(`${url}/v2/models/${encodeURIComponent(name)}`);
  print('Ctrl+C ends the server once all requests have been answered.');
  await new Promise((resolve) => server.once('close', resolve));
}
