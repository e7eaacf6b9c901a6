// Compiled, never run: the provider has its place in onnxruntime-common's types, in a module of either kind.
import { InferenceSession, registerBackend } from 'onnxruntime-common';
import { backend } from 'warpconv/onnxruntime';

registerBackend('warpconv', backend, 100);

export function load(): Promise<InferenceSession> {
  return InferenceSession.create('model.onnx', {
    executionProviders: [{ name: 'warpconv', device: 'cpu', cachedShapes: 8 }, 'cpu'],
  });
}

export const bad = [
  // @ts-expect-error: a misspelt option of the provider
  () => InferenceSession.create('model.onnx', { executionProviders: [{ name: 'warpconv', devise: 'cpu' }] }),
  // @ts-expect-error: no such device
  () => InferenceSession.create('model.onnx', { executionProviders: [{ name: 'warpconv', device: 'gpu' }] }),
];
