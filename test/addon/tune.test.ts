/** Algorithms chosen by measurement, and what is remembered of it: across plans, threads, processes and kills. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

import {
  algorithms,
  Conv2d,
  conv2d,
  conv2dSync,
  memory,
  Tensor,
  tune,
  type ConvolutionProblem,
  type PlanExplanation,
  type TuneProgress,
} from '../../lib';
import { TuningCache, type TuningRecord } from '../../lib/conv2d/tuning_cache';
import { cleanEnding, runChild } from '../support/child';
import { withoutGarbage } from '../support/garbage';
import { TEST_DEVICE } from '../support/gpu';
import { Random } from '../support/random';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-tune-'));
  process.env.WARPCONV_CACHE_DIR = folder;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const names = () => readdirSync(path.join(folder, 'tuning-1'));

function integers(dims: readonly number[], salt: number): Tensor<'float32'> {
  const size = dims.reduce((product, extent) => product * extent, 1);
  const data = Float32Array.from({ length: size }, (_, index) => ((index * 7 + salt) % 11) - 5);
  return new Tensor('float32', data, dims);
}

const device = TEST_DEVICE;
const weight = integers([16, 8, 3, 3], 2);

let height = 20;
/** Dims of an input that no other test has. */
const anotherInput = () => [1, 8, ++height, 17] as const;

/** That the chosen candidate, and no other, was measured fastest. */
function expectFastest({ algorithm, chosenBy, candidates }: PlanExplanation): void {
  expect(chosenBy).toBe('measurement');
  const times = candidates.map(({ measuredMilliseconds = Infinity }) => measuredMilliseconds);
  const chosen = candidates.filter((candidate) => candidate.chosen);
  expect(chosen.map((candidate) => candidate.algorithm)).toEqual([algorithm]);
  expect(chosen[0]!.measuredMilliseconds).toBe(Math.min(...times));
  for (const { refusal, measuredMilliseconds } of candidates) {
    if (refusal !== undefined) expect(measuredMilliseconds).toBeUndefined();
  }
}

describe('a plan', () => {
  it('takes what was measured fastest, is right, and says so', async () => {
    const inputDims = anotherInput();
    const input = integers(inputDims, 1);
    const options = { padding: 1, activation: 'relu', device } as const;
    const plan = await Conv2d.create(weight, { ...options, inputDims, algorithm: 'tune' });
    const explanation = plan.explain();
    expectFastest(explanation);
    expect(explanation.tuning).toMatchObject({ fromCache: false });
    expect(explanation.algorithm).toBe(plan.algorithm);
    const expected = conv2dSync(input, weight, { ...options, algorithm: 'direct' }).data;
    expect((await plan.run(input)).data).toEqual(expected);
    const second = await Conv2d.create(weight, { ...options, inputDims, algorithm: 'tune' });
    expect(second.explain()).toEqual({
      ...explanation,
      tuning: { ...explanation.tuning, fromCache: true },
    });
    expect(names()).toHaveLength(1);
    plan.dispose();
    second.dispose();
  });

  it('lets the event loop turn while it measures, and keeps nothing of it', async () => {
    const held = () => ({ cpu: memory().cpu, gpu: memory().gpu, plans: memory().plans });
    const before = await withoutGarbage(held);
    let turns = 0;
    let settled = false;
    const creating = Conv2d.create(weight, { inputDims: anotherInput(), device, algorithm: 'tune' });
    void creating.finally(() => (settled = true));
    for (; !settled; turns++) await nextTurn();
    expect(turns).toBeGreaterThan(10);
    (await creating).dispose();
    expect(held()).toEqual(before);
  });

  it('measures nothing where the choice is automatic, whatever is remembered', async () => {
    const inputDims = anotherInput();
    const predicted = await Conv2d.create(weight, { inputDims, device });
    await tune([{ inputDims, weightDims: weight.dims }], { device });
    const [name] = names();
    const file = path.join(folder, 'tuning-1', name!);
    const entry = JSON.parse(readFileSync(file, 'utf8')) as TuningRecord;
    const slowest = { algorithm: 'direct', variant: '', milliseconds: 1e-9 };
    writeFileSync(file, JSON.stringify({ ...entry, measurements: [slowest] }));
    const again = await Conv2d.create(weight, { inputDims, device });
    expect(again.explain()).toEqual(predicted.explain());
    expect(again.explain()).toMatchObject({ chosenBy: 'prediction' });
    expect(again.explain().tuning).toBeUndefined();
    predicted.dispose();
    again.dispose();
  });

  it('keeps to the limit of the workspace', async () => {
    const inputDims = anotherInput();
    const plan = await Conv2d.create(weight, {
      inputDims,
      stride: 3,
      device,
      algorithm: 'tune',
      workspaceLimit: 0,
    });
    expect(plan.workspaceBytes).toBe(0);
    expectFastest(plan.explain());
    plan.dispose();
  });
});

describe('conv2d', () => {
  it('measures at its first use, and shares that between calls', async () => {
    const inputDims = anotherInput();
    const input = integers(inputDims, 1);
    const expected = conv2dSync(input, weight, { device, algorithm: 'direct' }).data;
    const outputs = await Promise.all(
      Array.from({ length: 5 }, () => conv2d(input, weight, { device, algorithm: 'tune' })),
    );
    for (const { data } of outputs) expect(data).toEqual(expected);
    expect(conv2dSync(input, weight, { device, algorithm: 'tune' }).data).toEqual(expected);
    expect(names()).toHaveLength(1);
  });

  it('measures on the calling thread when it is synchronous', () => {
    const inputDims = anotherInput();
    const input = integers(inputDims, 1);
    const expected = conv2dSync(input, weight, { device, algorithm: 'direct' }).data;
    expect(conv2dSync(input, weight, { device, algorithm: 'tune' }).data).toEqual(expected);
    expect(names()).toHaveLength(1);
  });

  it('can be aborted while it measures', async () => {
    // Its measurement takes a second and more.
    const input = integers([1, 64, 120, ++height], 1);
    const large = integers([64, 64, 5, 5], 2);
    const controller = new AbortController();
    const call = conv2d(input, large, { device, algorithm: 'tune', signal: controller.signal });
    await nextTurn();
    controller.abort('enough');
    await expect(call).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: 'enough' });
    expect(readdirSync(folder)).toEqual([]);
    await conv2d(input, large, { device, algorithm: 'tune' });
    expect(names()).toHaveLength(1);
  });
});

describe('algorithms', () => {
  it('shows what was measured, and before that what is predicted', async () => {
    const problem = { inputDims: anotherInput(), weightDims: weight.dims };
    const predicted = algorithms(problem, device);
    expect(algorithms({ ...problem, algorithm: 'tune' }, device)).toEqual(predicted);
    const [explanation] = await tune([problem], { device });
    expect(algorithms({ ...problem, algorithm: 'tune' }, device)).toEqual(explanation!.candidates);
    expect(algorithms(problem, device)).toEqual(predicted);
  });
});

describe('tune', () => {
  const problems = (): ConvolutionProblem[] => [
    { inputDims: anotherInput(), weightDims: weight.dims },
    { inputDims: anotherInput(), weightDims: [8, 1, 3, 3], groups: 8, stride: 2 },
    { inputDims: anotherInput(), weightDims: [5, 8, 1, 1], algorithm: 'tune' },
  ];

  it('measures a list, telling of each, and then knows it', async () => {
    const list = problems();
    const progress: TuneProgress[] = [];
    const onProgress = (one: TuneProgress) => progress.push(one);
    const explanations = await tune(list, { device, onProgress });
    expect(explanations.map(({ inputDims }) => inputDims)).toEqual(list.map(({ inputDims }) => inputDims));
    explanations.forEach(expectFastest);
    expect(progress).toEqual(
      explanations.map((explanation, index) => ({ done: index + 1, total: 3, explanation })),
    );
    expect(names()).toHaveLength(3);
    const again = await tune(list, { device });
    expect(again.map(({ tuning }) => tuning!.fromCache)).toEqual([true, true, true]);
    expect(again.map(({ candidates }) => candidates)).toEqual(
      explanations.map(({ candidates }) => candidates),
    );
  });

  it('takes an empty list', async () => {
    expect(await tune([], { device })).toEqual([]);
  });

  it('measures nothing where one of them is illegal, and says which', async () => {
    const [first] = problems();
    const illegal = { inputDims: [1, 8, 9, 9], weightDims: [4, 7, 1, 1] };
    await expect(tune([first!, illegal], { device })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: expect.stringMatching(/^problems\[1\]: weight\.dims\[1\]/) as string,
    });
    await expect(tune([first!, { ...first!, algorithm: 'direct' }])).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
    await expect(tune([first!], { device, precision: 'fp8' as 'fp16' })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
    await expect(tune([first!], { device: 'cuda:99' })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_NO_DEVICE',
    });
    expect(readdirSync(folder)).toEqual([]);
  });

  it('can be aborted between problems, and keeps what it has', async () => {
    const list = problems();
    const controller = new AbortController();
    const tuning = tune(list, { device, signal: controller.signal, onProgress: () => controller.abort() });
    await expect(tuning).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
    const [first, second] = await tune(list, { device });
    expect([first!.tuning!.fromCache, second!.tuning!.fromCache]).toEqual([true, false]);
  });

  it('can be aborted, and lets the event loop turn, where all is remembered', async () => {
    const list = problems();
    await tune(list, { device });
    let turns = 0;
    const count = () => {
      turns++;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    const done: number[] = [];
    await tune(list, { device, onProgress: () => done.push(turns) });
    clearImmediate(immediate);
    expect(new Set(done).size).toBe(list.length);
    const controller = new AbortController();
    const { signal } = controller;
    const tuning = tune(list, { device, signal, onProgress: () => controller.abort('enough') });
    await expect(tuning).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: 'enough' });
  });

  it('rejects with what telling throws', async () => {
    const onProgress = () => {
      throw new Error('on purpose');
    };
    await expect(tune(problems(), { device, onProgress })).rejects.toThrow('on purpose');
  });
});

describe('other processes', () => {
  const child = async (...numbers: readonly number[]) => {
    const ending = await runChild(['tune.cjs', ...numbers.map(String)], {
      env: { WARPCONV_CACHE_DIR: folder },
    });
    expect({ ...ending, stdout: '' }).toEqual(cleanEnding());
    return JSON.parse(ending.stdout) as { algorithm: string; fromCache: boolean; right: boolean }[];
  };

  it('find what one has measured', async () => {
    const first = await child(0, 1);
    expect(first.map(({ fromCache }) => fromCache)).toEqual([false, false]);
    const second = await child(1, 0, 2);
    expect(second.map(({ fromCache }) => fromCache)).toEqual([true, true, false]);
    expect([second[1]!.algorithm, second[0]!.algorithm]).toEqual(first.map(({ algorithm }) => algorithm));
    expect([...first, ...second].every(({ right }) => right)).toBe(true);
    expect(names()).toHaveLength(3);
  });

  it.each([
    ['an algorithm that does not exist', 'fft'],
    ['an algorithm that refuses the problem', 'depthwise'],
  ])('measure again where %s was the fastest', async (_, algorithm) => {
    await child(0);
    const file = path.join(folder, 'tuning-1', names()[0]!);
    const entry = JSON.parse(readFileSync(file, 'utf8')) as TuningRecord;
    const measurements = [{ algorithm, variant: '', milliseconds: 1e-9 }];
    writeFileSync(file, JSON.stringify({ ...entry, measurements }));
    expect(await child(0)).toMatchObject([{ fromCache: false, right: true }]);
    expect(await child(0)).toMatchObject([{ fromCache: true, right: true }]);
  });

  it('warn of a corrupt file, and mend it', async () => {
    await child(0);
    writeFileSync(path.join(folder, 'tuning-1', names()[0]!), '{"key":');
    const { code, stdout, stderr } = await runChild(['tune.cjs', '0'], {
      env: { WARPCONV_CACHE_DIR: folder },
    });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject([{ fromCache: false, right: true }]);
    expect(stderr.match(/\[WARPCONV_TUNING_CACHE\] WarpconvWarning: .*/g)).toHaveLength(1);
    expect(await child(0)).toMatchObject([{ fromCache: true, right: true }]);
  });

  it('tune, with a warning, where nothing can be written', async () => {
    const file = path.join(folder, 'file');
    writeFileSync(file, '');
    const env = { WARPCONV_CACHE_DIR: path.join(file, 'below') };
    const { code, stdout, stderr } = await runChild(['tune.cjs', '0', '1', '0'], { env });
    expect(code).toBe(0);
    const found = JSON.parse(stdout) as { right: boolean }[];
    expect(found.map(({ right }) => right)).toEqual([true, true, true]);
    expect(stderr.match(/\[WARPCONV_TUNING_CACHE\] WarpconvWarning: .*/g)).toHaveLength(1);
  });

  it('tune the same and other problems at once', async () => {
    const found = (await Promise.all([child(0, 1, 2, 3), child(0, 1, 4, 5)])).flat();
    expect(found.map(({ right }) => right)).toEqual(new Array(8).fill(true));
    expect(names().filter((name) => name.endsWith('.json'))).toHaveLength(6);
    expect(names()).toHaveLength(6);
    const later = await child(0, 1, 2, 3, 4, 5);
    expect(later.every(({ fromCache, right }) => fromCache && right)).toBe(true);
  });

  it('tune in workers, one of which is terminated while it measures', async () => {
    const ending = await runChild(['tune_in_workers.cjs'], { env: { WARPCONV_CACHE_DIR: folder } });
    expect(ending).toEqual(cleanEnding('terminated 1, others right, right, right\n0 bytes left\n'));
  });

  /** WARPCONV_TUNING_KILLS=1000 kills more. */
  it('leave a whole cache wherever in their writing they are killed', async () => {
    const seed = Date.now();
    process.stdout.write(`seed ${seed}\n`);
    const random = new Random(seed);
    const warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const keys = Array.from({ length: 3 }, (_, number) => JSON.stringify({ number }));
    const kills = Number(process.env.WARPCONV_TUNING_KILLS ?? 25);
    for (let kill = 0; kill < kills; kill++) {
      const writer = spawn(
        process.execPath,
        [path.join(__dirname, 'children/write_tuning_cache.cjs'), String(keys.length)],
        { env: { ...process.env, WARPCONV_CACHE_DIR: folder }, stdio: ['ignore', 'pipe', 'inherit'] },
      );
      await once(writer.stdout, 'data');
      await sleep(random.integer(0, 5));
      writer.kill('SIGKILL');
      expect(await once(writer, 'exit')).toEqual([null, 'SIGKILL']);
      const reader = new TuningCache();
      for (const key of keys) expect(reader.recall(key)?.measurements[0]!.algorithm).toBe('direct');
    }
    expect(warnings).not.toHaveBeenCalled();
    warnings.mockRestore();
    const stray = names().filter((name) => !name.endsWith('.json'));
    process.stdout.write(`${stray.length} temporary files left by ${kills} kills\n`);
  }, 300_000);
});
