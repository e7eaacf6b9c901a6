/** What main.ts asks of the servers, and what they have to answer. */
import { InferenceSession, Tensor } from 'warpconv';

import type { LoadRequest } from './load/clients';
import { dimsOf, forRival, REQUEST_KINDS, type Target } from './load/request_kinds';
import { ONE_BY_ONE, OURS, RIVAL, type LoadedServer, type Served } from './loaded_server';

/** Different images, so that answers to others are noticed. */
const IMAGES = 8;
/** What rounding may do over a hundred layers, of the largest output. */
const TOLERANCE = 1e-4;
/** On a GPU onnxruntime computes with TF32 by default, which keeps 10 bits. */
const TF32_TOLERANCE = 5e-3;

/** By the server that takes them */
export type Requests = Readonly<Record<string, readonly LoadRequest[]>>;

/** The same images for all servers, with the answers of a session on the CPU. */
export async function requestsFor({ model, device }: Served, kind: string): Promise<Requests> {
  const session = await InferenceSession.create(model, { device: 'cpu' });
  try {
    const target = targetOf(session, model);
    const ours: LoadRequest[] = [];
    const rival: LoadRequest[] = [];
    for (let seed = 1; seed <= IMAGES; seed++) {
      const request = await REQUEST_KINDS[kind]!(target, seed);
      const expected = await answerTo(request.elements, session, target);
      ours.push({ ...request, expected, tolerance: TOLERANCE });
      const tolerance = device === 'cpu' ? TOLERANCE : TF32_TOLERANCE;
      rival.push({ ...forRival(request), expected, tolerance });
    }
    return { [OURS]: ours, [ONE_BY_ONE]: ours, [RIVAL]: rival };
  } finally {
    await session.release();
  }
}

function targetOf({ inputMetadata, outputNames }: InferenceSession, model: string): Target {
  const [input, another] = inputMetadata;
  if (another !== undefined || input!.type !== 'float32') {
    throw new Error(`${model} has other inputs than one of float32`);
  }
  return { input: input!, output: outputNames[0]! };
}

async function answerTo(
  elements: Float32Array,
  session: InferenceSession,
  target: Target,
): Promise<Float32Array> {
  const feeds = { [target.input.name]: new Tensor('float32', elements, dimsOf(target)) };
  const results = await session.run(feeds, [target.output]);
  return Float32Array.from(results[target.output]!.data as Float32Array);
}

/** @throws Error where an answer is none of status 200, or not what is expected */
export async function requireRight(server: LoadedServer, requests: readonly LoadRequest[]): Promise<void> {
  for (const request of requests) {
    const answer = await answerOf(server, request);
    const { expected, tolerance } = request;
    const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const worst = expected.reduce(
      (most, value, index) => Math.max(most, Math.abs(value - answer[index]!)),
      0,
    );
    if (worst <= tolerance * largest) continue;
    throw new Error(
      `an answer of ${server.who} is wrong by ${worst}, where the largest element is ${largest}`,
    );
  }
}

async function answerOf(
  { url }: LoadedServer,
  { path: target, headers, body }: LoadRequest,
): Promise<Float32Array> {
  const response = await fetch(url + target, { method: 'POST', headers, body: new Uint8Array(body) });
  if (response.status !== 200) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  const skipped = Number(response.headers.get('Inference-Header-Content-Length') ?? 0);
  return new Float32Array((await response.arrayBuffer()).slice(skipped));
}
