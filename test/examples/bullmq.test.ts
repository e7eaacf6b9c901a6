/** examples/bullmq with a Redis of its own: workers that die, are held up, or end, and a producer that waits for them. */
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import sharp from 'sharp';

import { describeRedis, startRedis } from '../support/redis';
import { EIGHT, Example, heldOutDigits, runExample, slowClassifier, softmax } from './support';

const WORKER = 'examples/bullmq/worker.mjs';
const PRODUCER = 'examples/bullmq/producer.mjs';
const LONG_RUNS = pathToFileURL(path.join(__dirname, 'children/long_runs.mjs')).href;
/** WARPCONV_BULLMQ_JOBS=1000 has a worker killed three times. */
const JOBS = Number(process.env.WARPCONV_BULLMQ_JOBS ?? 60);
/** Shares of the answers after which a worker is killed */
const KILLS = JOBS < 1000 ? [0.15] : [0.15, 0.4, 0.65];
/** Of a worker's lock on a job */
const LOCK_MS = 1000;
const NAMES = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'];

interface Result {
  readonly input: string;
  readonly classes: readonly { readonly label: string; readonly score: number }[];
}

describeRedis('the BullMQ example', () => {
  let folder: string;
  let stopRedis: () => Promise<void>;
  let redis: Redis;
  let queue: Queue;
  let env: NodeJS.ProcessEnv;

  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'warpconv-bullmq-'));
    const { socket, stop } = startRedis(folder);
    stopRedis = stop;
    env = { REDIS_URL: socket, RESULTS: path.join(folder, 'results'), LOCK_MS: String(LOCK_MS) };
    redis = new Redis(socket, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
    redis.on('error', () => {});
    await redis.ping();
    queue = new Queue('classify', { connection: redis });
    queue.on('error', () => {});
  });
  afterEach(async () => {
    await Example.endAll();
    await queue.close();
    await redis.quit();
    await stopRedis();
    await rm(folder, { recursive: true });
  });

  const resultOf = async (id: string) =>
    JSON.parse(await readFile(path.join(env.RESULTS!, `${id}.json`), 'utf8')) as Result;

  /** Kills a worker that has jobs, and resolves with how many it has. */
  async function killAtWork(worker: Example): Promise<number> {
    for (;;) {
      worker.child.kill('SIGSTOP');
      const { active, wait } = await queue.getJobCounts('active', 'wait');
      if (active! > 0) {
        expect((await worker.kill('SIGKILL')).signal).toBe('SIGKILL');
        return active!;
      }
      if (wait === 0) throw new Error('the jobs were done before the worker could be killed');
      worker.child.kill('SIGCONT');
      await sleep(1);
    }
  }

  test(`loses none of ${JOBS} jobs of a worker that is killed, and answers none twice`, async () => {
    const { images, logits } = heldOutDigits();
    const pictures = path.join(folder, 'pictures');
    await writePictures(pictures, images);
    let worker = new Example([WORKER], { env });
    const producer = new Example([PRODUCER, pictures], { env });
    for (const share of KILLS) {
      await producer.printed(/\n/, share * JOBS);
      const active = await killAtWork(worker);
      if (KILLS.length > 1) {
        const answers = producer.matches(/\n/).length;
        process.stdout.write(`killed after ${answers} answers, with ${active} jobs in work\n`);
      }
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

  /** A worker in the middle of a run that takes as long as is said, unless it is aborted. */
  async function startSlowWorker(runMs: number): Promise<{ worker: Example; producer: Example }> {
    const model = path.join(folder, 'slow.onnx');
    await writeFile(model, slowClassifier());
    const worker = new Example(['--import', LONG_RUNS, WORKER, model], {
      env: { ...env, RUN_MS: String(runMs) },
    });
    await worker.printed(/classifies by slow\.onnx/);
    const producer = new Example([PRODUCER, EIGHT], { env });
    // The first is that which compiles.
    await worker.printed(/a run begins/, 2);
    return { worker, producer };
  }

  test('a run that takes longer than its lock keeps it; SIGTERM lets it end', async () => {
    const { worker, producer } = await startSlowWorker(2.5 * LOCK_MS);
    const ending = await worker.kill('SIGTERM');
    expect(ending).toEqual({ code: 0, signal: null, stdout: expect.anything(), stderr: '' });
    const { code, stdout } = await producer.ended;
    expect([code, stdout]).toEqual([0, expect.stringMatching(/eight\.jpg: class \d+ [\d.]+ %\n$/)]);
    const [job] = await queue.getJobs(['completed']);
    expect(job!.finishedOn! - job!.processedOn!).toBeGreaterThan(LOCK_MS);
    expect([job!.attemptsStarted, job!.stalledCounter]).toEqual([1, 0]);
  });

  test('a worker that was held up while another took its job aborts its run', async () => {
    const { worker: first, producer } = await startSlowWorker(100 * LOCK_MS);
    first.child.kill('SIGSTOP');
    const second = new Example([WORKER], { env });
    const { code, stdout } = await producer.ended;
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^.*eight\.jpg: eight [\d.]+ %\n$/)]);
    first.child.kill('SIGCONT');
    await first.printed(/a run ended by ERR_WARPCONV_ABORTED/);
    const [one, two] = await Promise.all([first, second].map((worker) => worker.kill('SIGTERM')));
    expect([one!.code, two!.code]).toEqual([0, 0]);
    const [job] = await queue.getJobs(['completed']);
    expect(job!.stalledCounter).toBe(1);
    // What the second stored is what counts.
    expect((await resultOf(job!.id!)).classes[0]!.label).toBe('eight');
  });

  test('a producer tells of a Redis that has gone in a line', async () => {
    const producer = new Example([PRODUCER, EIGHT], { env });
    while ((await queue.getWaitingCount()) === 0) await sleep(20);
    const told = once(producer.child.stderr!, 'data');
    await stopRedis();
    await told;
    await sleep(500);
    const { stderr } = await producer.kill('SIGKILL');
    expect(stderr).toMatch(/^Redis has gone: .*; waiting for it\n$/);
    ({ stop: stopRedis } = startRedis(folder));
  });

  test('says what is wrong', async () => {
    const nothing = { REDIS_URL: 'redis://user:secret@127.0.0.1:1' };
    const none = path.join(folder, 'none.png');
    await writeFile(none, 'no picture');
    const worker = new Example([WORKER], { env });
    const endings = await Promise.all([
      runExample([WORKER], { env: { ...env, ...nothing } }),
      runExample([PRODUCER], { env }),
      runExample([PRODUCER, 'nothing.jpg'], { env }),
    ]);
    const unreachable = /^Redis at 127\.0\.0\.1:1: connect ECONNREFUSED.*; start it, or set REDIS_URL\n$/;
    expect(endings.map(({ code, stderr }) => [code, stderr])).toEqual(
      [unreachable, /^usage: node/, /^ENOENT.*nothing\.jpg'\n$/].map((complaint) => [
        1,
        expect.stringMatching(complaint),
      ]),
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
