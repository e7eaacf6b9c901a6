// Buffers that their owner transfers while a call uses them, and lets the collector take.
const { Conv2d, InferenceSession, Tensor } = require('warpconv');
const fs = require('node:fs');
const path = require('node:path');

const device = process.argv[2];
const filled = (dims) => {
  const size = dims.reduce((product, extent) => product * extent, 1);
  return new Tensor('float32', new Float32Array(size).fill(1), dims);
};
const turn = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function transfer({ buffer }) {
  // Nobody keeps what it becomes.
  structuredClone(buffer, { transfer: [buffer] });
  for (let i = 0; i < 3; i++) {
    global.gc();
    await turn(1);
  }
}

async function main() {
  const inputDims = [4, 64, 112, 112];
  const weight = filled([64, 64, 3, 3]);
  const plan = await Conv2d.create(weight, { inputDims, padding: 1, device });
  const bytes = fs.readFileSync(path.join(__dirname, '../../../examples/digits/digits.onnx'));
  const session = await InferenceSession.create(bytes, { device });
  const [{ name, shape }] = session.inputMetadata;
  const batch = shape.map((extent) => (typeof extent === 'number' ? extent : 512));
  for (let round = 0; round < 3; round++) {
    for (const which of ['input', 'output', 'weight', 'feed', 'part']) {
      const [input, output, other, feed, part] = [
        filled(inputDims),
        filled(plan.outputDims),
        filled(weight.dims),
        filled(batch),
        filled(batch),
      ];
      const signal = new AbortController().signal;
      const calls = {
        input: () => plan.run(input, { output, signal }),
        output: () => plan.run(input, { output, signal }),
        weight: () => Conv2d.create(other, { inputDims, padding: 1, device }),
        feed: () => session.run({ [name]: feed }, { signal }),
        part: () => session.runJoined({ [name]: [filled(batch), part, filled(batch)] }, { signal }),
      };
      // A call that has not begun by then refuses what has no memory any more.
      const call = calls[which]().catch((error) => {
        if (error.code !== 'ERR_WARPCONV_INVALID_ARGUMENT') throw error;
      });
      await turn(1);
      await transfer({ input, output, weight: other, feed, part }[which].data);
      (await call)?.dispose?.();
    }
  }
  console.log('lives');
}

main();
