import { serve } from 'warpconv/serve';

const x = { name: 'x', isTensor: true, type: 'float32', shape: ['N'] };
const session = {
  inputNames: ['x'],
  outputNames: ['y'],
  inputMetadata: [x],
  outputMetadata: [{ ...x, name: 'y' }],
  run: async (feeds) => ({ y: feeds.x }),
};

/** What a server answers that reads requests on so many threads; by default as many as it finds right. */
async function ask(threads) {
  const { url, close } = await serve({ port: 0, threads, models: { echo: session } });
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [2], data: [1, 2] }] });
  const headers = { 'Content-Type': 'application/json' };
  const response = await fetch(`${url}/v2/models/echo/infer`, { method: 'POST', headers, body });
  const { outputs } = await response.json();
  await close();
  return outputs[0].data.join();
}

const threads = process.argv[2] && Number(process.argv[2]);
void ask(threads).then((answer) => console.log(answer));
