// A convolution used again and again: weights are packed once, calls can be aborted, memory is given back.
// Run it with: node examples/plan.cjs
const { Conv2d, memory, Tensor } = require('warpconv');

const [N, C, H, W, K] = [1, 32, 56, 56, 64];

function randomTensor(dims) {
  const size = dims.reduce((product, extent) => product * extent);
  return new Tensor(
    Float32Array.from({ length: size }, () => Math.random() - 0.5),
    dims,
  );
}

async function main() {
  const options = { inputDims: [N, C, H, W], padding: 1, activation: 'silu', device: 'cpu' };
  const plan = await Conv2d.create(randomTensor([K, C, 3, 3]), options);
  console.log(`${plan.algorithm} on ${plan.device} gives ${plan.outputDims.join(' x ')}`);

  // The same output tensor again and again: no allocation from call to call.
  const output = new Tensor(new Float32Array(N * K * H * W), plan.outputDims);
  for (let call = 0; call < 3; call++) {
    await plan.run(randomTensor([N, C, H, W]), { output });
    console.log(`call ${call}: first output ${output.data[0].toFixed(4)}`);
  }

  // A signal takes calls out of the queue, here because their time is up.
  const calls = Array.from({ length: 200 }, () =>
    plan.run(randomTensor([N, C, H, W]), { signal: AbortSignal.timeout(20) }),
  );
  const results = await Promise.allSettled(calls);
  const aborted = results.filter((result) => result.reason?.code === 'ERR_WARPCONV_ABORTED');
  console.log(`${results.length - aborted.length} calls finished, ${aborted.length} were aborted`);

  plan.dispose();
  console.log(`${memory().plans} plans left`);
}

main();
