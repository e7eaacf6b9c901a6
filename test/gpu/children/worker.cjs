// A worker that keeps many runs in flight on the GPU, resident and not, and posts how many results were right.
const { parentPort, workerData } = require('node:worker_threads');
const { Conv2d, Tensor } = require('warpconv');

async function main() {
  const { calls, seed } = workerData;
  const dims = [1, 3, 17, 33];
  const value = (index) => ((index * 7 + seed) % 11) - 5;
  const input = new Tensor(
    'float32',
    Float32Array.from({ length: 3 * 17 * 33 }, (_, i) => value(i)),
    dims,
  );
  const weight = new Tensor(
    'float32',
    Float32Array.from({ length: 8 * 27 }, (_, i) => value(i + 3)),
    [8, 3, 3, 3],
  );
  const options = { inputDims: dims, padding: 1 };
  const onCpu = await Conv2d.create(weight, { ...options, device: 'cpu' });
  const expected = (await onCpu.run(input)).data;
  const plan = await Conv2d.create(weight, { ...options, device: 'cuda' });
  const resident = await input.to('cuda');
  const isRight = async (output) => (await output.getData()).every((one, index) => one === expected[index]);
  const runs = Array.from({ length: calls }, async (_, call) => {
    const output = await plan.run(call % 2 === 0 ? resident : input);
    const right = await isRight(output);
    output.dispose();
    return right;
  });
  parentPort.postMessage('busy');
  const right = (await Promise.all(runs)).filter(Boolean).length;
  plan.dispose();
  onCpu.dispose();
  resident.dispose();
  parentPort.postMessage({ right });
}

main();
