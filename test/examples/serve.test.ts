/** examples/serve.mjs and the server of examples/digits, as programs call them. */
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

import { startExample } from './support';

interface Answer {
  readonly outputs: readonly { readonly name: string; readonly data: readonly number[] }[];
}

const DIGITS_SERVER = ['-r', 'ts-node/register', 'examples/digits/server.ts'];

async function infer(url: string, body: string): Promise<Answer> {
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(`${url}/v2/models/digits/infer`, { method: 'POST', headers, body });
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

test('the server of the digits answers its own example, and ends at SIGTERM', async () => {
  const { url, stop } = await startExample(DIGITS_SERVER, 0);
  const example = await (await fetch(`${url}/example`)).text();
  const { outputs } = await infer(url, example);
  expect(outputs.map(({ name }) => name)).toEqual(['logits', 'probabilities']);
  const { data } = outputs[1]!;
  expect(data.reduce((sum, probability) => sum + probability)).toBeCloseTo(1, 5);
  // The first of the held-out images is an eight.
  expect(data.indexOf(Math.max(...data))).toBe(8);
  expect((await fetch(`${url}/v2/health/ready`)).status).toBe(200);
  expect((await fetch(`${url}/nothing`)).status).toBe(404);
  expect(await stop()).toEqual([0, null]);
});

test('a port that is taken makes it take the next one', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const { url, stop } = await startExample(DIGITS_SERVER, port);
  expect(Number(new URL(url).port)).toBeGreaterThan(port);
  expect((await fetch(`${url}/v2/health/live`)).status).toBe(200);
  await stop();
  taken.close();
});

test('serve.mjs serves any ONNX file under its name', async () => {
  const { url, stop } = await startExample(['examples/serve.mjs', 'examples/digits/digits.onnx'], 0);
  const inputs = [{ name: 'image', datatype: 'FP32', shape: [2, 1, 8, 8], data: new Array(128).fill(0.5) }];
  const { outputs } = await infer(url, JSON.stringify({ inputs }));
  expect(outputs.map(({ data }) => data.length)).toEqual([20, 20]);
  expect(await stop()).toEqual([0, null]);
});
