/** What of a result of main.ts makes it fail. */
import { RIVAL } from './loaded_server';
import type { Load, LongServeResult, Overload, ServeResult, Termination } from './report';

type Check = readonly [failed: boolean, what: string];
type Answers = Pick<Load, 'statuses' | 'connectionErrors' | 'wrong' | 'worst'>;

const failed = (checks: readonly Check[]) => checks.filter(([fails]) => fails).map(([, what]) => what);

const others = (statuses: Load['statuses'], allowed: readonly string[]) =>
  Object.keys(statuses).filter((status) => !allowed.includes(status));

/** With room in the queue. */
function notAnswered(loads: readonly Answers[]): Check {
  const isLost = ({ statuses, connectionErrors }: Answers) =>
    connectionErrors > 0 || others(statuses, ['200']).length > 0;
  return [loads.some(isLost), 'not every request was answered by 200, with room in the queue'];
}

function wrongAnswers(who: string, loads: readonly Answers[]): Check {
  const wrong = loads.reduce((total, load) => total + load.wrong, 0);
  const worst = loads.find((load) => load.wrong > 0)?.worst;
  return [wrong > 0, `${wrong} answers of ${who} were wrong; the first by ${worst} of the largest element`];
}

/** Of `maxQueue`: with fewer connections every request has room. */
const ROOM = 256;

function overloadChecks({ full: { statuses } }: Overload, kind: string): Check[] {
  return [
    [
      // Of a large model, more may wait than are answered in time.
      others(statuses, ['200', '503', '504']).length > 0,
      'an overloaded server answered by none of 200, 503 and 504',
    ],
    // Files may be decoded more slowly than a GPU takes them.
    [statuses[503] === undefined && kind !== 'jpeg', 'the queue was never full'],
  ];
}

function terminationChecks({ answered, received, exitCode }: Termination): Check[] {
  return [
    [answered !== received, 'accepted requests were lost at SIGTERM'],
    [exitCode !== 0, `SIGTERM ended the server with exit code ${exitCode}`],
  ];
}

export function failures({ servers, overload, termination, requests }: ServeResult): string[] {
  const ours = servers
    .filter(({ who }) => who !== RIVAL)
    .flatMap(({ loads }) => loads.filter(({ connections }) => connections <= ROOM));
  const overloads = overload === undefined ? [] : [overload.before, overload.full, overload.after];
  return failed([
    notAnswered([...ours, ...overloads.filter((load) => load !== overload!.full)]),
    ...servers.map(({ who, loads }) => wrongAnswers(who, loads)),
    wrongAnswers('the overloaded server', overloads),
    ...(overload === undefined ? [] : overloadChecks(overload, requests)),
    ...(termination === undefined ? [] : terminationChecks(termination)),
  ]);
}

export function longFailures({ who, load }: LongServeResult): string[] {
  return failed([notAnswered([load]), wrongAnswers(who, [load])]);
}
