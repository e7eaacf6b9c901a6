// Imported before an example, it prints when a run begins, and how it ends.
import { InferenceSession } from 'warpconv';

const { run } = InferenceSession.prototype;
InferenceSession.prototype.run = async function (...args) {
  console.log('a run begins');
  try {
    return await run.apply(this, args);
  } catch (error) {
    console.log(`a run ended by ${error.code}`);
    throw error;
  }
};
