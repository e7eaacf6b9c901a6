// Convolutions for the child processes: seeded data, and expected results from the synchronous call.
const { conv2dSync, Tensor } = require('warpconv');

const LAYERS = {
  // Some milliseconds
  quick: { inputDims: [1, 16, 20, 21], weightDims: [24, 16, 3, 3], algorithm: 'auto' },
  // Some tenths of a second: the readable algorithm, on one thread
  slow: { inputDims: [1, 64, 40, 40], weightDims: [64, 64, 5, 5], algorithm: 'direct' },
};

/** Fresh tensors of a layer: the same seed gives the same data. */
function operands(name, seed) {
  const { inputDims, weightDims, algorithm } = LAYERS[name];
  const options = { padding: 'same', algorithm, device: 'cpu' };
  return { input: tensor(inputDims, seed), weight: tensor(weightDims, seed + 1), options };
}

function tensor(dims, seed) {
  const size = dims.reduce((product, extent) => product * extent);
  const value = (index) => ((Math.imul(index + seed, 2654435761) >>> 8) / 2 ** 23 - 1) / 8;
  return new Tensor(
    Float32Array.from({ length: size }, (_, index) => value(index)),
    dims,
  );
}

function expectedData(name, seed) {
  const { input, weight, options } = operands(name, seed);
  return conv2dSync(input, weight, options).data;
}

function sameBits(a, b) {
  return Buffer.from(a.buffer).equals(Buffer.from(b.buffer));
}

module.exports = { operands, expectedData, sameBits };
