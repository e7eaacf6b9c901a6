/** Folders of small models, and clients that do not stop to ask them. */
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { node, onnxModel, tensor, value } from '../../support/onnx_builder';
import { json, postJson } from './client';

/** Multiplies an image by a factor, by a convolution whose weights have to be packed. */
export function scaling(factor: number): Uint8Array {
  return onnxModel({
    inputs: [value('x', ['N', 1, 2, 2])],
    initializers: [tensor('w', [1, 1, 1, 1], [factor])],
    nodes: [node('Conv', ['x', 'w'], ['y'])],
    outputs: [value('y', ['N', 1, 2, 2])],
  });
}

/** A file that nobody can take for a model */
export const BROKEN = 'this is no model';

export function newFolder(): Promise<string> {
  return mkdtemp(path.join(tmpdir(), 'warpconv-models-'));
}

/** Writes the file of a version. */
export async function put(
  folder: string,
  name: string,
  version: string,
  model: Uint8Array | string,
): Promise<void> {
  const place = path.join(folder, name, version);
  await mkdir(place, { recursive: true });
  await writeFile(path.join(place, 'model.onnx'), model);
}

const BODY = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1, 2, 2], data: [1, 2, 3, 4] }] };

/** What the model multiplies by; the status of its answer where that is an error. */
export async function factorOf(url: string, name: string): Promise<number> {
  const received = await postJson(url, `/v2/models/${encodeURIComponent(name)}/infer`, BODY);
  return received.status === 200 ? readFactor(received.body.toString()) : received.status;
}

function readFactor(text: string): number {
  const [{ data }] = (JSON.parse(text) as { outputs: [{ data: number[] }] }).outputs;
  expect(data).toEqual([1, 2, 3, 4].map((one) => one * data[0]!));
  return data[0]!;
}

export async function index(url: string, body: object = {}): Promise<unknown> {
  const received = await postJson(url, '/v2/repository/index', body);
  expect(received.status).toBe(200);
  return json(received);
}

/** Clients that ask models one after the other, each over one connection. */
export class Hammer {
  /** What each client was given by each model, in order, without repetitions */
  readonly seen: Map<string, (number | string)[]>[] = [];
  answers = 0;
  #isOver = false;
  readonly #clients: Promise<void>[];

  constructor(url: string, names: readonly string[], clients: number) {
    this.#clients = Array.from({ length: clients }, () => this.#ask(url, names));
  }

  /** Resolves when all have asked so many more times. */
  async more(answers: number): Promise<void> {
    const goal = this.answers + answers;
    while (this.answers < goal) await new Promise((resolve) => setTimeout(resolve, 2));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }

  async #ask(url: string, names: readonly string[]): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const seen = new Map(names.map((name) => [name, [] as (number | string)[]]));
    this.seen.push(seen);
    while (!this.#isOver) {
      for (const name of names) {
        const got = await this.#askOnce(url, name, agent).catch((error: Error) => error.message);
        const before = seen.get(name)!;
        if (before.at(-1) !== got) before.push(got);
        this.answers++;
      }
    }
    agent.destroy();
  }

  #askOnce(url: string, name: string, agent: Agent): Promise<number | string> {
    const { hostname, port } = new URL(url);
    const body = JSON.stringify(BODY);
    const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length };
    const to = { hostname, port, agent, headers, method: 'POST', path: `/v2/models/${name}/infer` };
    return new Promise((resolve, reject) => {
      const call = httpRequest(to, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () => resolve(response.statusCode === 200 ? readFactor(text) : text));
      });
      call.on('error', reject).end(body);
    });
  }
}
