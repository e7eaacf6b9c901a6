/** `npx warpconv inspect`: what a model is, and what runs it. */
import path from 'node:path';

import { command } from './command';
import { describeAssumed, describeInputs, withAssumed, type PlannedInput, type Request } from './feeds';
import {
  MODEL_OPTIONS,
  MODEL_OPTIONS_HELP,
  readCount,
  readPlace,
  readModelFile,
  readRequest,
} from './model_options';
import { makeFeeds, openModel } from './opened_model';
import { endProgress, showProgress } from './progress';
import { grouped, inBytes, scaled, table } from './table';
import { plural } from '../check';
import { WarpconvError } from '../errors';
import { printable } from '../printable';
import type { SessionExplanation, StepExplanation } from '../model/explain';
import type { OnnxFile } from '../model/onnx/load';
import type { Outline, OutlinedValue } from '../model/onnx/outline';
import type { SessionOptions } from '../session/session_options';

/** What `--json` prints. */
export interface Inspection extends Outline {
  readonly file: string;
  /** Operators that nothing here computes, with all their nodes and what to do; empty where there are none */
  readonly unsupported: readonly UnsupportedOperator[];
  /** Why the model cannot be run; null where it can */
  readonly problem: { readonly code: string; readonly message: string } | null;
  /** What was compiled, for which inputs; null where nothing was */
  readonly compiled: Compilation | null;
}

interface UnsupportedOperator {
  readonly operator: string;
  readonly nodes: readonly string[];
  readonly advice: string;
}

interface Compilation {
  readonly device: string;
  readonly inputs: readonly PlannedInput[];
  /** Extents that were assumed for it, for example `N = 1` */
  readonly assumed: readonly string[];
  readonly steps: readonly StepExplanation[];
  /** Of all steps; see {@link StepExplanation.flops} */
  readonly flops: number;
  /** Scratch memory of one run */
  readonly arenaBytes: number;
}

export const inspectCommand = command({
  name: 'inspect',
  summary: 'print what an ONNX model has in it, and what runs each of its steps',
  synopsis: 'inspect MODEL.onnx [options]',
  help: `
Print the inputs, outputs, operators and parameters of an ONNX model, and the steps that it is
compiled to: the device and algorithm of each, and its FLOPs. Unsupported operators are listed with
their nodes. It exits with 0 if the model can run, and with 1 otherwise.

  --steps          list every step; without, steps that are alike share a line
${MODEL_OPTIONS_HELP.slice(1)}
`,
  options: { ...MODEL_OPTIONS, steps: { type: 'boolean' } },
  mostArguments: 1,
  async run({ json = false, steps = false, ...args }, files) {
    const file = readModelFile('inspect', files);
    const [request, place, threads] = [
      readRequest(args),
      readPlace(args),
      readCount('threads', args.threads, 1024),
    ];
    try {
      showProgress(`reading ${file}`);
      const inspection = await inspect(file, request, { ...place, threads });
      endProgress();
      process.stdout.write(
        json ? `${JSON.stringify(inspection, null, 2)}\n` : printable(render(inspection, steps)),
      );
      if (inspection.problem === null) return 0;
      process.stderr.write(
        printable(`warpconv: ${inspection.problem.code}: ${inspection.problem.message}\n`),
      );
      return 1;
    } finally {
      endProgress();
    }
  },
});

async function inspect(
  file: string,
  request: Request,
  options: SessionOptions & { readonly threads: number | undefined },
): Promise<Inspection> {
  const [{ OnnxFile }, { readOutline }] = await Promise.all([
    import('../model/onnx/load.js'),
    import('../model/onnx/outline.js'),
  ]);
  // Once: it may be large, and be replaced meanwhile.
  const read = await OnnxFile.read(file);
  const outline = await readOutline(read);
  const found = { file: path.basename(file), ...outline };
  try {
    const unsupported = await findUnsupported(read);
    const [first] = unsupported;
    if (first !== undefined) {
      const message = `the model has ${plural(unsupported.length, 'operator')} that warpconv does not support, ${first.operator} for one`;
      return {
        ...found,
        unsupported,
        problem: { code: 'ERR_WARPCONV_UNSUPPORTED', message },
        compiled: null,
      };
    }
    return { ...found, unsupported, problem: null, compiled: await compileFor(read, request, options) };
  } catch (error) {
    if (!(error instanceof WarpconvError)) throw error;
    const { code, message } = error;
    return { ...found, unsupported: [], problem: { code, message }, compiled: null };
  }
}

async function findUnsupported(file: OnnxFile): Promise<UnsupportedOperator[]> {
  const [{ loadOnnx }, { unsupportedNodes }] = await Promise.all([
    import('../model/onnx/load.js'),
    import('../model/compile.js'),
  ]);
  const refused = await unsupportedNodes(await loadOnnx(file));
  return Array.from(refused, ([operator, nodes]) => ({
    operator,
    nodes: nodes.map(({ name }) => name),
    advice: nodes.find(({ obstacle }) => obstacle !== undefined)?.obstacle ?? adviceFor(operator),
  }));
}

function adviceFor(operator: string): string {
  if (operator.startsWith('com.microsoft.') || operator.startsWith('com.ms.'))
    return "an operator of onnxruntime's own; use the model as it was before onnxruntime optimised or quantised it";
  if (operator.startsWith('ai.onnx.ml.'))
    return 'an operator of classical machine learning; export the network without that part';
  return "export the model without it, or run the model by onnxruntime-node: options.fallback 'onnxruntime'";
}

async function compileFor(
  file: OnnxFile,
  request: Request,
  options: SessionOptions & { readonly threads: number | undefined },
): Promise<Compilation> {
  const { session, plan } = await openModel(file, request, options);
  showProgress(`compiling ${file.path}`);
  const { device, steps, arenaBytes } = await explain(session, plan.inputs).catch((error: unknown) => {
    throw withAssumed(error, plan);
  });
  await session.release();
  const flops = steps.reduce((sum, step) => sum + (step.flops ?? 0), 0);
  return { device, ...plan, steps, flops, arenaBytes };
}

type Session = Awaited<ReturnType<typeof openModel>>['session'];

/** What only a run decides is found by one, with made-up elements. */
async function explain(session: Session, inputs: readonly PlannedInput[]): Promise<SessionExplanation> {
  const dims = Object.fromEntries(inputs.map((input) => [input.name, input.dims]));
  let refusal: unknown;
  const explanation = await session.explain(dims).catch((error: unknown) => void (refusal = error));
  if (explanation?.steps.every(({ kind }) => kind !== 'undecided')) return explanation;
  try {
    return await session.profile(await makeFeeds(inputs), { runs: 1 });
  } catch (error) {
    // Elements that mean nothing to the model may end its run.
    if (explanation !== undefined) return explanation;
    throw refusal instanceof WarpconvError && refusal.code === 'ERR_WARPCONV_INVALID_MODEL' ? refusal : error;
  }
}

function render(inspection: Inspection, allSteps: boolean): string {
  const { file, fileBytes, irVersion, opsets, inputs, outputs, unsupported, compiled } = inspection;
  const versions = Object.entries(opsets).map(([domain, version]) => `${domain} ${version}`);
  return [
    `${file}: ${inBytes(fileBytes)}, IR version ${irVersion}, operators of ${versions.join(', ')}\n`,
    ...(inputs.length === 0 ? ['no inputs\n'] : [table([['inputs', '', ''], ...inputs.map(rowOf)])]),
    table([['outputs', '', ''], ...outputs.map(rowOf)]),
    renderOperators(inspection),
    renderParameters(inspection),
    ...(unsupported.length > 0 ? [renderUnsupported(unsupported)] : []),
    ...(compiled === null ? [] : [renderCompiled(compiled, allSteps)]),
  ].join('\n');
}

function rowOf({ name, type, shape }: OutlinedValue): string[] {
  const dims = shape === undefined ? 'of any rank' : `[${shape.map((extent) => extent || '?').join(', ')}]`;
  return [`  ${name}`, type, dims];
}

function renderOperators({ operators }: Inspection): string {
  const counts = Object.entries(operators);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const list = counts.map(([name, count]) => `${name} ${count}`);
  return `${plural(counts.length, 'operator')}, ${plural(total, 'node')}\n${wrapped(list)}`;
}

const WIDTH = 100;

/** With commas between them, over as many lines as it takes */
function wrapped(words: readonly string[]): string {
  const lines = [''];
  for (const [i, word] of words.entries()) {
    const text = i < words.length - 1 ? `${word}, ` : word;
    if (lines.at(-1)!.length + text.length > WIDTH) lines.push('');
    lines[lines.length - 1] += text;
  }
  return lines.map((line) => `  ${line.trimEnd()}\n`).join('');
}

function renderParameters({ parameters, weightBytes }: Inspection): string {
  const counts = Object.entries(parameters);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const types = counts.map(([type, count]) => `${type} ${grouped(count)}`);
  return `${grouped(total)} parameters, ${inBytes(weightBytes)}${types.length === 0 ? '' : `: ${types.join(', ')}`}\n`;
}

function renderUnsupported(unsupported: readonly UnsupportedOperator[]): string {
  const lines = unsupported.map(
    ({ operator, nodes, advice }) =>
      `  ${operator}: ${advice}\n${wrapped(nodes).replaceAll(/^/gm, '  ').trimEnd()}\n`,
  );
  return `not supported\n${lines.join('')}`;
}

function renderCompiled(compiled: Compilation, allSteps: boolean): string {
  const { device, inputs, assumed, steps, flops, arenaBytes } = compiled;
  return [
    `${plural(steps.length, 'step')} on ${device} for ${describeInputs(inputs)}\n`,
    describeAssumed({ inputs, assumed }),
    allSteps ? tableOfSteps(steps, device) : tableOfKinds(steps, device),
    flops === 0
      ? ''
      : `${scaled(flops)} FLOP, counting 2 for each multiply-add of convolutions, matrix products and recurrent cells\n`,
    `${inBytes(arenaBytes)} of scratch memory\n`,
  ].join('');
}

function whereRuns({ kind }: StepExplanation, device: string): string {
  if (kind === 'hosted') return 'JavaScript';
  return kind === 'undecided' ? 'a run decides' : device;
}

function tableOfSteps(steps: readonly StepExplanation[], device: string): string {
  const rows = steps.map((step, i) => [
    String(i + 1),
    whereRuns(step, device),
    step.kind,
    step.algorithm ?? '',
    step.flops === undefined ? '' : scaled(step.flops),
    step.summary,
    step.nodes.join(' + '),
  ]);
  return table([['#', 'where', 'kind', 'algorithm', 'FLOP', 'what', 'nodes'], ...rows], ['#', 'FLOP']);
}

/** Steps of one kind, algorithm and place on one line; those with most FLOPs first. */
function tableOfKinds(steps: readonly StepExplanation[], device: string): string {
  const groups = new Map<string, { count: number; flops: number; cells: readonly string[] }>();
  for (const step of steps) {
    const cells = [whereRuns(step, device), step.kind, step.algorithm ?? ''];
    const { count, flops } = groups.get(cells.join()) ?? { count: 0, flops: 0 };
    groups.set(cells.join(), { count: count + 1, flops: flops + (step.flops ?? 0), cells });
  }
  const rows = [...groups.values()]
    .sort((a, b) => b.flops - a.flops || b.count - a.count)
    .map(({ count, flops, cells }) => [String(count), ...cells, flops === 0 ? '' : scaled(flops)]);
  return table([['steps', 'where', 'kind', 'algorithm', 'FLOP'], ...rows], ['steps', 'FLOP']);
}
