/** Problems of the tests as calls of the package. */
import { algorithms, Tensor, type AlgorithmInfo, type AlgorithmName, type Conv2dOptions } from '../../lib';
import { outputDims, type Operands, type Problem } from './reference';

/** The arguments of `conv2d` and `conv2dSync` that run the problem on the CPU. */
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
      device: 'cpu',
    },
  ];
}

/** What every algorithm of the CPU makes of the problem. */
export function cpuAlgorithms(problem: Problem): AlgorithmInfo[] {
  const { inputDims, weightDims, stride, padding, dilation, groups, activation } = problem;
  return algorithms({ inputDims, weightDims, stride, padding, dilation, groups, activation }, 'cpu');
}

export function acceptingAlgorithms(problem: Problem): AlgorithmName[] {
  return cpuAlgorithms(problem)
    .filter(({ refusal }) => refusal === undefined)
    .map(({ algorithm }) => algorithm);
}
