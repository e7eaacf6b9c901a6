// One convolution with bias and ReLU: finds the vertical edges of a small image.
// Run it with: node examples/basic.mjs
import { conv2d, Tensor } from 'warpconv';

// prettier-ignore
const image = new Tensor(new Float32Array([
  0, 0, 9, 9, 9, 9,
  0, 0, 9, 9, 9, 9,
  0, 0, 9, 9, 9, 9,
  0, 0, 9, 9, 9, 9,
]), [1, 1, 4, 6]); // N, C, H, W

// prettier-ignore
const filters = new Tensor(new Float32Array([
  -1, 0, 1,
  -2, 0, 2,
  -1, 0, 1,
]), [1, 1, 3, 3]); // K, C / groups, R, S

const bias = new Tensor(new Float32Array([-1]), [1]);
const edges = await conv2d(image, filters, { bias, padding: [0, 1], activation: 'relu', device: 'cpu' });

console.log(`dims ${edges.dims.join(' x ')}`);
const columns = edges.dims[3];
for (let start = 0; start < edges.size; start += columns) {
  console.log(edges.data.slice(start, start + columns).join(' '));
}
