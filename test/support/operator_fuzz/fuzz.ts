/** Draws models of one node by number, runs them and compares with the reference. */
import { describeCase, feedsOf, type Case } from './case';
import { damagedCase } from './damage';
import { legalCase, OPERATORS, randomOf } from './generate';
import { complaintAbout } from './judge';
import { answerTo, verdictOf, type Answer, type Verdict } from './run';

/** What became of one case. */
export interface Outcome {
  /** As seed:index, by which the case is drawn again */
  readonly id: string;
  readonly operator: string;
  /** The case in a line */
  readonly text: string;
  readonly kind: 'computed' | 'refused' | 'fault' | 'skipped';
  /** What is wrong, or why it was refused */
  readonly reason: string;
}

type Judged = Pick<Outcome, 'kind' | 'reason'>;

const fault = (reason: string): Judged => ({ kind: 'fault', reason });
const refused = (reason: string): Judged => ({ kind: 'refused', reason });

/** A legal model computes what the reference does, or is refused for want of support. */
function judgeLegal(verdict: Verdict, answer: Answer): Judged {
  if (verdict.kind === 'illegal') return fault(`the generator draws what is illegal: ${verdict.reason}`);
  if (verdict.kind === 'large') return fault(`the generator draws what is large: ${verdict.size}`);
  if (answer.kind === 'error') {
    return answer.code === 'UNSUPPORTED'
      ? refused(answer.message)
      : fault(`${answer.code}: ${answer.message}`);
  }
  if (verdict.kind === 'unjudged')
    return fault(`computed, and the reference cannot judge: ${verdict.reason}`);
  const complaint = complaintAbout(answer.outputs, verdict.outputs);
  if (complaint !== undefined) return fault(complaint);
  return answer.again === undefined
    ? { kind: 'computed', reason: '' }
    : fault(`computed again: ${answer.again}`);
}

/** What is illegal is refused with a code; what is legal still computes the right value, or is refused. */
function judgeDamaged(drawn: Case, verdict: Verdict, answer: Answer): Judged {
  if (answer.kind === 'error') {
    const { code, message } = answer;
    const isCoded = codesFor(drawn, verdict).includes(code);
    if (isCoded && (verdict.kind !== 'legal' || verdict.isTolerated)) return refused(message);
    return code === 'UNSUPPORTED' ? refused(message) : fault(`${verdict.kind}, yet ${code}: ${message}`);
  }
  switch (verdict.kind) {
    case 'legal': {
      const complaint = complaintAbout(answer.outputs, verdict.outputs);
      return complaint === undefined ? { kind: 'computed', reason: '' } : fault(complaint);
    }
    case 'unjudged':
      return { kind: 'skipped', reason: verdict.reason };
    case 'illegal':
      return fault(`computed, though illegal: ${verdict.reason}`);
    case 'large':
      return fault(`computed, though of size ${verdict.size}`);
  }
}

function codesFor(drawn: Case, verdict: Verdict): string[] {
  // Indices are looked at in a run, even those of the file.
  const failsInRun = verdict.kind === 'illegal' && verdict.isOutOfRange;
  // How large a model is that the reference cannot judge, nobody has counted; without a large number it is small.
  const mayBeLarge = verdict.kind === 'large' || (verdict.kind === 'unjudged' && hasLargeNumber(drawn));
  return [
    ...['INVALID_MODEL', 'UNSUPPORTED'],
    ...(feedsOf(drawn).length > 0 || failsInRun ? ['INVALID_ARGUMENT'] : []),
    ...(mayBeLarge ? ['OUT_OF_MEMORY'] : []),
  ];
}

/** Whether an attribute or an input could ask for more than a test has room for. */
function hasLargeNumber({ attributes, inputs }: Case): boolean {
  const isLarge = (x: unknown) => Math.abs(Number(x)) >= 2 ** 16;
  const numbers = Object.values(attributes).flatMap(({ value }): unknown[] =>
    Array.isArray(value) ? value : [value],
  );
  return [...numbers, ...inputs.flatMap((input) => input?.tensor.data ?? [])].some(isLarge);
}

/** Calls `begin` with what is about to run, for those who watch for crashes. */
export async function runLegal(
  seed: number,
  index: number,
  begin?: (text: string) => void,
): Promise<Outcome> {
  const drawn = legalCase(seed, index);
  const verdict = verdictOf(drawn);
  const text = describeCase(drawn);
  begin?.(`${seed}:${index} ${text}`);
  const answer = await answerTo(drawn, verdict, randomOf(seed ^ 0xa9a1, index).chance(0.25));
  return { id: `${seed}:${index}`, operator: operatorAt(index), text, ...judgeLegal(verdict, answer) };
}

/** Outputs of gigabytes that a machine might have the memory for are not asked for. */
const LEAST_IMPOSSIBLE = 2 ** 44;

export async function runDamaged(
  seed: number,
  index: number,
  begin?: (text: string) => void,
): Promise<Outcome> {
  const { drawn, change } = damagedCase(seed, index);
  const verdict = verdictOf(drawn);
  const text = `${describeCase(drawn)} (changed: ${change})`;
  const common = { id: `${seed}:${index}`, operator: operatorAt(index), text };
  if (verdict.kind === 'large' && verdict.size < LEAST_IMPOSSIBLE) {
    return { ...common, kind: 'skipped', reason: `of size ${verdict.size}` };
  }
  begin?.(`${seed}:${index} ${text}`);
  const answer = await answerTo(drawn, verdict, false);
  return { ...common, ...judgeDamaged(drawn, verdict, answer) };
}

function operatorAt(index: number): string {
  return OPERATORS[index % OPERATORS.length]!;
}

/** Cases of all operators, so many of each. */
export function roundsOf(rounds: number): number {
  return rounds * OPERATORS.length;
}

type Counts = Record<Outcome['kind'], number>;

/** Counts of outcomes by operator, and refusals by reason. */
export class Tally {
  readonly faults: Outcome[] = [];
  readonly #counts = new Map<string, Counts>();
  readonly #reasons = new Map<string, number>();

  add(outcome: Outcome): void {
    const counts = this.#counts.get(outcome.operator) ?? { computed: 0, refused: 0, fault: 0, skipped: 0 };
    counts[outcome.kind]++;
    this.#counts.set(outcome.operator, counts);
    if (outcome.kind === 'fault') this.faults.push(outcome);
    if (outcome.kind !== 'refused') return;
    const reason = general(outcome);
    this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
  }

  total(kind: Outcome['kind']): number {
    return [...this.#counts.values()].reduce((sum, counts) => sum + counts[kind], 0);
  }

  /** The operators that were drawn and never computed. */
  neverComputed(): string[] {
    return [...this.#counts].flatMap(([operator, { computed }]) => (computed === 0 ? [operator] : []));
  }

  /** Lines: how much of each operator was computed, and why the rest was refused. */
  table(): string {
    const rows = [...this.#counts].map(([operator, counts]) => {
      const text = Object.entries(counts).filter(([, count]) => count > 0);
      return `  ${operator}: ${text.map(([kind, count]) => `${count} ${kind}`).join(', ')}`;
    });
    const reasons = [...this.#reasons]
      .sort(([, a], [, b]) => b - a)
      .map(([reason, count]) => `  ${count} ${reason}`);
    return [...rows, 'refused:', ...reasons].join('\n');
  }

  /** What is wrong, the same at most so often. */
  complaints(most = 20): string {
    const shown = this.faults.slice(0, most).map(({ id, reason, text }) => `${id} ${reason}\n    ${text}`);
    const rest = this.faults.length - shown.length;
    return [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join('\n');
  }
}

/** Without what differs from case to case. */
function general({ reason }: Outcome): string {
  return reason
    .replace(/^WarpconvError: (\S+) '[^']*'/, '…')
    .replace(/'[^']*'/g, '…')
    .replace(/\[[^\]]*\]/g, '[…]')
    .replace(/(?<![a-z])\d+/g, 'N');
}
