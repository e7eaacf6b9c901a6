// Imported before an example, it prints when a run begins and how it ends. A run that has a signal, as those of requests
// have, is repeated for RUN_MS milliseconds: long on any machine, and aborted as any other.
import { InferenceSession } from 'warpconv';

const { run } = InferenceSession.prototype;
InferenceSession.prototype.run = async function (...args) {
  const end = performance.now() + (args.at(-1)?.signal ? Number(process.env.RUN_MS) : 0);
  console.log('a run begins');
  try {
    let outputs;
    do outputs = await run.apply(this, args);
    while (performance.now() < end);
    return outputs;
  } catch (error) {
    console.log(`a run ended by ${error.code}`);
    throw error;
  }
};
