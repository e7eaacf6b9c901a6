import { abortedBy, WarpconvError } from '../errors';
import { explain, type PlanExplanation } from './explanation';
import { readTuneRequest, type ConvolutionProblem, type ProblemSpec, type TuneOptions } from './options';
import { indexOf, locateForWork, openPlace, probeElsewhere, type Place } from '../placement';
import { openChosen, openPlan } from './tuning';
import { nextTurn } from '../turn';

/**
 * Measures what is fastest for each of a list of problems, one after the other, without holding up the event loop, and
 * remembers it in this process and in the user's cache directory: `algorithm: 'tune'` then finds it there and measures
 * nothing. What is remembered already is not measured again. A server does this before it takes requests, or once when its
 * image is built, on a machine of the same kind.
 *
 * @param problems - their `algorithm` is `'tune'` or left out
 * @returns for each problem what was found, in the order of the list
 * @throws {@link WarpconvError}, as a rejection, with the codes of {@link conv2d}; nothing is measured if one of the problems
 * is illegal
 */
export async function tune(
  problems: readonly ConvolutionProblem[],
  options?: TuneOptions,
): Promise<PlanExplanation[]> {
  const asked = readTuneRequest(problems, options);
  const { deterministic, signal, onProgress } = asked;
  await probeElsewhere(asked.device);
  const place = locateForWork(asked.device);
  await openPlace(place);
  const specs = asked.problems.map((problem, index) => checkProblem(problem, index, place));
  const explanations: PlanExplanation[] = [];
  for (const spec of specs) {
    // What is remembered is found at once: others, and those who would abort, get their turn in between.
    await nextTurn();
    if (signal?.aborted) throw abortedBy(signal);
    const request = { spec, place, precision: spec.precision, deterministic };
    const explanation = explain(request, await openChosen(request, signal));
    explanations.push(explanation);
    onProgress({ done: explanations.length, total: specs.length, explanation });
  }
  return explanations;
}

/** Has native code check the shapes. */
function checkProblem(problem: ProblemSpec, index: number, place: Place) {
  const spec = { ...problem, device: indexOf(place) };
  try {
    openPlan(spec);
    return spec;
  } catch (error) {
    if (!(error instanceof WarpconvError)) throw error;
    throw new WarpconvError(error.code, `problems[${index}]: ${error.message}`, { cause: error });
  }
}
