/** Choices by measurement over native code that measures what the test says, when it says so. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';

import type { ConvolutionSpec, Done, NativeFailure, NativeGpu, NativeMeasurement } from '../../lib/addon';
import { explain } from '../../lib/conv2d/explanation';
import { readProblem } from '../../lib/conv2d/options';
import { openChosen, openChosenSync, type PlanRequest } from '../../lib/conv2d/tuning';

interface MockCall {
  readonly spec: ConvolutionSpec;
  end(measurements: NativeMeasurement[]): void;
  cancelled: boolean;
}
const mockCalls: MockCall[] = [];
const mockRefused = new Set<string>();
const mockFound = [
  { algorithm: 'shuffle', variant: 'wide', milliseconds: 1 },
  { algorithm: 'shuffle', variant: '', milliseconds: 1.5 },
  { algorithm: 'direct', variant: '', milliseconds: 2 },
];

class MockPlan {
  readonly outputDims = [1, 1, 1, 1];
  readonly algorithm: string;
  constructor(readonly spec: ConvolutionSpec) {
    if (mockRefused.has(spec.algorithm)) throw { code: 'UNSUPPORTED', message: `no ${spec.algorithm}` };
    this.algorithm = spec.algorithm === 'tune' || spec.algorithm === 'auto' ? 'im2win' : spec.algorithm;
  }
  candidates() {
    return [
      { algorithm: 'shuffle', predictedMilliseconds: this.spec.variant === 'wide' ? 3 : 4 },
      { algorithm: 'im2win', predictedMilliseconds: 2 },
      { algorithm: 'direct', predictedMilliseconds: 9 },
      { algorithm: 'pointwise', refusal: 'takes 1 x 1 filters' },
    ];
  }
  measureSync() {
    mockCalls.push({ spec: this.spec, end: () => {}, cancelled: false });
    return mockFound;
  }
  measure(report: { measurements?: NativeMeasurement[] }, done: Done): number {
    const end = (measurements: NativeMeasurement[]) => {
      report.measurements = measurements;
      done();
    };
    mockCalls.push({ spec: this.spec, end, cancelled: false });
    mockEnds.push(() => done({ code: 'ABORTED', message: 'stopped' }));
    return mockCalls.length - 1;
  }
}
const mockEnds: (() => void)[] = [];

const mockMachine = { isa: 'avx2', threads: 3, driver: '13.0' };
let mockIsaFailure: NativeFailure | undefined;
const mockGpu: NativeGpu = {
  index: 0,
  name: 'G',
  computeCapability: '9.0',
  memoryBytes: 1,
  multiprocessors: 132,
};
jest.mock('../../lib/load', () => ({
  addon: () => ({
    Plan: MockPlan,
    cpu: () => ({ name: 'C' }),
    usableIsa: () => {
      if (mockIsaFailure !== undefined) throw mockIsaFailure as unknown as Error;
      return mockMachine.isa;
    },
    threads: () => mockMachine.threads,
    gpuProbe: () => ({ missing: null, reason: '', driver: mockMachine.driver, gpus: [mockGpu] }),
    cancel: (call: number) => {
      mockCalls[call]!.cancelled = true;
      setImmediate(mockEnds[call]!);
    },
  }),
  packageVersion: () => '1.2.3',
}));

let folder: string;
let extent = 0;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-tuning-'));
  process.env.WARPCONV_CACHE_DIR = folder;
  mockCalls.length = 0;
  mockEnds.length = 0;
  mockRefused.clear();
  mockIsaFailure = undefined;
  Object.assign(mockMachine, { isa: 'avx2', threads: 3, driver: '13.0' });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A problem that no other test has. */
function anotherRequest(changes: Partial<ConvolutionSpec> = {}): PlanRequest {
  const shapes = { inputDims: [1, 1, ++extent, 9], weightDims: [1, 1, 1, 1], algorithm: 'tune' } as const;
  return {
    spec: { ...readProblem(shapes), device: -1, ...changes },
    place: 'cpu',
    precision: 'fp32',
    deterministic: false,
  };
}

const files = () =>
  existsSync(path.join(folder, 'tuning-1')) ? readdirSync(path.join(folder, 'tuning-1')) : [];

/** Lets the measurement that is under way end, once it has begun. */
async function endMeasurement(index: number): Promise<void> {
  while (mockCalls.length <= index) await nextTurn();
  mockCalls[index]!.end(mockFound);
}

it('leaves other choices to native code, and no file behind', async () => {
  for (const algorithm of ['auto', 'direct']) {
    const request = anotherRequest({ algorithm });
    const chosen = await openChosen(request);
    expect(chosen.tuning).toBeUndefined();
    expect(explain(request, chosen)).toMatchObject({
      chosenBy: algorithm === 'auto' ? 'prediction' : 'caller',
    });
    expect(openChosenSync(request).tuning).toBeUndefined();
  }
  expect(mockCalls).toHaveLength(0);
  expect(files()).toEqual([]);
});

it('auto takes no notice of what is remembered', async () => {
  const request = anotherRequest();
  openChosenSync(request);
  const auto = { ...request, spec: { ...request.spec, algorithm: 'auto' } };
  expect((await openChosen(auto)).native.algorithm).toBe('im2win');
  expect(openChosenSync(auto).native.algorithm).toBe('im2win');
});

it('opens the variant that was fastest, and shows each candidate with its time', async () => {
  const request = anotherRequest();
  const opening = openChosen(request);
  await endMeasurement(0);
  const chosen = await opening;
  expect(chosen.native.algorithm).toBe('shuffle');
  expect(explain(request, chosen)).toMatchObject({
    algorithm: 'shuffle',
    chosenBy: 'measurement',
    tuning: { fromCache: false, measuredAt: expect.stringMatching(/^\d{4}-.*Z$/) },
    candidates: [
      {
        algorithm: 'shuffle',
        chosen: true,
        predictedMilliseconds: 3,
        measuredMilliseconds: 1,
        measuredVariant: 'wide',
      },
      { algorithm: 'im2win', chosen: false, predictedMilliseconds: 2 },
      { algorithm: 'direct', chosen: false, predictedMilliseconds: 9, measuredMilliseconds: 2 },
      { algorithm: 'pointwise', chosen: false, refusal: 'takes 1 x 1 filters' },
    ],
  });
  const unmeasured = explain(request, chosen).candidates[1]!;
  expect('measuredMilliseconds' in unmeasured || 'measuredVariant' in unmeasured).toBe(false);
});

it('measures once, whoever asks later', async () => {
  const request = anotherRequest();
  const first = openChosen(request);
  await endMeasurement(0);
  const { measuredAt } = (await first).tuning!;
  for (const again of [await openChosen(request), openChosenSync(request)]) {
    expect(again.tuning).toMatchObject({ fromCache: true, measuredAt });
  }
  expect(mockCalls).toHaveLength(1);
  expect(files()).toHaveLength(1);
});

it('measures on the calling thread for a synchronous call', () => {
  const request = anotherRequest();
  expect(openChosenSync(request).tuning).toMatchObject({ fromCache: false });
  expect(openChosenSync(request).tuning).toMatchObject({ fromCache: true });
  expect(mockCalls).toHaveLength(1);
});

it('shares a measurement between calls, and makes different ones one after the other', async () => {
  const [one, other] = [anotherRequest(), anotherRequest()];
  const opening = [one, one, other, one, other].map((request) => openChosen(request));
  await nextTurn();
  expect(mockCalls).toHaveLength(1);
  await endMeasurement(0);
  await endMeasurement(1);
  const found = await Promise.all(opening);
  expect(mockCalls.map(({ spec }) => spec.inputDims)).toEqual([one.spec.inputDims, other.spec.inputDims]);
  expect(found.every(({ tuning }) => tuning!.fromCache === false)).toBe(true);
});

it('rejects who aborts and goes on for the others', async () => {
  const request = anotherRequest();
  const controller = new AbortController();
  const aborted = openChosen(request, controller.signal);
  const others = [openChosen(request, new AbortController().signal), openChosen(request)];
  await nextTurn();
  controller.abort('enough');
  await expect(aborted).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED', cause: 'enough' });
  expect(mockCalls[0]!.cancelled).toBe(false);
  await endMeasurement(0);
  for (const other of await Promise.all(others)) expect(other.native.algorithm).toBe('shuffle');
});

it('gives up what everybody has aborted, and measures again for who comes then', async () => {
  const request = anotherRequest();
  const controllers = [new AbortController(), new AbortController()];
  const aborted = controllers.map(({ signal }) =>
    openChosen(request, signal).catch((error: unknown) => error),
  );
  await nextTurn();
  for (const controller of controllers) controller.abort();
  expect(mockCalls[0]!.cancelled).toBe(true);
  const late = openChosen(request);
  const later = openChosen(request);
  for (const error of await Promise.all(aborted)) {
    expect(error).toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  }
  await endMeasurement(1);
  expect((await late).tuning).toMatchObject({ fromCache: false });
  expect((await later).tuning).toMatchObject({ fromCache: false });
  expect(mockCalls).toHaveLength(2);
});

it('does not begin what was aborted while it waited for its turn', async () => {
  const [one, other] = [anotherRequest(), anotherRequest()];
  const controller = new AbortController();
  const first = openChosen(one);
  const second = openChosen(other, controller.signal);
  await nextTurn();
  controller.abort();
  await expect(second).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  await endMeasurement(0);
  await first;
  await nextTurn();
  expect(mockCalls.slice(1).every(({ cancelled }) => cancelled)).toBe(true);
});

it('goes on after a measurement that failed', async () => {
  const request = anotherRequest();
  const failing = openChosen(request);
  while (mockCalls.length === 0) await nextTurn();
  mockEnds[0]!();
  await expect(failing).rejects.toMatchObject({ code: 'ERR_WARPCONV_ABORTED' });
  const again = openChosen(request);
  await endMeasurement(1);
  expect((await again).native.algorithm).toBe('shuffle');
});

it('rejects an illegal problem with what native code says, and remembers nothing', async () => {
  mockRefused.add('tune');
  const request = anotherRequest();
  await expect(openChosen(request)).rejects.toMatchObject({
    code: 'ERR_WARPCONV_UNSUPPORTED',
    message: 'no tune',
  });
  expect(() => openChosenSync(request)).toThrow(expect.objectContaining({ message: 'no tune' }));
  expect(files()).toEqual([]);
});

it('refuses a WARPCONV_ISA that cannot be used like any other call', async () => {
  mockIsaFailure = { code: 'INVALID_ARGUMENT', message: 'WARPCONV_ISA is avx9' };
  const request = anotherRequest();
  const refusal = {
    name: 'WarpconvError',
    code: 'ERR_WARPCONV_INVALID_ARGUMENT',
    message: 'WARPCONV_ISA is avx9',
  };
  await expect(openChosen(request)).rejects.toMatchObject(refusal);
  expect(() => openChosenSync(request)).toThrow(expect.objectContaining(refusal));
});

it('measures again where the algorithm that was fastest is no more', async () => {
  const request = anotherRequest();
  openChosenSync(request);
  mockRefused.add('shuffle');
  const opening = openChosen(request);
  while (mockCalls.length < 2) await nextTurn();
  mockCalls[1]!.end([mockFound[2]!]);
  expect((await opening).native.algorithm).toBe('direct');
  expect(openChosenSync(request)).toMatchObject({
    native: { algorithm: 'direct' },
    tuning: { fromCache: true },
  });
});

describe('what a measurement depends on', () => {
  const isRemembered = (request: PlanRequest) => openChosenSync(request).tuning!.fromCache;

  it.each<[string, (request: PlanRequest) => PlanRequest]>([
    ['the precision', (request) => ({ ...request, precision: 'tf32' })],
    ['determinism', (request) => ({ ...request, deterministic: true })],
    ...(
      [
        ['inputDims', [1, 1, 1000, 9]],
        ['weightDims', [2, 1, 1, 1]],
        ['stride', [1, 2]],
        ['padding', 'same'],
        ['dilation', [2, 1]],
        ['groups', 2],
        ['workspaceLimit', 0],
        ['sconv', { schedule: 'inputStationary' }],
      ] as const
    ).map(
      ([name, value]) =>
        [name, (request: PlanRequest) => ({ ...request, spec: { ...request.spec, [name]: value } })] as [
          string,
          (request: PlanRequest) => PlanRequest,
        ],
    ),
  ])('%s', (_, changed) => {
    const request = anotherRequest();
    expect(isRemembered(request)).toBe(false);
    expect(isRemembered(changed(request))).toBe(false);
    expect([request, changed(request)].map(isRemembered)).toEqual([true, true]);
  });

  it('not the activation', () => {
    const request = anotherRequest();
    isRemembered(request);
    const activation = { name: 'relu', parameters: [] };
    expect(isRemembered({ ...request, spec: { ...request.spec, activation } })).toBe(true);
  });

  it.each<[Partial<typeof mockMachine>, PlanRequest['place'], boolean]>([
    [{ isa: 'avx512' }, 'cpu', false],
    [{ threads: 4 }, 'cpu', false],
    [{ driver: '13.1' }, 'cpu', true],
    [{ driver: '13.1' }, 'cuda:0', false],
    [{ threads: 4 }, 'cuda:0', true],
  ])('a machine that changes by %j, on %s: remembered %p', (change, place, expected) => {
    const request = { ...anotherRequest(), place };
    isRemembered(request);
    Object.assign(mockMachine, change);
    expect(isRemembered(request)).toBe(expected);
  });

  it('is written with it', () => {
    openChosenSync({ ...anotherRequest(), place: 'cuda:0' });
    const text = readFileSync(path.join(folder, 'tuning-1', files()[0]!), 'utf8');
    expect(JSON.parse(text)).toMatchObject({
      key: {
        version: '1.2.3',
        device: 'G, compute capability 9.0, multiprocessors: 132, driver for CUDA 13.0',
        inputDims: [1, 1, extent, 9],
        precision: 'fp32',
        deterministic: false,
        workspaceLimit: null,
      },
      measurements: mockFound,
    });
  });
});

it('is ignored, and measured again, where its file is corrupt', () => {
  const warnings = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const request = anotherRequest();
  openChosenSync(request);
  const name = files()[0]!;
  jest.isolateModules(() => {
    writeFileSync(path.join(folder, 'tuning-1', name), '{');
    // eslint-disable-next-line @typescript-eslint/no-require-imports
    const fresh = require('../../lib/conv2d/tuning') as { openChosenSync: typeof openChosenSync };
    expect(fresh.openChosenSync(request).tuning).toMatchObject({ fromCache: false });
  });
  expect(warnings).toHaveBeenCalledTimes(1);
  warnings.mockRestore();
  expect(JSON.parse(readFileSync(path.join(folder, 'tuning-1', name), 'utf8'))).toMatchObject({
    measurements: mockFound,
  });
});
