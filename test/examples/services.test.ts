/** examples/express.mjs and examples/fastify.mjs as their users run them, and as their clients call them. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, request, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import {
  EIGHT,
  Example,
  expectLogits,
  heldOutDigits,
  ROOT,
  runExample,
  slowClassifier,
  startExample,
  type RunningExample,
} from './support';

const LONG_RUNS = pathToFileURL(path.join(__dirname, 'children/long_runs.mjs')).href;
/** Long enough for what happens during a run to do so */
const RUN_MS = '1500';

let folder: string;
let slow: string;
let eight: Buffer;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'warpconv-services-'));
  slow = path.join(folder, 'slow.onnx');
  await writeFile(slow, slowClassifier());
  eight = await readFile(EIGHT);
});
afterAll(async () => {
  await Example.endAll();
  await rm(folder, { recursive: true });
});

describe.each(['express', 'fastify'])('%s', (name) => {
  const script = `examples/${name}.mjs`;

  describe('with the network of the digits', () => {
    let service: RunningExample;
    beforeAll(async () => {
      service = await startExample([script], 0);
    });
    afterAll(async () => {
      expect(await service.stop()).toEqual([0, null]);
    });

    const post = (target: string, type: string, body: string | Buffer) =>
      fetch(service.url + target, {
        method: 'POST',
        headers: { 'Content-Type': type },
        body: typeof body === 'string' ? body : new Uint8Array(body),
      });

    test('classifies a JPEG', async () => {
      const response = await post('/classify', 'image/jpeg', eight);
      const classes = (await response.json()) as { label: string; score: number }[];
      expect([response.status, classes.length, classes[0]!.label]).toEqual([200, 5, 'eight']);
      expect(classes[0]!.score).toBeGreaterThan(0.9);
    });

    test('takes tensors as JSON, many at once', async () => {
      const { images, logits } = heldOutDigits();
      const answers = await Promise.all(
        images.slice(0, 20).map(async (image) => {
          const body = { dims: [1, 1, 8, 8], data: [...image].map((level) => level / 16) };
          const response = await post('/predict', 'application/json', JSON.stringify(body));
          return (await response.json()) as Record<string, { dims: number[]; data: number[] }>;
        }),
      );
      for (const [row, answer] of answers.entries()) {
        expect(answer.logits!.dims).toEqual([1, 10]);
        expectLogits(answer.logits!.data, logits[row]!);
        expect(Object.keys(answer)).toEqual(['logits', 'probabilities']);
      }
    });

    const json = 'application/json';
    const tensor = (dims: unknown, data: unknown) => JSON.stringify({ dims, data });
    const zeros = new Array<number>(64).fill(0);
    test.each<[string, status: number, target: string, type: string, body: string | Buffer]>([
      ['a picture that is none', 415, '/classify', 'image/jpeg', 'no picture'],
      ['half a picture', 415, '/classify', 'image/jpeg', Buffer.alloc(100, 0xff)],
      ['no picture at all', 415, '/classify', 'image/jpeg', ''],
      ['the path of a file', 415, '/classify', 'text/plain', EIGHT],
      ['the path of a file as JSON', 415, '/classify', json, JSON.stringify(EIGHT)],
      ['JSON that is none', 400, '/predict', json, '{"dims": ['],
      ['no tensor', 400, '/predict', json, '{}'],
      [
        'elements that are no numbers',
        400,
        '/predict',
        json,
        tensor(
          [1, 1, 8, 8],
          zeros.map(() => 'a'),
        ),
      ],
      ['elements that are no list', 400, '/predict', json, tensor([1, 1, 8, 8], 'all')],
      ['fewer elements than its dims say', 400, '/predict', json, tensor([1, 1, 8, 8], [1])],
      ['dims that do not fit the model', 400, '/predict', json, tensor([1, 1, 4, 16], zeros)],
      ['another path', 404, '/nothing', json, '{}'],
    ])('refuses %s by %i', async (_, status, target, type, body) => {
      const response = await post(target, type, body);
      expect(response.status).toBe(status);
      if (status === 404) return;
      const { error } = (await response.json()) as { error: string };
      expect(error).toEqual(expect.stringMatching(/./));
      expect(error).not.toMatch(/see the log|at .*\(/);
    });

    test.each([
      ['/classify', 'image/jpeg', 2 ** 24 + 1],
      ['/predict', json, 2 ** 22 + 1],
    ])('refuses what is too long for %s by 413', async (target, type, length) => {
      const headers = { 'Content-Type': type, 'Content-Length': length };
      const sent = request(service.url + target, { method: 'POST', headers }).on('error', () => {});
      sent.flushHeaders();
      // Fastify answers at once. Express reads what it refuses.
      if (name === 'express') sent.end(Buffer.alloc(length));
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      expect(response.statusCode).toBe(413);
      sent.destroy();
    });
  });

  test('aborts runs of clients that go, refuses what is too much, and answers what it accepted after SIGTERM', async () => {
    const { example, url, stop } = await startExample(['--import', LONG_RUNS, script, slow], 0, {
      RUN_MS,
    });
    const classify = (signal?: AbortSignal) =>
      fetch(`${url}/classify`, {
        method: 'POST',
        headers: { 'Content-Type': 'image/jpeg' },
        body: new Uint8Array(eight),
        signal,
      });
    const leaving = new AbortController();
    const left = classify(leaving.signal);
    // The first is that which compiles.
    await example.printed(/a run begins/, 2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await example.printed(/a run ended by ERR_WARPCONV_ABORTED/);

    const crowd = new AbortController();
    const refused = await Promise.any(
      Array.from({ length: 65 }, async () => {
        const response = await classify(crowd.signal);
        if (response.status === 503) return response;
        throw new Error(`answered by ${response.status}`);
      }),
    );
    expect(refused.headers.get('Retry-After')).toBe('1');
    crowd.abort();
    await example.printed(/a run ended by ERR_WARPCONV_ABORTED/, 2);

    const before = example.matches(/a run begins/).length;
    const accepted = classify();
    await example.printed(/a run begins/, before + 1);
    const ended = stop();
    // Its handler of SIGTERM runs before any request that comes later.
    let health: Response;
    do health = await fetch(`${url}/health`);
    while (health.status === 200);
    expect([health.status, health.headers.get('Connection')]).toEqual([503, 'close']);
    const response = await accepted;
    expect([response.status, response.headers.get('Connection')]).toEqual([200, 'close']);
    expect(await response.json()).toHaveLength(5);
    expect(await ended).toEqual([0, null]);
  });

  test('says what is wrong where it cannot start', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const endings = await Promise.all([
      runExample([script, 'nothing.onnx'], { cwd: ROOT }),
      runExample([script], { env: { PORT: String(port) } }),
    ]);
    taken.close();
    expect(endings).toEqual([
      { code: 1, signal: null, stdout: '', stderr: expect.stringMatching(/^nothing\.onnx: .*ENOENT.*\n$/) },
      { code: 1, signal: null, stdout: '', stderr: expect.stringMatching(/^listen EADDRINUSE.*\n$/) },
    ]);
  });
});
