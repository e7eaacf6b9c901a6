// The problems that tests of tuning share, by number, with weights and inputs of small integers.
const { Conv2d, conv2dSync, Tensor } = require('warpconv');

function integers(dims, salt) {
  const size = dims.reduce((product, extent) => product * extent, 1);
  const data = Float32Array.from({ length: size }, (_, index) => ((index * 7 + salt) % 11) - 5);
  return new Tensor('float32', data, dims);
}

/** Every second one is depthwise; no two are the same. */
function problem(number) {
  const groups = number % 2 === 0 ? 1 : 16;
  return {
    inputDims: [1, 16, 12 + number, 15],
    weightDims: [16, 16 / groups, 3, 3],
    padding: 1,
    groups,
  };
}

/** Creates a plan by measurement and says what was chosen, whether by this plan, and whether it convolves rightly. */
async function tuneOne(number) {
  const { inputDims, weightDims, padding, groups } = problem(number);
  const [input, weight] = [integers(inputDims, 1), integers(weightDims, 2)];
  const options = { padding, groups, device: 'cpu' };
  const plan = await Conv2d.create(weight, { ...options, inputDims, algorithm: 'tune' });
  const expected = conv2dSync(input, weight, { ...options, algorithm: 'direct' }).data;
  const actual = (await plan.run(input)).data;
  const { algorithm, tuning, candidates } = plan.explain();
  plan.dispose();
  const times = candidates.map(({ measuredMilliseconds = Infinity }) => measuredMilliseconds);
  const isFastest = candidates.every(({ chosen }, index) => !chosen || times[index] === Math.min(...times));
  const right = isFastest && expected.every((value, index) => actual[index] === value);
  return { algorithm, fromCache: tuning.fromCache, right };
}

module.exports = { problem, tuneOne };
