import { devices, Tensor } from '../lib';

/** What the figures below it were measured on. */
export function describeMachine(): string {
  const cpu = devices().find((device) => device.type === 'cpu')!;
  return `${cpu.name}, ${cpu.isa}, ${cpu.cores} processors; Node.js ${process.version}`;
}

/** Numbers between -0.5 and 0.5. */
export function randomTensor(dims: readonly number[]): Tensor<'float32'> {
  const size = dims.reduce((product, extent) => product * extent);
  const data = new Float32Array(size);
  for (let index = 0; index < size; index++) data[index] = Math.random() - 0.5;
  return new Tensor(data, dims);
}
