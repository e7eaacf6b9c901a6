/** A compiled network, for people. */
import type { NativeCandidate } from '../addon';
import type { Precision } from '../conv2d/names';
import type { ConvolutionSpec, TensorFormat } from '../native_types';
import type { Compiled, Port } from './compile';
import type { GraphNode } from './graph';
import type { Step } from './steps';
import type { Operand } from './values';

/** One step of a compiled network. */
export interface StepExplanation {
  /**
   * For example `'convolution'` or `'elementwise'`; `'hosted'` for a node that JavaScript computes between two programs;
   * `'undecided'` for a node that only a run can compile
   */
  readonly kind: string;
  /** The model's nodes that it computes */
  readonly nodes: readonly string[];
  /** What it does, in a few words */
  readonly summary: string;
  /** In a network of halves: the type of what it makes, and how that lies in memory. Elsewhere absent. */
  readonly format?: string;
  /** Of a convolution: the algorithm, what one run is predicted to take, and the tiles by name */
  readonly algorithm?: string;
  readonly predictedMilliseconds?: number;
  readonly tiles?: Readonly<Record<string, number>>;
  /**
   * Floating-point operations of convolutions, matrix products and recurrent cells: 2 for each multiplication that is
   * added, as a direct convolution makes them. Other steps have none.
   */
  readonly flops?: number;
  /** What it took, where that was measured */
  readonly milliseconds?: number;
}

/** What was compiled for one set of input dims, or, of a network that runs in parts, for a run. */
export interface SessionExplanation {
  readonly device: string;
  /** The least exact products that are made; `'fp32'` where the device has no faster ones, whatever was asked for */
  readonly precision: Precision;
  readonly inputs: readonly Port[];
  /** Those whose dims are known */
  readonly outputs: readonly Port[];
  /** In the order in which they run */
  readonly steps: readonly StepExplanation[];
  /** Scratch memory of one run */
  readonly arenaBytes: number;
}

export function explainProgram(
  device: string,
  { inputs, outputs, steps, program, precision }: Compiled,
  choices: readonly (NativeCandidate | null)[],
): SessionExplanation {
  return {
    device,
    precision,
    inputs,
    outputs,
    steps: steps.map(({ step, nodes }, i) => {
      const choice = choices[i];
      const flops = flopsOf(step);
      const base = {
        ...{ kind: step.kind, nodes, summary: summaryOf(step) },
        ...(flops !== undefined && { flops }),
        ...(isHalf(precision) && { format: describe(formatOf(step, precision)) }),
      };
      if (choice === null || choice === undefined) return base;
      const { algorithm, predictedMilliseconds, tiles } = choice;
      return { ...base, algorithm, predictedMilliseconds, tiles };
    }),
    arenaBytes: program.arenaBytes,
  };
}

/** A node that JavaScript computes, and what it runs itself. */
export function hostedSteps(node: GraphNode): StepExplanation[] {
  const [own, ...inner] = undecidedSteps([node]);
  return [{ ...own!, kind: 'hosted' }, ...inner];
}

/** Nodes that are compiled in a run, each before those of its own graphs. Constants have no steps. */
export function undecidedSteps(nodes: readonly GraphNode[]): StepExplanation[] {
  return nodes
    .filter(({ operator }) => operator !== 'Constant')
    .flatMap(({ name, operator, bodies }) => [
      { kind: 'undecided', nodes: [name], summary: operator },
      ...[...(bodies?.values() ?? [])].flatMap((body) => undecidedSteps(body.nodes)),
    ]);
}

/** Gates, each of which has a product with the hidden state */
const GATES = { rnn: 1, gru: 3, lstm: 4 } as const;

function flopsOf(step: Step<Operand>): number | undefined {
  switch (step.kind) {
    case 'convolution': {
      const [k, ...filter] = step.convolution.weightDims;
      return (
        2 * step.convolution.inputDims[0]! * k! * product(filter) * product(outputExtents(step.convolution))
      );
    }
    case 'matmul':
    case 'typedMatmul':
      return 2 * product(step.batch) * step.m * step.n * step.k;
    case 'squeezeExcite':
      return 4 * step.n * step.channels * step.hidden;
    case 'recurrent':
      return 2 * step.steps * step.batch * GATES[step.cell] * step.hidden ** 2;
    default:
      return undefined;
  }
}

/** Height and width. A compiled step has its padding as numbers. */
function outputExtents({ inputDims, weightDims, padding, ...steps }: ConvolutionSpec): number[] {
  return [0, 1].map((axis) => {
    const padded = inputDims[2 + axis]! + Number(padding[axis]) + Number(padding[axis + 2]);
    const window = steps.dilation[axis]! * (weightDims[2 + axis]! - 1) + 1;
    return Math.floor((padded - window) / steps.stride[axis]!) + 1;
  });
}

function isHalf(precision: Precision): precision is 'fp16' | 'bf16' {
  return precision === 'fp16' || precision === 'bf16';
}

type Format = Pick<TensorFormat, 'type' | 'layout'>;

/** Of what a step makes, where it is no plain float32 */
function formatOf(step: Step<Operand>, precision: 'fp16' | 'bf16'): Format | undefined {
  const half = { type: precision === 'fp16' ? 'float16' : 'bfloat16', layout: 'nhwc' } as const;
  switch (step.kind) {
    case 'convolution':
      return step.convolution.format?.output;
    case 'elementwise':
      return step.outputType && half;
    case 'pool':
      return step.outputFormat;
    case 'normalize':
    case 'interpolate':
    case 'squeezeExcite':
      return step.type && half;
    case 'copy':
    case 'gather':
      return step.bytes === 2 ? half : undefined;
    case 'format':
      return step.to;
    default:
      return undefined;
  }
}

function describe(format: Format = { type: 'float32', layout: 'nchw' }): string {
  return `${format.type} ${format.layout.toUpperCase()}`;
}

function product(extents: readonly number[]): number {
  return extents.reduce((all, extent) => all * extent, 1);
}

function summaryOf(step: Step<Operand>): string {
  switch (step.kind) {
    case 'convolution': {
      const { inputDims, weightDims, activation } = step.convolution;
      const extras = [
        step.residual === null ? '' : 'residual',
        activation.name === 'none' ? '' : activation.name,
      ].filter(Boolean);
      return [`${inputDims.join('x')} * ${weightDims.join('x')}`, ...extras].join(', ');
    }
    case 'matmul':
      return `${[...step.batch, step.m].join('x')} x ${step.k} x ${step.n}`;
    case 'elementwise':
      return step.code.map(({ operation }) => operation).join(', ');
    case 'pool':
      return `${step.mode} of ${step.r}x${step.s}`;
    case 'reduce':
      return `${step.mode} of ${step.reduced}`;
    case 'map':
    case 'indexed':
    case 'scan':
    case 'typedReduce':
      return `${step.kind === 'map' ? step.operation : step.mode} of ${typesOf(step)}`;
    case 'recurrent':
      return `${step.cell} of ${step.steps} steps, ${step.hidden} units`;
    case 'roiAlign':
      return `${step.regions} regions of ${step.h}x${step.w}`;
    case 'format':
      return `${describe(step.from)} of ${step.n}x${step.channels}x${step.area}`;
    case 'copy':
      return `${step.extents.join('x')} elements`;
    case 'squeezeExcite':
      return `${step.n}x${step.channels}x${step.area}, ${step.hidden} hidden`;
    default:
      return '';
  }
}

function typesOf(step: Extract<Step<Operand>, { kind: 'map' | 'indexed' | 'scan' | 'typedReduce' }>): string {
  return step.kind === 'map' ? step.types.join(' and ') : step.type;
}
