import { MessagePort, receiveMessageOnPort } from 'node:worker_threads';

import { follow } from '../calls';
import { invalid, isObject, mismatch } from '../check';
import { abortedBy, WarpconvError } from '../errors';
import { readFeed, readJoinedFeed, type Feed } from '../session/feeds';
import type { ValueInfo } from '../model/graph';
import { metadataOf, type ValueMetadata } from '../model/metadata';
import { noteOwnSession } from '../session/own_sessions';
import type { Place } from '../placement';
import { readRunArguments, type RunArguments, type RunOptions } from '../session/session_options';
import { tensorOver, type Tensor } from '../tensor/tensor';
import type { TensorLike } from '../tensor/tensor_like';
import { kindOf } from '../tensor/typed_array';
import { buffersOf, copied, type Failure, type FromOwner, type Parcel, type ToOwner } from './messages';

interface Call {
  readonly resolve: (outputs: readonly Parcel[]) => void;
  readonly reject: (failure: WarpconvError | Error) => void;
}

type Description = Extract<FromOwner, { readonly kind: 'session' }>;

/** Each answers one session. */
const opened = new WeakSet<MessagePort>();

/**
 * A session of another thread of this process. Its weights and programs are there, once; runs are done there, so that
 * thread must not be blocked. Inputs and outputs are copied once each.
 *
 *     // in the thread that has the session
 *     const port = session.share();
 *     new Worker(file, { workerData: port, transferList: [port] });
 *
 *     // in the worker
 *     const session = await SharedSession.open(workerData);
 *     const { scores } = await session.run({ image });
 */
export class SharedSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];
  /** Where it runs, for example `'cuda:0'`. */
  readonly device: string;

  readonly #port: MessagePort;
  readonly #inputs: readonly ValueInfo[];
  readonly #calls = new Map<number, Call>();
  #called = 0;
  #isClosed = false;

  private constructor(port: MessagePort, { inputs, outputs, device }: Description) {
    noteOwnSession(this);
    this.#port = port;
    this.#inputs = inputs;
    this.device = device;
    this.inputNames = Object.freeze(inputs.map(({ name }) => name));
    this.outputNames = Object.freeze(outputs.map(({ name }) => name));
    this.inputMetadata = Object.freeze(inputs.map(metadataOf));
    this.outputMetadata = Object.freeze(outputs.map(metadataOf));
    port.on('message', (message: FromOwner) => this.#hear(message));
    port.once('close', () => this.#end());
    port.unref();
  }

  /**
   * @param port - that `InferenceSession.share()` gave in another thread
   * @throws {@link WarpconvError}, as a rejection: `ERR_WARPCONV_INVALID_ARGUMENT`, `ERR_WARPCONV_DISPOSED` where the
   * port is closed. Where the session has ended, the first run says so at the latest.
   */
  static async open(port: MessagePort): Promise<SharedSession> {
    if (!(port instanceof MessagePort)) throw mismatch('port', A_PORT, port);
    if (opened.has(port)) throw invalid('port is open already; session.share() gives a port for each');
    const description: unknown = receiveMessageOnPort(port)?.message;
    if (!isOpen(port)) throw gone();
    if (!isDescription(description)) throw mismatch('port', A_PORT, port);
    opened.add(port);
    return new SharedSession(port, description);
  }

  /**
   * As `InferenceSession.run`. Feeds are in CPU memory, and are copied before this returns; outputs are new ones, in CPU
   * memory.
   *
   * @param feeds - a tensor for each input, by name
   * @throws {@link WarpconvError}, as a rejection, with the codes of `InferenceSession.run`
   */
  run(feeds: Readonly<Record<string, TensorLike>>, options?: RunOptions): Promise<Record<string, Tensor>>;
  /** As above, for some of the outputs. */
  run(
    feeds: Readonly<Record<string, TensorLike>>,
    fetches: readonly string[],
    options?: RunOptions,
  ): Promise<Record<string, Tensor>>;
  async run(...args: [feeds: unknown, ...rest: unknown[]]): Promise<Record<string, Tensor>> {
    return this.#run(args, readFeed);
  }

  /** As `InferenceSession.runJoined`, under the conditions of {@link run}. */
  async runJoined(
    feeds: Readonly<Record<string, readonly TensorLike[]>>,
    ...rest: [options?: RunOptions] | [fetches: readonly string[], options?: RunOptions]
  ): Promise<Record<string, Tensor>> {
    return this.#run([feeds, ...rest], readJoinedFeed);
  }

  /** Lets go of the session, which goes on for others. Runs that are under way reject with `ERR_WARPCONV_DISPOSED`. */
  async release(): Promise<void> {
    this.dispose();
  }

  /** As {@link release}. */
  dispose(): void {
    this.#end();
    this.#port.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async #run(args: readonly unknown[], read: typeof readFeed): Promise<Record<string, Tensor>> {
    const request = readRunArguments(args, this.outputNames);
    const fetches = namesOf(request);
    const inputs = this.#inputs.map((info) => onCpu(read(info, request.feeds, this.device as Place)));
    const outputs = await this.#call(inputs, fetches, request.signal);
    return Object.fromEntries(
      outputs.map(({ name, type, dims, elements }) => [name, tensorOver(type, elements as never, dims)]),
    );
  }

  #call(
    inputs: readonly Parcel[],
    fetches: readonly string[] | undefined,
    signal: AbortSignal | undefined,
  ): Promise<readonly Parcel[]> {
    if (this.#isClosed) throw gone();
    const id = this.#called++;
    const sent = inputs.map(copied);
    this.#tell({ kind: 'run', id, inputs: sent, fetches }, buffersOf(sent));
    // The thread does not end before the answer is there.
    if (this.#calls.size === 0) this.#port.ref();
    let unfollow = () => {};
    const answer = new Promise<readonly Parcel[]>((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      if (signal === undefined) return;
      unfollow = follow(signal, () => {
        this.#tell({ kind: 'cancel', id });
        this.#settle(id)?.reject(abortedBy(signal));
      });
    });
    return answer.finally(() => unfollow());
  }

  #hear(message: FromOwner): void {
    if (message.kind === 'ran') this.#settle(message.id)?.resolve(message.outputs);
    else if (message.kind === 'failed') this.#settle(message.id)?.reject(errorOf(message.failure));
  }

  /** `undefined` for one that was aborted. */
  #settle(id: number): Call | undefined {
    const call = this.#calls.get(id);
    if (this.#calls.delete(id) && this.#calls.size === 0) this.#port.unref();
    return call;
  }

  #end(): void {
    this.#isClosed = true;
    for (const id of [...this.#calls.keys()]) this.#settle(id)!.reject(gone());
  }

  #tell(message: ToOwner, transferred: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transferred);
  }
}

const A_PORT = 'the MessagePort of session.share(), which is opened once';

/** Node.js tells of a port's end when that comes, and not later. */
function isOpen(port: MessagePort): boolean {
  port.ref();
  const isOpen = (port as MessagePort & { hasRef(): boolean }).hasRef();
  port.unref();
  return isOpen;
}

function isDescription(message: unknown): message is Description {
  return isObject(message) && (message as Partial<Description>).kind === 'session';
}

function namesOf({ fetches }: RunArguments): readonly string[] | undefined {
  if (fetches === undefined) return undefined;
  for (const [name, tensor] of fetches) {
    if (tensor !== null)
      throw invalid(`fetches.${name} is a tensor, which another thread cannot write into; name the output`);
  }
  return [...fetches.keys()];
}

function onCpu({ name, type, dims, elements }: Feed): Parcel {
  if (Array.isArray(elements) || kindOf(elements) !== undefined)
    return { name, type, dims, elements } as Parcel;
  throw invalid(
    `feeds.${name} is in a GPU's memory, which is this thread's alone; await its to('cpu') first`,
  );
}

function gone(): WarpconvError {
  return new WarpconvError(
    'ERR_WARPCONV_DISPOSED',
    'the session has been released, or the thread that has it has ended',
  );
}

function errorOf({ code, message }: Failure): Error {
  return code === undefined ? new Error(message) : new WarpconvError(code, message);
}
