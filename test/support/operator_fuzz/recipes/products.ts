/** Products of matrices. */
import { float, int, type Recipe } from '../draw';
import { narrower } from '../values';

const gemm: Recipe = (draw) => {
  const { random } = draw;
  const extent = () => (random.chance(0.03) ? 0 : random.integer(1, random.chance(0.1) ? 70 : 18));
  const [m, k, n] = [extent(), extent(), extent()];
  const [a, b] = [random.chance(0.5), random.chance(0.5)];
  const type = draw.type();
  const hasAddend = draw.opset < 11 || random.chance(0.6);
  // How integers are multiplied by other numbers, ONNX does not say.
  const factor = () => float(random.pick([type.includes('float') ? 0.5 : 3, -2, 0]));
  return {
    attributes: {
      ...(a ? { transA: int(1) } : {}),
      ...(b ? { transB: int(1) } : draw.maybe('transB', () => int(0), 0.2)),
      ...draw.maybe('alpha', factor, 0.3),
      ...draw.maybe('beta', factor, 0.3),
    },
    inputs: [
      draw.tensor(a ? [k, m] : [m, k], type),
      draw.tensor(b ? [n, k] : [k, n], type),
      hasAddend ? draw.tensor(narrower([m, n], random), type) : undefined,
    ],
  };
};

export const matmul: Recipe = (draw) => {
  const { random } = draw;
  const extent = () => (random.chance(0.02) ? 0 : random.integer(1, random.chance(0.1) ? 70 : 10));
  const [m, k, n] = [extent(), extent(), extent()];
  const batch = draw.dims({ most: 2, isEmptyAllowed: false }).map((size) => Math.min(size, 4));
  const [left, right] = [narrower(batch, random), random.chance(0.4) ? [] : batch];
  const type = draw.type();
  const a = random.chance(0.15) ? [k] : [...left, m, k];
  const b = random.chance(0.15) ? [k] : [...right, k, n];
  return { inputs: [draw.tensor(a, type), draw.tensor(b, type)] };
};

export const products: Readonly<Record<string, Recipe>> = { Gemm: gemm, MatMul: matmul };
