/** What a process that decodes images runs. */
import os from 'node:os';

import { Refusal } from '../refusal';
import type { Answer, Question } from './processes';
import { decode } from './sharp';

/** Event loops of the server come first: a late answer costs more than a late image. */
function stepBack(): void {
  try {
    os.setPriority(os.constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // A system that forbids it has its reasons, and images are decoded all the same.
  }
}

async function answer({ id, body, plan }: Question): Promise<Answer> {
  try {
    return { id, pixels: await decode(body, plan) };
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    return { id, failure, status: error instanceof Refusal ? error.status : undefined };
  }
}

/** The server may go between two lines of this. */
function exitIf(error: Error | null): void {
  if (error !== null) process.exit();
}

stepBack();
// Signals of a terminal go to the whole group. The server drains at them, and needs its images until then.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('disconnect', () => process.exit());
process.on('message', (question: Question) => {
  void answer(question).then((message) => {
    if (process.connected) process.send!(message, exitIf);
  });
});
