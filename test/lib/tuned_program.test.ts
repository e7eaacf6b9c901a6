/** Networks with `algorithm: 'tune'`, where measuring finds what the test says. */
import type { ConvolutionSpec } from '../../lib/addon';
import type { NativeBuffer, Step } from '../../lib/model/steps';
import { tuneProgram } from '../../lib/session/tuned_program';
import type { Place } from '../../lib/placement';
import { openChosen } from '../../lib/conv2d/tuning';

jest.mock('../../lib/conv2d/tuning', () => ({ openChosen: jest.fn() }));
const measured = jest.mocked(openChosen);

beforeEach(() => {
  const measurements = [{ algorithm: 'im2win', variant: 'wide', milliseconds: 1 }];
  measured.mockReset().mockResolvedValue({
    native: { dispose: () => {} },
    tuning: { measurements, measuredAt: '', fromCache: false },
  } as never);
});

const at = (space: NativeBuffer['space']): NativeBuffer => ({ space, index: 0, offset: 0 });
const convolution = { algorithm: 'tune', variant: '', inputDims: [8, 3, 5, 5] } as unknown as ConvolutionSpec;

function stepOf(weight: NativeBuffer, bias: NativeBuffer | null): Step<NativeBuffer> {
  const [input, output] = [at('input'), at('output')];
  return { kind: 'convolution', convolution, input, weight, scale: null, bias, residual: null, output };
}

async function tuned(step: Step<NativeBuffer>, place: Place = 'cuda:0'): Promise<Step<NativeBuffer>> {
  const program = {
    steps: [step],
    constants: [],
    sharedConstants: [],
    arenaBytes: 0,
    inputBytes: [],
    outputBytes: [],
  };
  const { steps } = await tuneProgram(program, { place, precision: 'fp32', deterministic: false });
  return steps[0]!;
}

it.each([
  ['weights', stepOf(at('constant'), null)],
  ['weights and biases', stepOf(at('constant'), at('constant'))],
])('pins what was fastest where %s are constant', async (_, step) => {
  const pinned = { ...convolution, device: 0, algorithm: 'im2win', variant: 'wide' };
  expect(await tuned(step)).toEqual({ ...step, convolution: pinned });
});

it.each([
  ['cpu', [1, 3, 5, 5]],
  ['cuda:0', [8, 3, 5, 5]],
] as const)('on %s measures with inputs of dims %p', async (place, inputDims) => {
  const step = await tuned(stepOf(at('constant'), null), place);
  expect(measured).toHaveBeenCalledWith(
    expect.objectContaining({ spec: expect.objectContaining({ inputDims }) as unknown }),
  );
  expect(step).toMatchObject({ convolution: { inputDims: [8, 3, 5, 5] } });
});

it.each([
  ['brings weights', stepOf(at('input'), null)],
  ['computes weights', stepOf(at('arena'), at('constant'))],
  ['brings a bias', stepOf(at('constant'), at('input'))],
])('leaves the choice to native code where a run %s', async (_, step) => {
  expect(await tuned(step)).toEqual(step);
  expect(measured).not.toHaveBeenCalled();
});
