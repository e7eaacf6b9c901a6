/** Networks with `algorithm: 'tune'`: each convolution by the algorithm that was measured to be fastest. */
import type { ConvolutionSpec } from '../addon';
import type { Compiled } from '../model/compile';
import type { NativeBuffer, Step } from '../model/steps';
import { openChosen, type PlanRequest } from '../conv2d/tuning';
import { indexOf, type Place } from '../placement';

type Program = Compiled['program'];

/**
 * The program with the algorithm and variant of every convolution of constant weights pinned; where a run brings or computes
 * them, native code chooses. What is remembered is not measured again.
 */
export async function tuneProgram(program: Program, request: Omit<PlanRequest, 'spec'>): Promise<Program> {
  const steps = [];
  // One after the other: measurements would disturb each other.
  for (const step of program.steps) steps.push(await tuneStep(step, request));
  return { ...program, steps };
}

async function tuneStep(
  step: Step<NativeBuffer>,
  request: Omit<PlanRequest, 'spec'>,
): Promise<Step<NativeBuffer>> {
  if (step.kind !== 'convolution') return step;
  // What is measured has its weights packed once, which no run can do with those that it brings.
  if (!isConstant(step.weight) || !isConstant(step.bias)) return step;
  const spec = { ...step.convolution, device: indexOf(request.place) };
  const { native, tuning } = await openChosen({ ...request, spec: measuredOf(spec, request.place) });
  native.dispose();
  const { algorithm, variant } = tuning!.measurements[0]!;
  return { ...step, convolution: { ...spec, algorithm, variant } };
}

/**
 * The problem that is measured: on the CPU, whose algorithms take images one by one, that of one image, so that networks of
 * other batches need no measurement. A GPU's kernels are chosen for all images together.
 */
function measuredOf(spec: ConvolutionSpec, place: Place): ConvolutionSpec {
  const { inputDims } = spec;
  return place === 'cpu' ? { ...spec, inputDims: [1, ...inputDims.slice(1)] } : spec;
}

function isConstant(buffer: NativeBuffer | null): boolean {
  return buffer === null || buffer.space === 'constant';
}
