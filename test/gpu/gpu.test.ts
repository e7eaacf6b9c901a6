/** What only a GPU can show. The device-neutral suites run on one by `npm run test:gpu`. */
import {
  algorithms,
  allocPinned,
  compareWithCudnn,
  Conv2d,
  conv2d,
  conv2dSync,
  devices,
  InferenceSession,
  memory,
  Tensor,
} from '../../lib';
import { noteLent } from '../../lib/tensor/lent_memory';
import { PACKAGE_ROOT } from '../../lib/here';
import { pinMemory } from '../../lib/tensor/shared_memory';
import { runChild } from '../support/child';
import { bitsIn } from '../support/float16_bits';
import { collectGarbage, withoutGarbage } from '../support/garbage';
import { describeGpu } from '../support/gpu';
import { node, onnxModel, tensor, value } from '../support/onnx_builder';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';

// Memory is compared in a test, on the way of which that of earlier ones may be collected.
beforeEach(collectGarbage);

const integers = (length: number) => Float32Array.from({ length }, (_, index) => ((index * 7) % 11) - 5);
const inputDims = [2, 3, 17, 33];
const input = new Tensor('float32', integers(2 * 3 * 17 * 33), inputDims);
const weight = new Tensor('float32', integers(8 * 27), [8, 3, 3, 3]);
const bias = new Tensor('float32', integers(8), [8]);
const options = { padding: 1, bias, activation: 'relu' } as const;
const expected = conv2dSync(input, weight, { ...options, device: 'cpu' });
const residual = new Tensor('float32', integers(expected.size), expected.dims);

describeGpu('a GPU', () => {
  it('is listed with what it is', () => {
    const gpu = devices().find(({ type }) => type === 'cuda');
    expect(gpu).toMatchObject({ device: 'cuda:0', available: true, driver: expect.any(String) as string });
  });

  it('gives results where the input is', async () => {
    const resident = await input.to('cuda');
    const output = await conv2d(resident, weight, options);
    expect([output.location, output.device]).toEqual(['gpu-buffer', 'cuda:0']);
    expect(await output.getData()).toEqual(expected.data);
    const fromCpu = await conv2d(input, weight, { ...options, device: 'cuda' });
    expect([fromCpu.location, fromCpu.data]).toEqual(['cpu', expected.data]);
    expect(conv2dSync(input, weight, { ...options, device: 'cuda' }).data).toEqual(expected.data);
    expect(await conv2dSync(resident, weight, options).getData()).toEqual(expected.data);
  });

  it('takes weights and residual from anywhere', async () => {
    const whole = { ...options, residual };
    const sums = conv2dSync(input, weight, { ...whole, device: 'cpu' }).data;
    const [there, filters, biases, addend] = await Promise.all(
      [input, weight, bias, residual].map((tensor) => tensor.to('cuda')),
    );
    const output = await conv2d(there!, filters!, { ...whole, bias: biases!, residual: addend! });
    expect(await output.getData()).toEqual(sums);
    const plan = await Conv2d.create(filters!, { ...whole, bias: biases!, residual: addend!, inputDims });
    expect(plan.device).toBe('cuda:0');
    expect(await (await plan.run(there!)).getData()).toEqual(sums);
    expect((await plan.run(input)).data).toEqual(sums);
    expect((await plan.run(input, { residual: null })).data).toEqual(expected.data);
    plan.dispose();
  });

  it('runs on resident tensors without allocating on the device', async () => {
    const plan = await Conv2d.create(weight, { ...options, inputDims, device: 'cuda' });
    const resident = await input.to('cuda');
    const output = await expected.to('cuda');
    const before = (await withoutGarbage(memory)).gpu['cuda:0'];
    for (let call = 0; call < 100; call++) expect(await plan.run(resident, { output })).toBe(output);
    expect(memory().gpu['cuda:0']).toBe(before);
    expect(await output.getData()).toEqual(expected.data);
    for (const tensor of [resident, output]) tensor.dispose();
    plan.dispose();
  });

  it('computes on pinned tensors as on any other, and frees them', async () => {
    expect(memory().pinned).toBe(0);
    const pinnedInput = allocPinned('float32', inputDims);
    const pinnedOutput = allocPinned('float32', expected.dims);
    expect([pinnedInput.location, pinnedInput.device]).toEqual(['cpu-pinned', 'cpu']);
    expect(pinnedInput.data.every((value) => value === 0)).toBe(true);
    expect(memory().pinned).toBe(4 * (input.size + expected.size));
    pinnedInput.data.set(input.data as Float32Array);
    expect(await (await pinnedInput.to('cuda')).getData()).toEqual(input.data);
    const plan = await Conv2d.create(weight, { ...options, inputDims, device: 'cuda' });
    expect(await plan.run(pinnedInput, { output: pinnedOutput })).toBe(pinnedOutput);
    expect(pinnedOutput.data).toEqual(expected.data);
    pinnedOutput.data.fill(0);
    plan.runSync(pinnedInput, { output: pinnedOutput });
    expect(pinnedOutput.data).toEqual(expected.data);
    expect((await conv2d(pinnedInput, weight, { ...options, device: 'cpu' })).data).toEqual(expected.data);
    const view = pinnedOutput.data;
    pinnedOutput.dispose();
    expect(view).toHaveLength(0);
    expect(memory().pinned).toBe(4 * input.size);
    // The memory of what is let go of in the middle of calls lasts until their end.
    const runs = Array.from({ length: 20 }, () => plan.run(pinnedInput));
    pinnedInput.dispose();
    for (const output of await Promise.all(runs)) expect(output.data).toEqual(expected.data);
    expect(memory().pinned).toBe(0);
    plan.dispose();
  });

  it('reads shared memory that was pinned in place, in parts of inputs', async () => {
    const file = path.join(__dirname, '../../examples/digits/digits.onnx');
    const session = await InferenceSession.create(file, { device: 'cuda' });
    const slab = new SharedArrayBuffer(2 ** 20);
    noteLent(slab);
    const unpin = pinMemory('cuda:0', slab);
    while (memory().pinned === 0) await setTimeout(1);
    expect(memory().pinned).toBe(2 ** 20);
    const images = [0, 1, 2].map((image) => {
      const data = new Float32Array(slab, 4096 * image + 4, 64);
      data.forEach((_, index) => (data[index] = (index * (image + 1)) % 16));
      return { type: 'float32', dims: [1, 1, 8, 8], data };
    });
    const own = new Tensor('float32', Float32Array.from(images[1]!.data), [1, 1, 8, 8]);
    const [first] = Object.keys(await session.run({ image: own }));
    const parts = [...images, own];
    const joined = await session.runJoined({ image: parts });
    const alone: number[] = [];
    for (const part of parts)
      alone.push(...((await session.run({ image: part }))[first!]!.data as Float32Array));
    (joined[first!]!.data as Float32Array).forEach((value, index) =>
      expect(value).toBeCloseTo(alone[index]!, 4),
    );
    // Runs keep it pinned until their end.
    const last = session.runJoined({ image: parts });
    unpin();
    expect((await last)[first!]!.data).toEqual(joined[first!]!.data);
    expect(memory().pinned).toBe(0);
    await session.release();
  });

  it('refuses to pin more than there is', () => {
    expect(() => allocPinned('float32', [2 ** 45])).toThrow(
      expect.objectContaining({ code: 'ERR_WARPCONV_OUT_OF_MEMORY', cudaError: 'cudaErrorMemoryAllocation' }),
    );
  });

  it('settles runs that outlive their plan and tensors', async () => {
    const plan = await Conv2d.create(weight, { ...options, inputDims, device: 'cuda' });
    const resident = await input.to('cuda');
    const runs = Array.from({ length: 50 }, () => plan.run(resident));
    resident.dispose();
    plan.dispose();
    for (const output of await Promise.all(runs)) expect(await output.getData()).toEqual(expected.data);
    await expect(plan.run(input)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });

  it('computes hundreds of runs that are begun in one turn of the event loop', async () => {
    const plan = await Conv2d.create(weight, { ...options, inputDims, device: 'cuda' });
    const resident = await input.to('cuda');
    const outputs = await Promise.all(Array.from({ length: 300 }, () => plan.run(resident)));
    const right = Buffer.from(expected.data.buffer);
    for (const output of outputs)
      expect(Buffer.from((await output.getData()).buffer).equals(right)).toBe(true);
    for (const tensor of [resident, ...outputs]) tensor.dispose();
    plan.dispose();
  });

  it('begins runs in the order of their calls, and before what is asked for after them', async () => {
    const other = new Tensor('float32', integers(input.size).reverse(), inputDims);
    const right = [input, other].map((one) => conv2dSync(one, weight, { ...options, device: 'cpu' }).data);
    expect(right[0]).not.toEqual(right[1]);
    const plan = await Conv2d.create(weight, { ...options, inputDims, device: 'cuda' });
    const inputs = [await input.to('cuda'), await other.to('cuda')];
    for (const count of [299, 300]) {
      const last = (count - 1) % 2;
      const output = await plan.run(inputs[1 - last]!);
      const runs = Array.from({ length: count }, (_, i) => plan.run(inputs[i % 2]!, { output }));
      expect(await output.getData()).toEqual(right[last]);
      await Promise.all(runs);
      const more = runs.map((_, i) => plan.run(inputs[i % 2]!, { output }));
      plan.runSync(inputs[1 - last]!, { output });
      expect(await output.getData()).toEqual(right[1 - last]);
      await Promise.all(more);
      output.dispose();
    }
    for (const tensor of inputs) tensor.dispose();
    plan.dispose();
  });

  it('refuses tensors of another device and buffers that are not its own', async () => {
    const resident = await input.to('cuda');
    await expect(conv2d(resident, weight, { device: 'cpu' })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: `input is on 'cuda:0' and the call runs on 'cpu'; await input.to('cpu') first`,
    });
    const forged = {
      type: 'float32',
      dims: inputDims,
      location: 'gpu-buffer',
      device: 'cuda:0',
      gpuBuffer: {},
      data: [],
    };
    await expect(conv2d(forged, weight)).rejects.toMatchObject({ code: 'ERR_WARPCONV_INVALID_ARGUMENT' });
    resident.dispose();
    await expect(conv2d(resident, weight)).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });

  it('explains every kernel that a family chose from', () => {
    const dims = { inputDims: [1, 64, 28, 28], weightDims: [96, 64, 1, 1] };
    const infos = algorithms(dims, 'cuda');
    const of3x3 = { ...dims, weightDims: [96, 64, 3, 3] };
    const ofFewChannels = { inputDims: [1, 3, 64, 64], weightDims: [64, 3, 7, 7] };
    for (const [name, problem] of [
      ['pointwise', dims],
      ['im2win', dims],
      ['halo', of3x3],
      ['stem', ofFewChannels],
    ] as const) {
      const { considered, tiles, refusal } = algorithms(problem, 'cuda').find(
        ({ algorithm }) => algorithm === name,
      )!;
      // These two are for one generation of devices.
      if ((name === 'halo' || name === 'stem') && refusal !== undefined) continue;
      const chosen = considered!.filter(({ lost }) => lost === undefined);
      expect(chosen).toEqual([expect.objectContaining({ tiles })]);
      const [winner] = algorithms({ ...problem, algorithm: name, variant: chosen[0]!.name }, 'cuda').filter(
        (info) => info.chosen,
      );
      expect(winner).toMatchObject({ algorithm: name, tiles });
    }
    const { considered } = infos.find(({ algorithm }) => algorithm === 'pointwise')!;
    const complete = considered!.filter(({ tiles }) => Object.keys(tiles).length > 0);
    expect(complete.length).toBeGreaterThan(10);
    for (const { figures } of complete) {
      expect(Object.keys(figures)).toEqual(['M_A', 'M_B', 'registers', 'sharedBytes', 'milliseconds']);
    }
    expect(infos.find(({ algorithm }) => algorithm === 'direct')!.considered).toBeUndefined();
  });

  it('refuses a variant that an algorithm does not have', async () => {
    const pinned = { ...options, device: 'cuda', algorithm: 'im2win', variant: 'implict' } as const;
    await expect(conv2d(input, weight, pinned)).rejects.toMatchObject({
      code: 'ERR_WARPCONV_UNSUPPORTED',
      message: expect.stringMatching(
        /has variants basic, explicit,.*; options.variant is 'implict'/,
      ) as string,
    });
  });

  it('survives a lack of memory', async () => {
    const one = await new Tensor('float32', Float32Array.of(1), [1, 1, 1, 1]).to('cuda');
    const filter = new Tensor('float32', Float32Array.of(2), [1, 1, 1, 1]);
    await expect(conv2d(one, filter, { padding: 1e5 })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_OUT_OF_MEMORY',
      cudaError: 'cudaErrorMemoryAllocation',
    });
    expect(await (await conv2d(one, filter)).getData()).toEqual(Float32Array.of(2));
  });

  it('keeps memory flat over ten thousand plans', async () => {
    const resident = await input.to('cuda');
    const cycle = async () => {
      const plan = await Conv2d.create(weight, { ...options, inputDims, device: 'cuda' });
      (await plan.run(resident)).dispose();
      plan.dispose();
    };
    for (let warm = 0; warm < 500; warm++) await cycle();
    const before = { gpu: memory().gpu['cuda:0'], plans: memory().plans, rss: process.memoryUsage.rss() };
    for (let round = 0; round < 10_000; round++) await cycle();
    // Less where the collector has found what earlier tests left.
    expect(memory().gpu['cuda:0']).toBeLessThanOrEqual(before.gpu!);
    expect(memory().plans).toBeLessThanOrEqual(before.plans);
    const growth = process.memoryUsage.rss() - before.rss;
    process.stdout.write(`resident memory grew by ${(growth / 2 ** 20).toFixed(1)} MiB\n`);
    expect(growth).toBeLessThan(64 * 2 ** 20);
  });

  it('serves four workers with a thousand runs in flight', async () => {
    const ending = await runChild(['../../gpu/children/workers.cjs', '4', '0', '250']);
    expect(ending).toMatchObject({ code: 0, signal: null, stderr: '' });
    expect(ending.stdout).toBe('right 250, right 250, right 250, right 250\n0 bytes left\n');
  });

  it('outlives workers that are terminated in the middle of their runs', async () => {
    const ending = await runChild(['../../gpu/children/workers.cjs', '4', '2', '250']);
    expect(ending).toMatchObject({ code: 0, signal: null, stderr: '' });
    expect(ending.stdout).toBe('1, 1, right 250, right 250\n0 bytes left\n');
  });

  it('compares itself with cuDNN', async () => {
    const result = await compareWithCudnn(input, weight, { padding: 1 });
    expect(result).toMatchObject({ device: 'cuda:0', withinTolerance: true });
    expect(result.milliseconds).toBeGreaterThan(0);
    expect(result.speedup).toBe(result.cudnnMilliseconds / result.milliseconds);
    const cli = path.join(PACKAGE_ROOT, 'dist/cli.js');
    const shapes = ['--input', '1x64x56x56', '--weight', '64x64x3x3', '--padding', '1'];
    const table = execFileSync(process.execPath, [cli, 'compare', ...shapes], { encoding: 'utf8' });
    process.stdout.write(table);
    expect(table).toMatch(/warpconv +\w+ +\d+\.\d+/);
    expect(table).toMatch(/cuDNN \d+\.\d+\.\d+ N\w+ +\w+ +\d+\.\d+/);
  });
});

describeGpu('a session on a GPU', () => {
  const model = onnxModel({
    inputs: [value('x', inputDims)],
    initializers: [tensor('w', weight.dims, weight.data), tensor('b', bias.dims, bias.data)],
    nodes: [node('Conv', ['x', 'w', 'b'], ['a'], { pads: [1, 1, 1, 1] }), node('Relu', ['a'], ['y'])],
    outputs: [value('y')],
  });

  it('takes feeds from CPU memory, from pinned memory and from its own', async () => {
    await using session = await InferenceSession.create(model, { device: 'cuda' });
    expect(session.device).toBe('cuda:0');
    const resident = await input.to('cuda');
    const pinned = allocPinned('float32', inputDims);
    pinned.data.set(input.data);
    for (const x of [input, resident, pinned, resident, input]) {
      const { y } = await session.run({ x });
      expect([y!.location, y!.data]).toEqual(['cpu', expected.data]);
    }
    const y = allocPinned('float32', expected.dims);
    const runs = [session.run({ x: resident }, { y }), session.run({ x: pinned })];
    await new Promise(setImmediate);
    // What running calls use lasts until their end.
    for (const feed of [resident, pinned]) feed.dispose();
    const [first, second] = await Promise.all(runs);
    expect(first!.y).toBe(y);
    for (const { data } of [first!.y!, second!.y!]) expect(data).toEqual(expected.data);
    y.dispose();
  });

  it('refuses feeds that are elsewhere', async () => {
    await using session = await InferenceSession.create(model, { device: 'cpu' });
    const x = await input.to('cuda');
    await expect(session.run({ x })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
      message: `feeds.x is on 'cuda:0' and the session on 'cpu'; await its to('cpu') first`,
    });
    x.dispose();
  });

  it('gives back all of its memory', async () => {
    const before = await withoutGarbage(memory);
    const session = await InferenceSession.create(model, { device: 'cuda' });
    await session.run({ x: input });
    expect(memory().gpu['cuda:0']).toBeGreaterThan(before.gpu['cuda:0']!);
    await session.release();
    expect(memory()).toMatchObject({ gpu: before.gpu, plans: before.plans });
  });

  /** y is as above, and z twice that plus 1. */
  const chained = [
    onnxModel({
      inputs: [value('x', inputDims)],
      initializers: [tensor('w', weight.dims, weight.data), tensor('b', bias.dims, bias.data)],
      nodes: [node('Conv', ['x', 'w', 'b'], ['a'], { pads: [1, 1, 1, 1] }), node('Relu', ['a'], ['y'])],
      outputs: [value('a'), value('y')],
    }),
    onnxModel({
      inputs: [value('y', expected.dims)],
      initializers: [tensor('one', [], [1])],
      nodes: [node('Add', ['y', 'y'], ['d']), node('Add', ['d', 'one'], ['z'])],
      outputs: [value('z')],
    }),
  ] as const;
  const inputOf = (seed: number) =>
    new Tensor(
      'float32',
      input.data.map((element, index) => element + ((index * seed) % 3)),
      inputDims,
    );
  const yOf = (x: Tensor<'float32'>) => conv2dSync(x, weight, { ...options, device: 'cpu' }).data;
  const zOf = (x: Tensor<'float32'>) => yOf(x).map((element) => 2 * element + 1);

  it('leaves outputs there, where the next session reads them, run after run', async () => {
    const preferredOutputLocation = { y: 'gpu-buffer' };
    const first = await InferenceSession.create(chained[0], { device: 'cuda', preferredOutputLocation });
    await using second = await InferenceSession.create(chained[1], { device: 'cuda' });
    // Later runs replay their launches as graphs.
    for (let seed = 0; seed < 12; seed++) {
      const x = inputOf(seed);
      const fed = seed % 2 === 0 ? x : await x.to('cuda');
      const { a, y } = await first.run({ x: fed });
      expect([a!.location, y!.location, y!.device, y!.dims]).toEqual([
        'cpu',
        'gpu-buffer',
        'cuda:0',
        expected.dims,
      ]);
      const { z } = await second.run({ y: y! });
      expect(z!.data).toEqual(zOf(x));
      expect(second.runSync({ y: y! }).z!.data).toEqual(zOf(x));
      expect(await y!.getData()).toEqual(yOf(x));
      expect((await y!.to('cpu')).data).toEqual(yOf(x));
      expect((a!.data as Float32Array).map((element) => Math.max(element, 0))).toEqual(yOf(x));
      for (const one of [fed, y!]) one.dispose();
    }
    // An output outlives its session.
    const { y } = await first.run({ x: input });
    await first.release();
    expect((await second.run({ y: y! })).z!.data).toEqual(zOf(input));
    y!.dispose();
  });

  it('has chains of two sessions overlap, and each chain its own tensors', async () => {
    await using first = await InferenceSession.create(chained[0], {
      device: 'cuda',
      preferredOutputLocation: 'gpu-buffer',
    });
    await using second = await InferenceSession.create(chained[1], { device: 'cuda' });
    const chains = Array.from({ length: 60 }, async (_, seed) => {
      const { y } = await first.run({ x: inputOf(seed) }, ['y']);
      const { z } = await second.run({ y: y! });
      y!.dispose();
      return z!.data;
    });
    const right = [0, 1, 2].map((seed) => zOf(inputOf(seed)));
    for (const [seed, z] of (await Promise.all(chains)).entries()) expect(z).toEqual(right[seed % 3]);
  });

  it('has right outputs of runs that come one by one, and of runs at once, in turns', async () => {
    const preferredOutputLocation = { y: 'gpu-buffer' };
    await using session = await InferenceSession.create(chained[0], {
      device: 'cuda',
      preferredOutputLocation,
    });
    const check = async (seed: number) => {
      const x = inputOf(seed);
      const fed = seed % 2 === 0 ? x : await x.to('cuda');
      const { a, y } = await session.run({ x: fed });
      expect((a!.data as Float32Array).map((element) => Math.max(element, 0))).toEqual(yOf(x));
      expect(await y!.getData(true)).toEqual(yOf(x));
      fed.dispose();
    };
    for (let round = 0; round < 4; round++) {
      for (let seed = 0; seed < 30; seed++) await check(seed);
      await Promise.all(Array.from({ length: 8 }, (_, seed) => check(seed)));
      // Longer than runs at once are remembered
      await setTimeout(120);
    }
  });

  it('writes into tensors on either side that runs bring, without allocating on the device', async () => {
    await using session = await InferenceSession.create(chained[0], { device: 'cuda' });
    const y = await new Tensor('float32', new Float32Array(expected.size), expected.dims).to('cuda');
    const a = new Tensor('float32', new Float32Array(expected.size), expected.dims);
    await session.run({ x: input }, { a, y });
    const before = (await withoutGarbage(memory)).gpu['cuda:0'];
    for (let seed = 0; seed < 12; seed++) {
      const x = inputOf(seed);
      const results = seed % 2 === 0 ? await session.run({ x }, { y, a }) : session.runSync({ x }, { y, a });
      expect([results.y === y, results.a === a]).toEqual([true, true]);
      expect(await y.getData()).toEqual(yOf(x));
      expect(a.data.map((element) => Math.max(element, 0))).toEqual(yOf(x));
    }
    const joined = await session.runJoined({ x: [input] }, { y });
    expect([Object.keys(joined), joined.y === y]).toEqual([['y'], true]);
    expect(await y.getData()).toEqual(expected.data);
    expect(memory().gpu['cuda:0']).toBe(before);
    y.dispose();
  });

  it('refuses outputs there that do not fit, or are in use', async () => {
    await using session = await InferenceSession.create(model, { device: 'cuda' });
    await using onCpu = await InferenceSession.create(model, { device: 'cpu' });
    await session.run({ x: input });
    const [y, x] = [await expected.to('cuda'), await input.to('cuda')];
    await expect(session.run({ x }, { y: x })).rejects.toThrow(/float32 tensor of dims .* or on 'cuda:0'/);
    await expect(onCpu.run({ x: input }, { y })).rejects.toThrow(
      /float32 tensor of dims .* in CPU memory, got/,
    );
    const forged = {
      type: 'float32',
      dims: expected.dims,
      location: 'gpu-buffer',
      device: 'cuda:0',
      gpuBuffer: {},
    };
    await expect(session.run({ x }, { y: forged as unknown as Tensor })).rejects.toMatchObject({
      code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    });
    const runs = await Promise.allSettled([session.run({ x }, { y }), session.run({ x }, { y })]);
    expect(runs.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(await y.getData()).toEqual(expected.data);
    const doubled = await InferenceSession.create(
      onnxModel({
        inputs: [value('y', expected.dims)],
        nodes: [node('Add', ['y', 'y'], ['z'])],
        outputs: [value('z')],
      }),
      { device: 'cuda' },
    );
    await expect(doubled.run({ y }, { z: y })).rejects.toThrow('fetches.z shares memory with feeds.y');
    await doubled.release();
    for (const one of [x, y]) one.dispose();
    await expect(session.run({ x: input }, { y })).rejects.toMatchObject({ code: 'ERR_WARPCONV_DISPOSED' });
  });

  it('keeps tensors that are disposed while a run writes them until that has ended', async () => {
    await using session = await InferenceSession.create(model, { device: 'cuda' });
    await session.run({ x: input });
    const before = memory().gpu['cuda:0']!;
    const outputs = await Promise.all(Array.from({ length: 8 }, () => expected.to('cuda')));
    const runs = outputs.map((y) => session.run({ x: input }, { y }));
    await new Promise(setImmediate);
    outputs.forEach((y) => y.dispose());
    for (const [i, { y }] of (await Promise.all(runs)).entries()) expect(y).toBe(outputs[i]);
    expect((await session.run({ x: input })).y!.data).toEqual(expected.data);
    await collectGarbage();
    // A second set of ports came with the runs that overlapped.
    expect(memory().gpu['cuda:0']! - before).toBeLessThan(2 * 4 * expected.size);
  });

  it('has the collector free outputs that nobody disposed', async () => {
    await using session = await InferenceSession.create(model, {
      device: 'cuda',
      preferredOutputLocation: 'gpu-buffer',
    });
    const run = async () => (await session.run({ x: input })).y!.location;
    expect(await run()).toBe('gpu-buffer');
    await collectGarbage();
    const before = memory().gpu['cuda:0']!;
    for (let i = 0; i < 20; i++) await run();
    await collectGarbage();
    // The last one may still be on some stack.
    expect(memory().gpu['cuda:0']!).toBeLessThanOrEqual(before + 4 * expected.size);
  });

  it('keeps the type of outputs there, also of those without elements', async () => {
    const plain = onnxModel({
      inputs: [value('i', ['n'], 'int64'), value('h', ['n'], 'float16')],
      nodes: [node('Identity', ['i'], ['j']), node('Identity', ['h'], ['k'])],
      outputs: [value('j', undefined, 'int64'), value('k', undefined, 'float16')],
    });
    await using session = await InferenceSession.create(plain, {
      device: 'cuda',
      preferredOutputLocation: 'gpu-buffer',
    });
    for (const [i, h] of [
      [BigInt64Array.of(-1n, 2n ** 53n + 1n), Uint16Array.of(0x3c00, 0xfbff)],
      [new BigInt64Array(0), new Uint16Array(0)],
    ] as const) {
      const { j, k } = await session.run({ i: new Tensor(i), h: new Tensor('float16', h) });
      expect([j!.type, j!.location, k!.type, k!.location]).toEqual([
        'int64',
        'gpu-buffer',
        'float16',
        'gpu-buffer',
      ]);
      expect(await j!.getData()).toEqual(i);
      expect([...bitsIn((await k!.getData()) as Uint16Array)]).toEqual([...h]);
      for (const output of [j!, k!]) output.dispose();
    }
  });
});
