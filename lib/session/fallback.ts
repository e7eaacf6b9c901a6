/** Models that this package cannot run, given whole to another runtime. */
import { createRequire } from 'node:module';
import path from 'node:path';

import { WarpconvError } from '../errors';
import { requireHere } from '../here';
import type { OnnxModelFile } from './create_arguments';

/** A tensor of another runtime. */
export interface OtherTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: unknown;
}

/** onnxruntime's `ValueMetadata`. */
export interface OtherMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type?: string;
  readonly shape?: readonly (number | string)[];
}

/** What is asked of another runtime's session. */
export interface OtherSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly OtherMetadata[];
  readonly outputMetadata: readonly OtherMetadata[];
  run(
    feeds: Readonly<Record<string, OtherTensor>>,
    fetches: readonly string[] | Readonly<Record<string, OtherTensor | null>>,
    options?: object,
  ): Promise<Record<string, OtherTensor>>;
  release(): Promise<void>;
}

/** What is used of onnxruntime-node and onnxruntime-common. */
export interface Runtime {
  readonly InferenceSession?: { create(model: OnnxModelFile, options: object): Promise<OtherSession> };
}

/** Who runs a model in the place of this package. */
export class Fallback {
  readonly #runtime: string;
  readonly #open: () => Promise<OtherSession>;
  #opening: Promise<OtherSession> | undefined;
  #taken: OtherSession | undefined;

  /**
   * @param runtime - as messages call it
   * @param open - loads the model there; called once, unless it fails
   */
  constructor(runtime: string, open: () => Promise<OtherSession>) {
    this.#runtime = runtime;
    this.#open = open;
  }

  /** The other session, once it runs the model. */
  get taken(): OtherSession | undefined {
    return this.#taken;
  }

  /**
   * The other session from now on, because of that error. A warning tells of it.
   *
   * @throws the error itself where it is no reason, and one that says why where the other runtime has no session either
   */
  async takeOver(error: unknown): Promise<OtherSession> {
    if (!(error instanceof WarpconvError) || error.code !== 'ERR_WARPCONV_UNSUPPORTED') throw error;
    this.#opening ??= this.#open();
    try {
      const session = await this.#opening;
      if (this.#taken === undefined) this.#warn(error);
      return (this.#taken = session);
    } catch (reason) {
      this.#opening = undefined;
      const message = `${error.message}; ${this.#runtime} cannot run the model either: ${messageOf(reason)}`;
      throw new WarpconvError('ERR_WARPCONV_UNSUPPORTED', message, { cause: reason });
    }
  }

  /** What `own` gives; or `other`, from the time on that `own` cannot. */
  async run<T>(own: () => Promise<T>, other: (session: OtherSession) => Promise<T>): Promise<T> {
    if (this.#taken !== undefined) return other(this.#taken);
    const session = await own().then(
      (result) => ({ result }),
      async (error: unknown) => this.takeOver(error),
    );
    return 'result' in session ? session.result : other(session);
  }

  /** Ends the other session, also one that is being loaded. */
  async release(): Promise<void> {
    const session = await this.#opening?.catch(() => undefined);
    await session?.release();
  }

  #warn({ message }: WarpconvError): void {
    process.emitWarning(`a model is run by ${this.#runtime}: ${message}`, {
      type: 'WarpconvWarning',
      code: 'WARPCONV_FALLBACK',
    });
  }
}

/** What was thrown says of itself. */
export function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** Where packages of the program are looked for: from its working directory, and from here. */
export function lookups(): NodeJS.Require[] {
  return [createRequire(path.join(process.cwd(), 'index.js')), requireHere];
}

/** The file that a package's name stands for; `undefined` where it is not installed, or is this package by another name. */
export function resolvePackage(require: NodeJS.Require, name: string): string | undefined {
  try {
    const file = require.resolve(name);
    return isOurs(require, name) ? undefined : file;
  } catch {
    return undefined;
  }
}

/** npm installs this package in the place of another where `overrides` say so. Other packages need not export their manifest. */
function isOurs(require: NodeJS.Require, name: string): boolean {
  try {
    return (require(`${name}/package.json`) as { name?: unknown }).name === 'warpconv';
  } catch {
    return false;
  }
}

/** Where onnxruntime-node is, as the program has it; `undefined` where it has none. */
export function onnxruntimeNodeFile(): string | undefined {
  for (const require of lookups()) {
    const file = resolvePackage(require, 'onnxruntime-node');
    if (file !== undefined) return file;
  }
  return undefined;
}

/** onnxruntime-node, as the program has it. */
export function onnxruntimeNode(): Required<Runtime> {
  const file = onnxruntimeNodeFile();
  if (file !== undefined) return lookups()[0]!(file) as Required<Runtime>;
  throw new WarpconvError('ERR_WARPCONV_UNSUPPORTED', whyNoOnnxruntime());
}

/** Why there is no onnxruntime-node to be found, and what helps. */
export function whyNoOnnxruntime(): string {
  return lookups().some((require) => isOurs(require, 'onnxruntime-node'))
    ? "the onnxruntime-node that is installed is this package, by the package manager's overrides; remove the override to have both"
    : 'onnxruntime-node is not installed; npm install onnxruntime-node';
}
