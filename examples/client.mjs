// A client of the Open Inference Protocol that sends and gets tensors as binary data: of warpconv/serve, Triton, KServe.
//
//     node examples/client.mjs http://127.0.0.1:8080 MODEL
//
// asks a server for a model's inputs, sends it random numbers, and prints what comes back. As a module it has
// `InferenceClient`. Nothing is needed but Node.js; its fetch keeps connections alive by itself.
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

/** The typed array of each datatype. Floats of 16 bits are their bits; BYTES, which has no typed array, stays bytes. */
const ARRAYS = {
  BOOL: Uint8Array,
  UINT8: Uint8Array,
  UINT16: Uint16Array,
  UINT32: Uint32Array,
  UINT64: BigUint64Array,
  INT8: Int8Array,
  INT16: Int16Array,
  INT32: Int32Array,
  INT64: BigInt64Array,
  FP16: Uint16Array,
  BF16: Uint16Array,
  FP32: Float32Array,
  FP64: Float64Array,
};
const DATATYPES = new Map(Object.entries(ARRAYS).map(([datatype, array]) => [array, datatype]));
// Of arrays that several datatypes have
DATATYPES.set(Uint8Array, 'UINT8').set(Uint16Array, 'UINT16');

const JSON_LENGTH = 'Inference-Header-Content-Length';
/** Before another attempt, where the server does not say: doubled each time, and drawn at random up to that. */
const FIRST_WAIT_MS = 100;

/** An answer that is an error; `status` is HTTP's. */
export class InferenceError extends Error {
  name = 'InferenceError';

  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class InferenceClient {
  #url;
  #timeout;
  #attempts;

  /**
   * @param url - of the server, such as `http://127.0.0.1:8080`
   * @param timeout - milliseconds that a call may take, attempts and waiting included
   * @param attempts - most of them: a request is sent again after 503, and where a connection fails. It changes nothing on the
   *   server, so it may arrive twice.
   */
  constructor(url, { timeout = 30_000, attempts = 5 } = {}) {
    this.#url = url.replace(/\/$/, '');
    this.#timeout = timeout;
    this.#attempts = attempts;
  }

  /** Names, datatypes and shapes of a model's inputs and outputs. */
  async metadata(model, { signal } = {}) {
    const response = await this.#fetch(`/v2/models/${encodeURIComponent(model)}`, {}, signal);
    return response.json();
  }

  /**
   * Runs a model.
   *
   * @param inputs - `{ NAME: { shape, data } }`; the typed array tells the datatype, or `datatype` does: 'FP16', 'BF16', 'BOOL'
   * @param outputs - names of those that are wanted; all by default
   * @returns the outputs in the same form
   */
  async infer(model, inputs, { outputs, signal } = {}) {
    const { json, body } = encode(inputs, outputs, this.#timeout);
    const headers = { 'Content-Type': 'application/octet-stream', [JSON_LENGTH]: String(json) };
    const path = `/v2/models/${encodeURIComponent(model)}/infer`;
    const response = await this.#fetch(path, { method: 'POST', headers, body }, signal);
    return decode(await response.arrayBuffer(), response.headers.get(JSON_LENGTH));
  }

  async #fetch(path, request, signal) {
    const deadline = AbortSignal.timeout(this.#timeout);
    const either = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    for (let attempt = 1; ; attempt++) {
      const outcome = await attemptOf(() => fetch(this.#url + path, { ...request, signal: either }));
      if (outcome.response?.ok) return outcome.response;
      if (!outcome.isWorthAnother || attempt === this.#attempts) throw outcome.error;
      const wait = outcome.waitMs ?? Math.random() * FIRST_WAIT_MS * 2 ** attempt;
      await sleep(wait, undefined, { signal: either }).catch(() => either.throwIfAborted());
    }
  }
}

/** What one attempt came to. An answer that is an error has been read, so that its connection can be used again. */
async function attemptOf(send) {
  let response;
  try {
    response = await send();
    if (response.ok) return { response };
    const error = new InferenceError(response.status, messageOf(await response.text(), response));
    return { error, isWorthAnother: response.status === 503, waitMs: retryAfter(response) };
  } catch (error) {
    // fetch rejects with a TypeError for connections that fail, and with a signal's reason otherwise.
    const { cause = error } = error;
    return error instanceof TypeError && cause.code !== 'ERR_INVALID_URL'
      ? { error: new Error(`no answer: ${cause.message || cause.code}`, { cause }), isWorthAnother: true }
      : { error };
  }
}

function messageOf(text, { status, statusText }) {
  try {
    return JSON.parse(text).error ?? text;
  } catch {
    return text || `${status} ${statusText}`;
  }
}

/** Seconds or a date; `undefined` where there is neither. */
function retryAfter({ headers }) {
  const value = headers.get('Retry-After');
  if (value === null) return undefined;
  const wait = /^\d+$/.test(value) ? 1000 * value : Date.parse(value) - Date.now();
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

/** The JSON, and behind it the elements of each input. Typed arrays are little-endian wherever Node.js runs warpconv. */
function encode(inputs, outputs, timeout) {
  const parts = Object.values(inputs).map(({ data }) =>
    Buffer.from(data.buffer, data.byteOffset, data.byteLength),
  );
  const head = {
    inputs: Object.entries(inputs).map(([name, { shape, data, datatype }], index) => ({
      ...{ name, shape, datatype: datatype ?? DATATYPES.get(data.constructor) },
      parameters: { binary_data_size: parts[index].length },
    })),
    outputs: outputs?.map((name) => ({ name, parameters: { binary_data: true } })),
    // Microseconds: the server drops a request that nobody waits for any more.
    parameters: { binary_data_output: true, timeout: 1000 * timeout },
  };
  const json = Buffer.from(JSON.stringify(head));
  return { json: json.length, body: Buffer.concat([json, ...parts]) };
}

function decode(body, jsonLength) {
  const end = jsonLength === null ? body.byteLength : Number(jsonLength);
  const { outputs } = JSON.parse(new TextDecoder().decode(new Uint8Array(body, 0, end)));
  let at = end;
  const tensors = outputs.map(({ name, datatype, shape, parameters, data }) => {
    const array = ARRAYS[datatype] ?? Uint8Array;
    const size = parameters?.binary_data_size;
    if (size === undefined) return [name, { datatype, shape, data: fromList(array, data) }];
    // A copy is aligned, as typed arrays need to be.
    const elements = new array(body.slice(at, (at += size)));
    return [name, { datatype, shape, data: elements }];
  });
  return Object.fromEntries(tensors);
}

/** Elements that came as JSON: flat, or nested as the shape is. */
function fromList(array, data) {
  const flat = data.flat(Infinity);
  return array.name.startsWith('Big') ? array.from(flat, BigInt) : array.from(flat);
}

async function main([url, model]) {
  if (model === undefined)
    throw new Error('name a server and a model: node examples/client.mjs http://127.0.0.1:8080 resnet50');
  const client = new InferenceClient(url, { timeout: 10_000 });
  const { inputs } = await client.metadata(model);
  const tensors = inputs.map(({ name, datatype, shape: extents }) => {
    const shape = extents.map((extent) => (extent > 0 ? extent : 1));
    const size = shape.reduce((product, extent) => product * extent, 1);
    if (datatype !== 'FP32') throw new Error(`${name} is ${datatype}; this sends FP32 alone`);
    return [name, { shape, data: Float32Array.from({ length: size }, Math.random) }];
  });
  const start = performance.now();
  const outputs = await client.infer(model, Object.fromEntries(tensors));
  const elapsed = (performance.now() - start).toFixed(1);
  for (const [name, { datatype, shape, data }] of Object.entries(outputs)) {
    console.log(
      `${name} ${datatype} [${shape}]: ${data.slice(0, 5).join(', ')}${data.length > 5 ? ', …' : ''}`,
    );
  }
  console.log(`${elapsed} ms`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
