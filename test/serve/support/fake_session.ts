/** Sessions without a model: small functions of their inputs, held up and failing at will. */
import type { ServedSession, ServedTensor, ServedValueMetadata } from '../../../lib/serve';

export interface FakeRun {
  readonly feeds: Readonly<Record<string, ServedTensor>>;
  readonly fetches: readonly string[];
  readonly signal: AbortSignal;
}

type Compute = (feeds: Readonly<Record<string, ServedTensor>>) => Record<string, unknown>;

export function value(name: string, type: string, shape: (number | string)[]): ServedValueMetadata {
  return { name, isTensor: true, type, shape };
}

export class FakeSession implements ServedSession {
  readonly runs: FakeRun[] = [];
  /** A session that proves nothing has none */
  canJoin: ServedSession['canJoin'] = () => true;
  #gate: Promise<void> = Promise.resolve();
  #open = () => {};

  constructor(
    readonly inputMetadata: readonly ServedValueMetadata[],
    readonly outputMetadata: readonly ServedValueMetadata[],
    readonly compute: Compute,
  ) {}

  get inputNames(): string[] {
    return this.inputMetadata.map(({ name }) => name);
  }

  get outputNames(): string[] {
    return this.outputMetadata.map(({ name }) => name);
  }

  /** Runs from now on wait for {@link open}. */
  hold(): void {
    this.#gate = new Promise((resolve) => (this.#open = resolve));
  }

  open(): void {
    this.#open();
    this.#gate = Promise.resolve();
  }

  async run(
    feeds: Readonly<Record<string, ServedTensor>>,
    fetches: readonly string[],
    { signal }: { signal: AbortSignal },
  ): Promise<Record<string, unknown>> {
    this.runs.push({ feeds, fetches, signal });
    await this.#gate;
    return this.compute(feeds);
  }
}

/** Answers `y` = 2 `x`, of dims [N, 2], and `sum`, of dims [N], over each row of `x`. */
export function doublingSession(): FakeSession {
  const inputs = [value('x', 'float32', ['N', 2])];
  const outputs = [value('y', 'float32', ['N', 2]), value('sum', 'float32', ['N'])];
  return new FakeSession(inputs, outputs, ({ x }) => {
    const data = x!.data as Float32Array;
    const rows = x!.dims[0]!;
    const sums = Float32Array.from({ length: rows }, (_, row) => data[2 * row]! + data[2 * row + 1]!);
    return {
      y: { type: 'float32', dims: x!.dims, data: data.map((element) => 2 * element) },
      sum: { type: 'float32', dims: [rows], data: sums },
    };
  });
}

/** Gives its one input back as its one output, both of one dimension. */
export function echoSession(type: string): FakeSession {
  const [inputs, outputs] = [[value('in', type, ['n'])], [value('out', type, ['n'])]];
  return new FakeSession(inputs, outputs, (feeds) => ({ out: feeds.in }));
}

export function doublingRequest(rows: readonly (readonly [number, number])[]): object {
  return { inputs: [{ name: 'x', datatype: 'FP32', shape: [rows.length, 2], data: rows.flat() }] };
}
