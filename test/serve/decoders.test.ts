/** The processes that decode images for threads that read requests. */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';

import sharp from 'sharp';

import type * as Cancellations from '../../lib/serve/cancellation';
import type { ImagePlan } from '../../lib/serve/decoders/decoder';
import type * as Processes from '../../lib/serve/decoders/processes';
import { node, onnxModel, value } from '../support/onnx_builder';
import { InferenceSession, openBuilt } from './support/built';
import { json, request } from './support/client';
import { load } from './support/outside';
import { closeAll, until } from './support/serving';

const { Cancellation } = load('../../../dist/serve/cancellation') as typeof Cancellations;
const { DecoderProcesses } = load('../../../dist/serve/decoders/processes') as typeof Processes;

const opened: Processes.DecoderProcesses[] = [];
afterEach(async () => {
  await closeAll();
  for (const one of opened.splice(0)) one.close();
  await until(() => decoders().length === 0);
});

function open(most: number): Processes.DecoderProcesses {
  const decoder = new DecoderProcesses(most);
  opened.push(decoder);
  return decoder;
}

function read(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    // It has ended.
    return '';
  }
}

/** Those of this process. */
function decoders(): number[] {
  return children()
    .filter((pid) => read(pid, 'cmdline').includes('decoder_process'))
    .map(Number);
}

/** Those of this process, ended ones too that it took no note of. */
function children(): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => read(pid, 'status').includes(`\nPPid:\t${process.pid}\n`));
}

type Pixel = readonly [number, number, number];

const png = ([r, g, b]: Pixel, side = 4) =>
  sharp({ create: { width: side, height: side, channels: 3, background: { r, g, b } } })
    .png()
    .toBuffer();

const PLAN: ImagePlan = { height: 2, width: 2, resize: 'fill', isGrey: false };
const ask = (decoder: Processes.DecoderProcesses, body: Buffer, cancellation = new Cancellation()) =>
  decoder.decode(body, PLAN, cancellation);

test('are started one by one, as images find the others busy, and decode each its own', async () => {
  const decoder = open(2);
  expect(decoders()).toEqual([]);
  const colours = Array.from({ length: 40 }, (_, index): Pixel => [index, 2 * index, 255 - index]);
  const files = await Promise.all(colours.map((colour) => png(colour)));
  await ask(decoder, files[0]!);
  expect(decoders().length).toBe(1);
  const pixels = await Promise.all(files.map((file) => ask(decoder, file)));
  expect(decoders().length).toBe(2);
  pixels.forEach(({ data, ...size }, index) => {
    expect(size).toEqual({ height: 2, width: 2, channels: 3 });
    expect([...data]).toEqual(new Array(4).fill(colours[index]).flat());
  });
});

test('take a body in shared memory', async () => {
  const file = await png([1, 2, 3]);
  const shared = Buffer.from(new SharedArrayBuffer(file.length + 5), 5);
  file.copy(shared);
  const { data } = await ask(open(1), shared);
  expect([...data.subarray(0, 3)]).toEqual([1, 2, 3]);
});

test('say what is wrong with an image, and go on', async () => {
  const decoder = open(1);
  const file = await png([9, 9, 9]);
  const broken = file.subarray(0, 40);
  const settled = await Promise.allSettled([ask(decoder, broken), ask(decoder, file), ask(decoder, broken)]);
  expect(settled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected']);
  const { reason } = settled[0]! as PromiseRejectedResult;
  expect((reason as Error).message).toMatch(/./);
  expect((reason as { status?: number }).status).toBeUndefined();
  expect(decoders().length).toBe(1);
});

test('one that ends is replaced, and fails no image but those that it had', async () => {
  const decoder = open(1);
  const large = await png([5, 6, 7], 4000);
  const small = await png([8, 8, 8]);
  const lost = [ask(decoder, large), ask(decoder, large)];
  const later = [ask(decoder, small), ask(decoder, small)];
  const failures = Promise.allSettled(lost);
  await until(() => decoders().length === 1);
  process.kill(decoders()[0]!, 'SIGKILL');
  for (const one of await failures) {
    const { reason } = one as PromiseRejectedResult;
    expect(reason).toMatchObject({
      status: 500,
      message: 'the process that decoded the image ended: SIGKILL',
    });
  }
  for (const { data } of await Promise.all(later)) expect(data[0]).toBe(8);
});

test('an image that nobody waits for any more is let go of, begun or not', async () => {
  const decoder = open(1);
  const large = await png([5, 6, 7], 3000);
  const cancellations = Array.from({ length: 6 }, () => new Cancellation());
  const answers = Promise.allSettled(cancellations.map((one) => ask(decoder, large, one)));
  await until(() => decoders().length === 1);
  cancellations.forEach((one, index) => index !== 3 && one.request(new Error(`gone ${index}`)));
  const [first] = await Promise.all([answers, ask(decoder, await png([1, 1, 1]))]);
  expect(first.map((one) => (one.status === 'rejected' ? (one.reason as Error).message : 'decoded'))).toEqual(
    [...['gone 0', 'gone 1', 'gone 2', 'decoded', 'gone 4', 'gone 5']],
  );
  const cancelled = new Cancellation();
  cancelled.request(new Error('before'));
  await expect(ask(decoder, large, cancelled)).rejects.toThrow('before');
});

test('one that does not answer is replaced once nobody waits for its images', async () => {
  const decoder = open(1);
  const file = await png([4, 4, 4]);
  await ask(decoder, file);
  const [stuck] = decoders();
  process.kill(stuck!, 'SIGSTOP');
  const cancellations = [new Cancellation(), new Cancellation()];
  const lost = cancellations.map((one) => expect(ask(decoder, file, one)).rejects.toThrow('late'));
  const later = ask(decoder, file);
  // It has two of them by then.
  await setTimeout(100);
  cancellations.forEach((one) => one.request(new Error('late')));
  await Promise.all(lost);
  expect((await later).data[0]).toBe(4);
  expect(decoders()).not.toContain(stuck);
}, 60_000);

test.each([
  [
    'that there is no program',
    "Object.defineProperty(process, 'execPath', { value: '/nowhere/node' });",
    'ENOENT',
  ],
  ['arguments that are too long', "process.env.LONG = 'x'.repeat(2 ** 22);", 'E2BIG'],
  ['too many open files', 'for (;;) try { openSync("/dev/null") } catch { break; }', 'EMFILE'],
])('where none can be started, images are refused: %s', async (_, prepare, code) => {
  const script = path.join(__dirname, 'children/decode_nowhere.cjs');
  const command = `ulimit -n 200; exec ${process.execPath} ${script} "$0"`;
  const { stdout, stderr } = await promisify(execFile)('sh', ['-c', command, prepare]);
  expect([stdout, stderr]).toEqual([expect.stringMatching(new RegExp(`^(500 .*${code}.*\\n){3}$`)), '']);
});

test('do not keep the process from ending', async () => {
  const script = path.join(__dirname, 'children/decode_once.cjs');
  const body = (await png([1, 2, 3])).toString('base64');
  const { stdout } = await promisify(execFile)(process.execPath, [script, body]);
  expect(stdout).toBe('1,2,3,1,2,3\n');
});

describe('of a server', () => {
  const model = onnxModel({
    inputs: [value('x', ['N', 3, 2, 2])],
    nodes: [node('Identity', ['x'], ['y'])],
    outputs: [value('y', ['N', 3, 2, 2])],
  });

  const start = async (error = jest.fn()) => {
    const session = await InferenceSession.create(model, { device: 'cpu' });
    const models = { m: { session, image: { scale: 1 } } };
    const server = await openBuilt({ models, logger: { error } }, 3);
    return { ...server, release: () => session.release() };
  };
  const post = (url: string, body: Buffer) =>
    request(url, { path: '/v2/models/m/infer', headers: { 'Content-Type': 'image/png' }, body });

  test('are killed under load: every answer is right or says so, and none is missing', async () => {
    const error = jest.fn();
    const { url, close, release } = await start(error);
    let isOver = false;
    const statuses: number[] = [];
    const client = async (index: number) => {
      const file = await png([index, 0, 0], 200);
      while (!isOver) {
        const received = await post(url, file);
        statuses.push(received.status);
        const answer = json(received);
        if (received.status === 200) {
          expect((answer.outputs as { data: number[] }[])[0]!.data.slice(0, 4)).toEqual(
            new Array(4).fill(index),
          );
        } else expect(answer.error).toBe('the process that decoded the image ended: SIGKILL');
      }
    };
    const clients = Promise.all(Array.from({ length: 8 }, (_, index) => client(index)));
    for (let kill = 0; kill < 6; kill++) {
      const before = statuses.length;
      await until(() => statuses.length > before + 20 && decoders().length > 0);
      process.kill(decoders()[kill % decoders().length]!, 'SIGKILL');
    }
    const before = statuses.length;
    await until(() => statuses.length > before + 50);
    isOver = true;
    await clients;
    const failed = statuses.filter((status) => status !== 200).length;
    process.stdout.write(`${failed} of ${statuses.length} images were in decoders that were killed\n`);
    await until(() => error.mock.calls.length >= failed);
    expect(error).toHaveBeenCalledTimes(failed);
    // Those of three threads, two images each, six times.
    expect(failed).toBeLessThanOrEqual(12);
    await close();
    await until(() => decoders().length === 0);
    await release();
  });

  test('end with it, and are not there unless images come', async () => {
    const before = children();
    const { url, close, release } = await start();
    await request(url, { path: '/v2/models/m' });
    expect(decoders()).toEqual([]);
    expect((await post(url, await png([3, 2, 1]))).status).toBe(200);
    expect(decoders().length).toBe(1);
    // A terminal signals all that it runs; the server drains.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(decoders()[0]!, signal);
    await setTimeout(50);
    expect((await post(url, await png([3, 2, 1]))).status).toBe(200);
    await close();
    expect(children()).toEqual(before);
    await release();
  });
});
