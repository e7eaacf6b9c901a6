/** A compiled network, for people. */
import type { NativeCandidate } from '../addon';
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
  /** Of a convolution: the algorithm, what one run is predicted to take, and the tiles by name */
  readonly algorithm?: string;
  readonly predictedMilliseconds?: number;
  readonly tiles?: Readonly<Record<string, number>>;
  /** What it took, where that was measured */
  readonly milliseconds?: number;
}

/** What was compiled for one set of input dims, or, of a network that runs in parts, for a run. */
export interface SessionExplanation {
  readonly device: string;
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
  { inputs, outputs, steps, program }: Compiled,
  choices: readonly (NativeCandidate | null)[],
): SessionExplanation {
  return {
    device,
    inputs,
    outputs,
    steps: steps.map(({ step, nodes }, i) => {
      const choice = choices[i];
      const base = { kind: step.kind, nodes, summary: summaryOf(step) };
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
    case 'copy':
      return `${step.extents.join('x')} elements`;
    default:
      return '';
  }
}

function typesOf(step: Extract<Step<Operand>, { kind: 'map' | 'indexed' | 'scan' | 'typedReduce' }>): string {
  return step.kind === 'map' ? step.types.join(' and ') : step.type;
}
