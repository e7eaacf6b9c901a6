/** Problems of the tests as calls of the package, and the instruction sets it may be told to keep to. */
import vm from 'node:vm';

import { algorithms, Tensor, type AlgorithmInfo, type AlgorithmName, type Conv2dOptions } from '../../lib';
import { TEST_DEVICE } from './gpu';
import { outputDims, type Operands, type Problem } from './reference';

/** The arguments of `conv2d` and `conv2dSync` that run the problem on the device under test. */
export function conv2dArguments(
  problem: Problem,
  operands: Operands,
  algorithm: 'auto' | AlgorithmName = 'auto',
): [input: Tensor, weight: Tensor, options: Conv2dOptions] {
  const { inputDims, weightDims, stride, padding, dilation, groups, activation } = problem;
  const { input, weight, bias, residual } = operands;
  return [
    new Tensor(input, inputDims),
    new Tensor(weight, weightDims),
    {
      stride,
      padding,
      dilation,
      groups,
      activation,
      algorithm,
      bias: bias && new Tensor(bias, [bias.length]),
      residual: residual && new Tensor(residual, outputDims(problem)),
      device: TEST_DEVICE,
    },
  ];
}

/** Of a GPU, those that compute in halves alone, and refuse what is float32. */
const OF_HALVES: readonly AlgorithmName[] = TEST_DEVICE === 'cpu' ? [] : ['implicit', 'image', 'depthwise'];

/** What every algorithm of the device under test that computes in float32 makes of the problem. */
export function algorithmsUnderTest(problem: Problem): AlgorithmInfo[] {
  const { inputDims, weightDims, stride, padding, dilation, groups, activation } = problem;
  const all = algorithms(
    { inputDims, weightDims, stride, padding, dilation, groups, activation },
    TEST_DEVICE,
  );
  return all.filter(({ algorithm }) => !OF_HALVES.includes(algorithm));
}

export function acceptingAlgorithms(problem: Problem): AlgorithmName[] {
  return algorithmsUnderTest(problem)
    .filter(({ refusal }) => refusal === undefined)
    .map(({ algorithm }) => algorithm);
}

/** The values of WARPCONV_ISA on this architecture, narrowest first, with N_f of their micro-kernels. */
export const KERNEL_FILTERS: Readonly<Record<string, number>> = {
  portable: 8,
  ...(process.arch === 'x64' && { avx2: 16, avx512: 32 }),
  ...(process.arch === 'arm64' && { neon: 12 }),
};

/** The environment that native code reads; Jest gives tests a copy. */
const environment = (vm.runInThisContext('process') as NodeJS.Process).env;

/** Runs `body` with WARPCONV_ISA set to `isa`. */
export async function withIsa(isa: string, body: () => Promise<void>): Promise<void> {
  const before = environment.WARPCONV_ISA;
  environment.WARPCONV_ISA = isa;
  try {
    await body();
  } finally {
    if (before === undefined) delete environment.WARPCONV_ISA;
    else environment.WARPCONV_ISA = before;
  }
}
