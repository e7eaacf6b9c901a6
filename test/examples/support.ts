import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { node, onnxModel, tensor, value } from '../support/onnx_builder';

export const ROOT = path.join(__dirname, '../..');
export const EXAMPLES = path.join(ROOT, 'examples');
export const DIGITS = path.join(EXAMPLES, 'digits/digits.onnx');
export const EIGHT = path.join(EXAMPLES, 'digits/eight.jpg');

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Surroundings {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** An example in a process of its own. */
export class Example {
  static readonly #running = new Set<Example>();
  readonly child: ChildProcess;
  readonly ended: Promise<Ending>;
  readonly #waiting = new Set<() => void>();
  #stdout = '';
  #stderr = '';

  /** @param args - of Node.js */
  constructor(args: readonly string[], { cwd = ROOT, env = {} }: Surroundings = {}) {
    const quiet = { WARPCONV_NO_CPU_WARNING: '1' };
    this.child = spawn(process.execPath, args, {
      cwd,
      env: { ...process.env, ...quiet, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      for (const look of this.#waiting) look();
    });
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text));
    this.ended = new Promise((resolve) =>
      this.child.on('close', (code, signal) => {
        Example.#running.delete(this);
        resolve({ code, signal, stdout: this.#stdout, stderr: this.#stderr });
      }),
    );
    Example.#running.add(this);
  }

  /** Ends those that a failed test has left behind. */
  static async endAll(): Promise<void> {
    await Promise.all([...Example.#running].map((example) => example.kill('SIGKILL')));
  }

  /** What it has printed that matches. */
  matches(pattern: RegExp): RegExpExecArray[] {
    return [...this.#stdout.matchAll(new RegExp(pattern, 'g'))];
  }

  /** Waits until it has printed something that matches, `times` times in all. */
  async printed(pattern: RegExp, times = 1): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.matches(pattern)[times - 1];
        if (found === undefined) return;
        this.#waiting.delete(look);
        resolve(found);
      };
      this.#waiting.add(look);
      look();
      void this.ended.then((ending) => reject(new Error(`no ${pattern} in ${JSON.stringify(ending)}`)));
    });
  }

  kill(signal: NodeJS.Signals): Promise<Ending> {
    this.child.kill(signal);
    return this.ended;
  }
}

/** Runs an example to its end. */
export function runExample(args: readonly string[], surroundings?: Surroundings): Promise<Ending> {
  return new Example(args, surroundings).ended;
}

export interface RunningExample {
  readonly example: Example;
  /** The first that it printed */
  readonly url: string;
  /** Ends it by SIGTERM, and resolves with its exit code and signal. */
  readonly stop: () => Promise<[code: number | null, signal: NodeJS.Signals | null]>;
}

/**
 * Starts one of the examples that serve.
 *
 * @param args - of Node.js
 * @param port - 0 for any that is free
 */
export async function startExample(
  args: readonly string[],
  port: number | string,
  env: NodeJS.ProcessEnv = {},
): Promise<RunningExample> {
  const example = new Example(args, { env: { ...env, PORT: String(port) } });
  const stop = async () => {
    const { code, signal } = await example.kill('SIGTERM');
    return [code, signal] as [number | null, NodeJS.Signals | null];
  };
  const [url] = await example.printed(/http:\/\/[\d.]+:\d+/);
  return { example, url, stop };
}

/** Pictures of 8 x 8 grey levels up to 16 that the network of the digits has never seen, and PyTorch's logits for them. */
export function heldOutDigits(): {
  readonly images: readonly Buffer[];
  readonly logits: readonly number[][];
} {
  const file = (name: string) => readFileSync(path.join(EXAMPLES, 'digits/data', name));
  const [pixels, bytes] = [file('images.bin'), new Uint8Array(file('logits.bin'))];
  const logits = [...new Float32Array(bytes.buffer)];
  return {
    images: Array.from({ length: pixels.length / 64 }, (_, row) => pixels.subarray(64 * row, 64 * row + 64)),
    logits: Array.from({ length: logits.length / 10 }, (_, row) => logits.slice(10 * row, 10 * row + 10)),
  };
}

/** Logits of the digits are PyTorch's, up to rounding. */
export function expectLogits(logits: ArrayLike<number>, expected: readonly number[]): void {
  expect(logits).toHaveLength(expected.length);
  expected.forEach((one, index) => expect(Math.abs(logits[index]! - one)).toBeLessThan(1e-3));
}

export function softmax(logits: readonly number[]): number[] {
  const powers = logits.map((one) => Math.exp(one - Math.max(...logits)));
  const total = powers.reduce((sum, one) => sum + one);
  return powers.map((one) => one / total);
}

/** A classifier that takes 3.9 GFLOP for a picture of 224 x 224: too long for the event loop. */
export function slowClassifier(): Uint8Array {
  const channels = 64;
  const filters = (count: number) => new Float32Array(channels * count * 9).fill(1 / (9 * count));
  const pads = [1, 1, 1, 1];
  return onnxModel({
    inputs: [value('image', [1, 3, 224, 224])],
    initializers: [
      tensor('first', [channels, 3, 3, 3], filters(3)),
      tensor('second', [channels, channels, 3, 3], filters(channels)),
    ],
    nodes: [
      node('Conv', ['image', 'first'], ['edges'], { pads }),
      node('Conv', ['edges', 'second'], ['features'], { pads }),
      node('GlobalAveragePool', ['features'], ['scores']),
    ],
    outputs: [value('scores', [1, channels, 1, 1])],
  });
}
