/** `warpconv serve`, as a shell starts it: the built command, its output and how it ends. */
import { spawn, spawnSync } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';

import sharp from 'sharp';

import { json, postJson, request, type Received } from './support/client';
import { BROKEN, factorOf, Hammer, index, newFolder, put, scaling } from './support/models';

const ROOT = path.join(__dirname, '../..');
const DIGITS = path.join(ROOT, 'examples/digits/digits.onnx');
const CPU = ['--port', '0', '--device', 'cpu'];

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

const children = new Set<ReturnType<typeof spawn>>();
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** Starts the command. `listening` is of the lines that it prints when it serves, and rejects if it ends instead. */
function serve(...args: string[]) {
  const child = spawn(process.execPath, [path.join(ROOT, 'dist/cli.js'), 'serve', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  let [stdout, stderr] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const ended = new Promise<Ended>((resolve) =>
    child.on('close', (code, signal) => {
      children.delete(child);
      resolve({ code, signal, stdout, stderr });
    }),
  );
  const listening = async (): Promise<string[]> => {
    while (!/Ctrl\+C .*\n/.test(stdout)) {
      const output = new Promise<void>((resolve) => child.stdout.once('data', () => resolve()));
      const ending = await Promise.race([ended, output]);
      if (ending !== undefined) throw new Error(`it ended: ${JSON.stringify(ending)}`);
    }
    return stdout.split('\n').slice(0, -2);
  };
  /** Resolves once the command has said so on stderr. */
  const said = async (line: RegExp): Promise<void> => {
    while (!line.test(stderr)) await new Promise((resolve) => child.stderr.once('data', resolve));
  };
  const stopReading = () => {
    child.stdout.destroy();
    child.stderr.destroy();
  };
  const kill = (signal: NodeJS.Signals) => child.kill(signal);
  return { listening, said, ended, stderr: () => stderr, stopReading, kill };
}

/** Asks a model of digits at its address. */
function ask(url: string, datatype = 'FP32', shape = [1, 1, 8, 8], element = 0.5): Promise<Received> {
  const inputs = [{ name: 'image', datatype, shape, data: new Array<number>(64).fill(element) }];
  const { origin, pathname } = new URL(url);
  return postJson(origin, `${pathname}/infer`, { inputs });
}

const probabilities = (received: Received) => {
  expect(received.status).toBe(200);
  const outputs = json(received).outputs as { name: string; data: number[] }[];
  return outputs.find(({ name }) => name === 'probabilities')!.data;
};

test.each(['SIGTERM', 'SIGINT'] as const)('it serves a file on several threads until %s', async (signal) => {
  const server = serve(DIGITS, '--threads', '2', ...CPU);
  const lines = await server.listening();
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v2\/models\/digits$/);
  const sum = probabilities(await ask(lines[0]!)).reduce((total, one) => total + one, 0);
  expect(sum).toBeCloseTo(1, 5);
  server.kill(signal);
  expect(await server.ended).toEqual({
    ...{ code: 0, signal: null, stderr: '' },
    stdout: `${lines[0]}\nCtrl+C ends the server once all requests have been answered.\n`,
  });
});

test('it serves a file without more options than where', async () => {
  const server = serve(DIGITS, ...CPU);
  const [url] = await server.listening();
  expect(probabilities(await ask(url!))).toHaveLength(10);
  expect((await ask(url!, 'UINT8', [1, 8, 8, 1], 128)).status).toBe(400);
  server.kill('SIGTERM');
  expect(await server.ended).toMatchObject({ code: 0, stderr: '' });
});

test('files may be named, and there may be several', async () => {
  const server = serve(`first=${DIGITS}`, DIGITS, `the 2nd=${DIGITS}`, ...CPU);
  const lines = await server.listening();
  expect(lines.map((line) => new URL(line).pathname)).toEqual([
    '/v2/models/first',
    '/v2/models/digits',
    '/v2/models/the%202nd',
  ]);
  const all = await Promise.all(lines.map(async (line) => probabilities(await ask(line))));
  expect(all[1]).toEqual(all[0]);
  expect(all[2]).toEqual(all[0]);
  server.kill('SIGTERM');
  expect(await server.ended).toMatchObject({ code: 0, stderr: '' });
});

test('--mean and --std let requests bring images', async () => {
  const server = serve(DIGITS, '--mean', '0.5', '--std', '0.5', '--threads', '2', ...CPU);
  const [url] = await server.listening();
  const expected = probabilities(await ask(url!, 'FP32', [1, 1, 8, 8], (51 / 255 - 0.5) / 0.5));
  const close = (actual: number[]) => actual.forEach((one, at) => expect(one).toBeCloseTo(expected[at]!, 4));
  close(probabilities(await ask(url!, 'UINT8', [1, 8, 8, 1], 51)));
  const grey = sharp({ create: { width: 20, height: 20, channels: 3, background: { r: 51, g: 51, b: 51 } } });
  const { origin, pathname } = new URL(url!);
  for (const format of ['png', 'webp', 'jpeg'] as const) {
    const body = await grey.clone().toColourspace('b-w').toFormat(format).toBuffer();
    const headers = { 'Content-Type': `image/${format}` };
    close(probabilities(await request(origin, { path: `${pathname}/infer`, headers, body })));
  }
  server.kill('SIGTERM');
  expect(await server.ended).toMatchObject({ code: 0, stderr: '' });
});

test('--resize alone does so, too', async () => {
  const server = serve(DIGITS, '--resize', '16', '--max-batch', '4', '--precision', 'fp16', ...CPU);
  const [url] = await server.listening();
  const expected = probabilities(await ask(url!, 'FP32', [1, 1, 8, 8], 0.2));
  const actual = probabilities(await ask(url!, 'UINT8', [1, 8, 8, 1], 51));
  actual.forEach((one, at) => expect(one).toBeCloseTo(expected[at]!, 4));
  server.kill('SIGTERM');
  expect(await server.ended).toMatchObject({ code: 0, stderr: '' });
});

const USAGE = /\nusage: warpconv serve \[NAME=\]MODEL\.onnx/;

test.each<[string, string[], RegExp]>([
  ['no file', [], /^warpconv: serve needs an ONNX file, for example: warpconv serve model\.onnx\n/],
  [
    'an option that is not there',
    [DIGITS, '--treads', '2'],
    /^warpconv: serve takes no --treads; did you mean --threads\?\n/,
  ],
  ['an option of another command', [DIGITS, '--json'], /^warpconv: serve takes no --json\n/],
  ['an option without its value', [DIGITS, '--port'], /^warpconv: .*--port/],
  [
    'two files of one name',
    [DIGITS, `x/digits.onnx`],
    /^warpconv: two of the files have one name; name them as in/,
  ],
  ['a name twice', [`a=${DIGITS}`, `a=${DIGITS}`], /^warpconv: two of the files have one name/],
])('%s: the usage, and 2', async (_, args, message) => {
  const { code, stdout, stderr } = await serve(...args).ended;
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(message);
  expect(stderr).toMatch(USAGE);
});

// They end with 1 and a message of the library, in which what was typed is NaN.
test.each([
  ['--port', 'abc'],
  ['--port', '80000'],
  ['--threads', '0'],
  ['--threads', 'two'],
  ['--max-batch', 'all'],
  ['--precision', 'half'],
  ['--mean', 'a,b,c'],
  ['--std', '0'],
  ['--resize', 'big'],
])('a value that is none, %s %s: the usage, and 2', async (option, text) => {
  const { code, stderr } = await serve(DIGITS, '--device', 'cpu', option, text).ended;
  expect(code).toBe(2);
  expect(stderr).toContain(text);
  expect(stderr).toMatch(USAGE);
});

// An empty text counts as 0: any port that is free, and a mean of 0.
test.each([
  ['--port', ''],
  ['--mean', ''],
  ['--mean', ','],
])('a value that is empty, %s %j: the usage, and 2', async (option, text) => {
  const server = serve(DIGITS, ...CPU, option, text);
  const ending = await Promise.race([server.ended, server.listening().catch(() => server.ended)]);
  expect(ending).toMatchObject({ code: 2 });
});

test.each<[string, string[], RegExp]>([
  ['a file that is missing', ['none.onnx'], /^warpconv: ERR_WARPCONV_\w+: .*none\.onnx'?\n$/],
  ['a folder without models', [ROOT], /^warpconv: ERR_WARPCONV_INVALID_ARGUMENT: there is no model in .*\n$/],
  ['a file that is no model', [path.join(ROOT, 'README.md')], /^warpconv: ERR_WARPCONV_INVALID_MODEL: .*\n$/],
  ['one of two that is missing', [DIGITS, 'none.onnx'], /^warpconv: ERR_WARPCONV_\w+: .*none\.onnx'?\n$/],
  ['an address of no machine here', [DIGITS, '--host', '192.0.2.1'], /^warpconv: EADDRNOTAVAIL: .*\n$/],
  ['a device that is not there', [DIGITS, '--device', 'cuda:99'], /^warpconv: ERR_WARPCONV_NO_DEVICE: .*\n$/],
])('%s: a line, and 1', async (_, args, message) => {
  const { code, stdout, stderr } = await serve(...CPU, ...args).ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(message);
  expect(stderr.trimEnd()).not.toContain('\n');
});

test.each(['1', '3'])('a port that is taken, with %s threads: a line, and 1', async (threads) => {
  const taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as AddressInfo;
  const { code, stdout, stderr } = await serve(
    DIGITS,
    '--device',
    'cpu',
    '--port',
    `${port}`,
    '--threads',
    threads,
  ).ended;
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toBe(`warpconv: EADDRINUSE: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`);
  await new Promise((resolve) => taken.close(resolve));
});

test('the help tells of it', async () => {
  const { code, stdout, stderr } = await serve('--help').ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(`\n${stdout}`).toMatch(USAGE);
});

test('a second signal ends it at once', async () => {
  const server = serve(DIGITS, '--threads', '2', ...CPU);
  const [url] = await server.listening();
  const { origin } = new URL(url!);
  // A request whose body does not come keeps the server.
  const waiting = fetch(`${url}/infer`, {
    method: 'POST',
    body: new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('{')) }),
    duplex: 'half',
    headers: { 'Content-Type': 'application/json' },
  } as RequestInit).catch((error: unknown) => error);
  while (!/requests_in_flight 1/.test((await request(origin, { path: '/metrics' })).body.toString()));
  server.kill('SIGTERM');
  await new Promise((resolve) => setTimeout(resolve, 500));
  server.kill('SIGTERM');
  expect(await server.ended).toMatchObject({ code: null, signal: 'SIGTERM' });
  await waiting;
});

test('a signal ends it quietly before it listens, too', () => {
  const program = `require(${JSON.stringify(path.join(ROOT, 'dist/cli.js'))}); process.kill(process.pid, 'SIGTERM')`;
  const args = ['-e', program, 'cli.js', 'serve', DIGITS, ...CPU];
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ status, signal, stdout, stderr }).toEqual({ status: 0, signal: null, stdout: '', stderr: '' });
});

test('a log that nobody reads any more ends nothing', async () => {
  const server = serve(DIGITS, '--access-log', ...CPU);
  await server.said(/Ctrl\+C .*\n/);
  const [url] = /^http:\S+/.exec(server.stderr())!;
  server.stopReading();
  for (let round = 0; round < 20; round++) expect((await ask(url)).status).toBe(200);
  server.kill('SIGTERM');
  expect(await server.ended).toMatchObject({ code: 0, signal: null });
});

describe('a folder of models', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await newFolder();
    for (const name of ['a', 'b', 'c']) await put(folder, name, '1', scaling(2));
  });
  afterEach(() => rm(folder, { recursive: true }));

  test('SIGHUP brings new versions while clients ask, and no request fails', async () => {
    const server = serve(folder, '--threads', '2', ...CPU);
    const lines = await server.listening();
    const { origin } = new URL(lines[0]!);
    expect(lines.map((line) => new URL(line).pathname)).toEqual(
      ['a', 'b', 'c'].map((name) => `/v2/models/${name}`),
    );
    const hammer = new Hammer(origin, ['a', 'b', 'c'], 4);
    await hammer.more(30);
    await put(folder, 'a', '2', scaling(3));
    await put(folder, 'b', '2', BROKEN);
    server.kill('SIGHUP');
    await server.said(/a model was replaced: "a" 2\n/);
    await server.said(/a model cannot be loaded: "b": .*\n/);
    await hammer.more(30);
    await hammer.stop();
    for (const seen of hammer.seen) expect(Object.fromEntries(seen)).toEqual({ a: [2, 3], b: [2], c: [2] });
    server.kill('SIGTERM');
    expect(await server.ended).toMatchObject({ code: 0, signal: null });
  });

  test('--model-control, --load-model, and options for all models', async () => {
    const server = serve(
      folder,
      '--model-control',
      'explicit',
      '--load-model',
      'a',
      '--load-model',
      'c',
      ...CPU,
    );
    const lines = await server.listening();
    expect(lines).toHaveLength(2);
    const { origin } = new URL(lines[0]!);
    const load = await request(origin, { path: '/v2/repository/models/b/load', method: 'POST' });
    expect(load.status).toBe(200);
    expect(await factorOf(origin, 'b')).toBe(2);
    expect(await index(origin, { ready: true })).toHaveLength(3);
    server.kill('SIGTERM');
    expect(await server.ended).toMatchObject({ code: 0, signal: null });
  });

  test('--poll-seconds', async () => {
    const server = serve(folder, '--model-control', 'poll', '--poll-seconds', '0.05', ...CPU);
    const [url] = await server.listening();
    await put(folder, 'a', '7', scaling(5));
    await server.said(/a model was replaced: "a" 7\n/);
    expect(await factorOf(new URL(url!).origin, 'a')).toBe(5);
    server.kill('SIGTERM');
    expect(await server.ended).toMatchObject({ code: 0, signal: null });
  });

  test.each<[string, (folder: string) => string[], RegExp]>([
    ['a mode that is none', (one) => [one, '--model-control', 'push'], /^warpconv: options\.control must be/],
    [
      'an interval that is none',
      (one) => [one, '--poll-seconds', 'often'],
      /^warpconv: --poll-seconds takes a number/,
    ],
    [
      'an answer that is none',
      (one) => [one, '--strict-readiness', '1'],
      /^warpconv: --strict-readiness takes 'yes' or 'no'/,
    ],
    ['a folder and a file', (one) => [one, DIGITS], /^warpconv: serve takes one folder, or files/],
    [
      'an option of folders for a file',
      () => [DIGITS, '--load-model', 'a'],
      /^warpconv: --load-model needs a folder/,
    ],
  ])('%s: the usage, and 2', async (_, args, message) => {
    const { code, stderr } = await serve(...args(folder)).ended;
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
    expect(stderr).toMatch(USAGE);
  });
});
