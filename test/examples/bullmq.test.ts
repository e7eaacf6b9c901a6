/** examples/bullmq with a Redis of its own: workers that die, are held up, or end, and a producer that waits for them. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import sharp from 'sharp';

import { EIGHT, Example, heldOutDigits, runExample, slowClassifier, softmax } from './support';

const WORKER = 'examples/bullmq/worker.mjs';
const PRODUCER = 'examples/bullmq/producer.mjs';
const JOBS = 1000;
const NAMES = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'];

interface Result {
  readonly input: string;
  readonly classes: readonly { readonly label: string; readonly score: number }[];
}

const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
const describeRedis = hasRedis ? describe : describe.skip;

describeRedis(`the BullMQ example${hasRedis ? '' : ' (skipped: no redis-server on the PATH)'}`, () => {
  let folder: string;
  let server: ChildProcess;
  let redis: Redis;
  let queue: Queue;
  let env: NodeJS.ProcessEnv;

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'warpconv-bullmq-'));
    const socket = path.join(folder, 'redis.sock');
    const options = ['--port', '0', '--unixsocket', socket, '--dir', folder, '--save', ''];
    server = spawn('redis-server', options, { stdio: 'ignore' });
    env = { REDIS_URL: socket, RESULTS: path.join(folder, 'results'), LOCK_MS: '1000' };
    redis = new Redis(socket, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
    redis.on('error', () => {});
    await redis.ping();
    queue = new Queue('classify', { connection: redis });
  });
  afterEach(async () => {
    await queue.close();
    await redis.quit();
    server.kill();
    await rm(folder, { recursive: true });
  });

  const resultOf = async (id: string) =>
    JSON.parse(await readFile(path.join(env.RESULTS!, `${id}.json`), 'utf8')) as Result;

  /** Kills a worker that has jobs. */
  async function killAtWork(worker: Example): Promise<number> {
    for (;;) {
      worker.child.kill('SIGSTOP');
      const active = await queue.getActiveCount();
      if (active > 0) {
        expect((await worker.kill('SIGKILL')).signal).toBe('SIGKILL');
        return active;
      }
      worker.child.kill('SIGCONT');
      await sleep(1);
    }
  }

  test('loses none of 1,000 jobs of a worker that is killed three times, and answers none twice', async () => {
    const { images, logits } = heldOutDigits();
    const pictures = path.join(folder, 'pictures');
    await writePictures(pictures, images);
    let worker = new Example([WORKER], { env });
    const producer = new Example([PRODUCER, pictures], { env });
    const answers = () => producer.matches(/\n/).length;
    for (const after of [150, 400, 650]) {
      while (answers() < after) await sleep(1);
      expect(await killAtWork(worker)).toBeGreaterThan(0);
      expect(answers()).toBeLessThan(JOBS);
      worker = new Example([WORKER], { env });
    }

    const { code, stdout, stderr } = await producer.ended;
    expect([code, stderr]).toEqual([0, '']);
    const lines = [...stdout.matchAll(/^.*\/(\d{4})\.png: (\w+) ([\d.]+) %$/gm)];
    expect(lines.map(([, number]) => Number(number)).sort((a, b) => a - b)).toEqual([...Array(JOBS).keys()]);
    expect(lines).toHaveLength(stdout.split('\n').length - 1);
    for (const [, number, label] of lines) {
      const expected = logits[Number(number) % images.length]!;
      expect(label).toBe(NAMES[expected.indexOf(Math.max(...expected))]);
    }

    expect((await worker.kill('SIGTERM')).code).toBe(0);
    const ids = (await readdir(env.RESULTS!)).filter((name) => name.endsWith('.json'));
    expect(ids).toHaveLength(JOBS);
    for (const id of ids) {
      const { input, classes } = await resultOf(path.parse(id).name);
      const expected = softmax(logits[Number(path.parse(input).name) % images.length]!);
      // Bytes of 255 levels stand for 16 levels.
      for (const { label, score } of classes) {
        expect(Math.abs(Math.log(score / expected[NAMES.indexOf(label)]!))).toBeLessThan(0.1);
      }
    }
    expect(await queue.getJobCounts('completed', 'failed', 'active', 'wait')).toEqual({
      ...{ completed: JOBS, failed: 0, active: 0, wait: 0 },
    });

    // Nobody works, and who asks again is answered.
    const again = await runExample([PRODUCER, pictures], { env });
    expect(again.stdout.split('\n').sort()).toEqual(stdout.split('\n').sort());
  });

  test('a run that takes longer than its lock keeps it; SIGTERM lets it end', async () => {
    const model = path.join(folder, 'slow.onnx');
    await writeFile(model, slowClassifier(40));
    const worker = new Example([WORKER, model], { env });
    await worker.printed(/^classifies by slow\.onnx/);
    const producer = new Example([PRODUCER, EIGHT], { env });
    while ((await queue.getActiveCount()) === 0) await sleep(5);
    const ending = await worker.kill('SIGTERM');
    expect(ending).toEqual({ code: 0, signal: null, stdout: expect.anything(), stderr: '' });
    const { code, stdout } = await producer.ended;
    expect([code, stdout]).toEqual([0, expect.stringMatching(/eight\.jpg: class \d+ [\d.]+ %\n$/)]);
    const [job] = await queue.getJobs(['completed']);
    expect(job!.finishedOn! - job!.processedOn!).toBeGreaterThan(Number(env.LOCK_MS));
    expect([job!.attemptsStarted, job!.stalledCounter]).toEqual([1, 0]);
  });

  test('a worker that was held up while another took its job aborts its run', async () => {
    const model = path.join(folder, 'slow.onnx');
    await writeFile(model, slowClassifier(40));
    const first = new Example([WORKER, model], { env });
    await first.printed(/^classifies/);
    const producer = new Example([PRODUCER, EIGHT], { env });
    while ((await queue.getActiveCount()) === 0) await sleep(5);
    first.child.kill('SIGSTOP');
    const second = new Example([WORKER], { env });
    const { code, stdout } = await producer.ended;
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^.*eight\.jpg: eight [\d.]+ %\n$/)]);
    first.child.kill('SIGCONT');
    const [one, two] = await Promise.all([first, second].map((worker) => worker.kill('SIGTERM')));
    expect([one!.code, two!.code]).toEqual([0, 0]);
    const [job] = await queue.getJobs(['completed']);
    expect(job!.stalledCounter).toBe(1);
    // What the second stored is what counts.
    expect((await resultOf(job!.id!)).classes[0]!.label).toBe('eight');
  });

  test('says what is wrong', async () => {
    const nothing = { REDIS_URL: 'redis://user:secret@127.0.0.1:1' };
    const none = path.join(folder, 'none.png');
    await writeFile(none, 'no picture');
    const worker = new Example([WORKER], { env });
    const endings = await Promise.all([
      runExample([WORKER], { env: { ...env, ...nothing } }),
      runExample([PRODUCER, EIGHT], { env: nothing }),
      runExample([PRODUCER], { env }),
      runExample([PRODUCER, 'nothing.jpg'], { env }),
      runExample([WORKER, 'nothing.onnx'], { env }),
    ]);
    const unreachable = /^Redis at 127\.0\.0\.1:1: connect ECONNREFUSED.*; start it, or set REDIS_URL\n$/;
    expect(endings.map(({ code, stderr }) => [code, stderr])).toEqual(
      [unreachable, unreachable, /^usage: node/, /^ENOENT.*nothing\.jpg'\n$/, /^nothing\.onnx: .*ENOENT/].map(
        (complaint) => [1, expect.stringMatching(complaint)],
      ),
    );

    const refused = await runExample([PRODUCER, none, EIGHT], { env });
    expect([refused.code, refused.stdout]).toEqual([1, expect.stringMatching(/eight\.jpg: eight/)]);
    expect(refused.stdout).toMatch(/none\.png: failed, not a picture/);
    const { code, stderr } = await worker.kill('SIGTERM');
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^job \w+ \(.*none\.png\): not a picture/)]);
    expect((await queue.getJobs(['failed'])).map(({ attemptsMade }) => attemptsMade)).toEqual([1]);
  });
});

/** A picture a job. */
async function writePictures(folder: string, images: readonly Buffer[]): Promise<void> {
  const raw = { width: 8, height: 8, channels: 1 } as const;
  const files = await Promise.all(
    images.map((image) =>
      sharp(Buffer.from(image.map((level) => Math.round((level * 255) / 16))), { raw })
        .toColourspace('b-w')
        .png()
        .toBuffer(),
    ),
  );
  await mkdir(folder);
  for (let job = 0; job < JOBS; job++) {
    await writeFile(path.join(folder, `${String(job).padStart(4, '0')}.png`), files[job % files.length]!);
  }
}
