/** Runs a model of one node and says what became of it. */
import { InferenceSession, Tensor } from '../../../lib';
import { CONSTRUCTORS } from '../../../lib/tensor/tensor';
import { TEST_DEVICE } from '../gpu';
import { evaluate } from '../onnx_reference';
import {
  Illegal,
  OutOfRange,
  TooLarge,
  Unjudged,
  type ElementType,
  type Expected,
  type RefTensor,
} from '../onnx_reference/tensor';
import { ELEMENT_ARRAYS, feedsOf, loaded, modelOf, outputNames, refNode, stored, type Case } from './case';
import { complaintAbout } from './judge';

/** What the reference says of a case: the outputs, or why there are none. */
export type Verdict =
  | { readonly kind: 'legal'; readonly outputs: readonly Expected[]; readonly isTolerated: boolean }
  | { readonly kind: 'illegal'; readonly reason: string; readonly isOutOfRange: boolean }
  | { readonly kind: 'unjudged'; readonly reason: string }
  | { readonly kind: 'large'; readonly size: number };

export function verdictOf(drawn: Case): Verdict {
  try {
    const { outputs, isTolerated } = evaluate(refNode(drawn));
    return { kind: 'legal', outputs: outputs.filter((_, i) => !drawn.unnamed.includes(i)), isTolerated };
  } catch (error) {
    if (error instanceof Illegal) {
      return { kind: 'illegal', reason: error.message, isOutOfRange: error instanceof OutOfRange };
    }
    if (error instanceof Unjudged) return { kind: 'unjudged', reason: error.message };
    if (error instanceof TooLarge) return { kind: 'large', size: error.size };
    throw error;
  }
}

/** What the library made of a case. */
export type Answer =
  | { readonly kind: 'outputs'; readonly outputs: readonly RefTensor[]; readonly again: string | undefined }
  | { readonly kind: 'error'; readonly code: string; readonly message: string };

/** Longer than any of these models may take. */
const MOST_MILLISECONDS = 10_000;

export async function answerTo(drawn: Case, verdict: Verdict, repeats: boolean): Promise<Answer> {
  const types = verdict.kind === 'legal' ? verdict.outputs.map(({ type }) => type) : [];
  const start = performance.now();
  try {
    const outputs = await runModel(modelOf(drawn, types), drawn, repeats);
    const taken = performance.now() - start;
    if (taken > MOST_MILLISECONDS) return { kind: 'error', code: 'HANG', message: `${taken} ms` };
    return outputs;
  } catch (error) {
    const taken = performance.now() - start;
    if (taken > MOST_MILLISECONDS)
      return { kind: 'error', code: 'HANG', message: `${taken} ms, ${String(error)}` };
    const { code = 'none' } = error as { code?: string };
    return { kind: 'error', code: code.replace('ERR_WARPCONV_', ''), message: String(error) };
  }
}

async function runModel(model: Uint8Array, drawn: Case, repeats: boolean): Promise<Answer> {
  await using session = await InferenceSession.create(model, { device: TEST_DEVICE });
  const feeds = Object.fromEntries(feedsOf(drawn).map(([name, tensor]) => [name, feedOf(tensor)]));
  const signal = AbortSignal.timeout(MOST_MILLISECONDS);
  const results = await session.run(feeds, { signal });
  const first = outputsOf(results, drawn);
  const repeat = () => outputsOf(session.runSync(feeds, garbageLike(results)), drawn);
  const again = repeats ? complaintAbout(repeat(), first) : undefined;
  return { kind: 'outputs', outputs: first, again };
}

/** Tensors for the outputs, of which every element must be written. */
export function garbageLike(results: Readonly<Record<string, Tensor>>): Record<string, Tensor> {
  const entries = Object.entries(results).map(([name, { type, dims, data }]) => {
    const garbage = new Uint8Array(data.byteLength).fill(0xa5);
    const Elements = CONSTRUCTORS[type];
    return [name, new Tensor(type, new Elements(garbage.buffer) as never, dims)] as const;
  });
  return Object.fromEntries(entries);
}

export function feedOf(tensor: RefTensor): Tensor {
  const { type, dims } = tensor;
  const data = elementsOf(tensor);
  return new Tensor(type, data, dims);
}

function elementsOf(tensor: RefTensor): never {
  const constructor = ELEMENT_ARRAYS[tensor.type] as { from(elements: unknown): unknown };
  return constructor.from(stored(tensor)) as never;
}

function outputsOf(results: Readonly<Record<string, Tensor>>, drawn: Case): RefTensor[] {
  return outputNames(drawn).map((name) => {
    const { type, dims, data } = results[name]!;
    return { type: type as ElementType, dims, data: loaded(type as ElementType, data, dims) };
  });
}
