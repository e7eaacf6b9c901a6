/** Networks with `algorithm: 'tune'`: each convolution by the algorithm that was measured to be fastest. */
import type { Compiled } from './model/compile';
import type { Step } from './model/steps';
import { openChosen, type PlanRequest } from './tuning';
import { indexOf } from './placement';

type Program = Compiled['program'];

/** The program with every convolution's algorithm and variant pinned. What is remembered is not measured again. */
export async function tuneProgram(program: Program, request: Omit<PlanRequest, 'spec'>): Promise<Program> {
  const steps = [];
  // One after the other: measurements would disturb each other.
  for (const step of program.steps) steps.push(await tuneStep(step, request));
  return { ...program, steps };
}

async function tuneStep<B>(step: Step<B>, request: Omit<PlanRequest, 'spec'>): Promise<Step<B>> {
  if (step.kind !== 'convolution') return step;
  const spec = { ...step.convolution, device: indexOf(request.place) };
  const { native, tuning } = await openChosen({ ...request, spec });
  native.dispose();
  const { algorithm, variant } = tuning!.measurements[0]!;
  return { ...step, convolution: { ...spec, algorithm, variant } };
}
