/** A model opened by a command in its own process, with inputs for it. */
import type { InferenceSession } from '../session/session';
import type { SessionOptions } from '../session/session_options';
import type { Tensor } from '../tensor/tensor';
import { elementsOf, planInputs, type InputPlan, type PlannedInput, type Request } from './feeds';
import { showProgress } from './progress';
import type { OnnxFile } from '../model/onnx/load';

export interface OpenedModel {
  readonly session: InferenceSession;
  readonly plan: InputPlan;
}

/**
 * @param file - by its path, or as it was read before
 * @throws what {@link InferenceSession.create} does, and what {@link planInputs} does
 */
export async function openModel(
  file: string | OnnxFile,
  request: Request,
  { threads, ...options }: SessionOptions & { readonly threads: number | undefined },
): Promise<OpenedModel> {
  // The device is told with every result.
  process.env.WARPCONV_NO_CPU_WARNING = '1';
  const [{ InferenceSession }, { setThreads }] = await Promise.all([
    import('../session/session.js'),
    import('../devices.js'),
  ]);
  if (threads !== undefined) setThreads(threads);
  showProgress(`loading ${typeof file === 'string' ? file : file.path}`);
  // Users have no files that were read before, so the session's types do not tell of them.
  const session = await InferenceSession.create(file as string, options);
  return { session, plan: planInputs(session.inputMetadata, request, session.unrankedInputs) };
}

export async function makeFeeds(inputs: readonly PlannedInput[]): Promise<Record<string, Tensor>> {
  const { Tensor } = await import('../tensor/tensor.js');
  return Object.fromEntries(
    inputs.map((input) => [input.name, new Tensor(input.type, elementsOf(input) as never, input.dims)]),
  );
}
