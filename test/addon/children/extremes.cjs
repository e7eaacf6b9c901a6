// Does what it is sent, one call after the other, and sends back what came of it: an output, or an error's code.
const { algorithms, conv2d, Conv2d, conv2dSync, InferenceSession, Tensor, tune } = require('warpconv');

/** Small integers, as the other process has them. */
const ramp = (dims) =>
  new Tensor(
    Float32Array.from({ length: dims.reduce((a, b) => a * b, 1) }, (_, i) => ((i * 7) % 11) - 5),
    dims,
  );

const CALLS = {
  algorithms: ({ problem, device }) => void algorithms(problem, device),
  async create({ problem: { weightDims, ...options }, device }) {
    const plan = await Conv2d.create(ramp(weightDims), { ...options, device });
    plan.explain();
    plan.dispose();
  },
  async plan({ problem: { weightDims, ...options }, device }) {
    const plan = await Conv2d.create(ramp(weightDims), { ...options, device });
    return plan.run(ramp(options.inputDims));
  },
  sync({ problem: { inputDims, weightDims, ...options }, device }) {
    return conv2dSync(ramp(inputDims), ramp(weightDims), { ...options, device });
  },
  async({ problem: { inputDims, weightDims, ...options }, device }) {
    return conv2d(ramp(inputDims), ramp(weightDims), { ...options, device });
  },
  async tune({ problem, device }) {
    await tune([problem], { device });
  },
  async session({ model, inputDims, device }) {
    const session = await InferenceSession.create(new Uint8Array(model), { device });
    const { y } = await session.run({ x: ramp(inputDims) });
    await session.dispose();
    return y;
  },
};

process.on('message', async (request) => {
  try {
    const output = await CALLS[request.call](request);
    process.send(output ? { dims: output.dims, data: [...output.data] } : {});
  } catch (error) {
    process.send({ code: String(error.code), message: String(error.message ?? error) });
  }
});
