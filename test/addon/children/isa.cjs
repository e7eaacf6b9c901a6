// Convolves small integers under whatever WARPCONV_ISA says, and prints the tile, whether the result is right, or the code of
// the failure.
const { Conv2d, conv2dSync, Tensor } = require('warpconv');

const integers = (dims, salt) => {
  const size = dims.reduce((product, extent) => product * extent, 1);
  const data = Float32Array.from({ length: size }, (_, index) => ((index * 7 + salt) % 11) - 5);
  return new Tensor('float32', data, dims);
};

async function main() {
  const input = integers([1, 5, 17, 19], 1);
  const weight = integers([37, 5, 3, 3], 2);
  const options = { padding: 1, device: 'cpu' };
  const plan = await Conv2d.create(weight, { ...options, algorithm: 'sconv', inputDims: input.dims });
  const expected = conv2dSync(input, weight, { ...options, algorithm: 'direct' }).data;
  const actual = plan.runSync(input).data;
  const { tiles } = plan.explain().candidates.find(({ algorithm }) => algorithm === 'sconv');
  const right = expected.every((value, index) => actual[index] === value);
  console.log(JSON.stringify({ filters: tiles.N_f, right }));
}

main().catch(({ code, message }) => console.log(JSON.stringify({ code, message })));
