import type { WarpconvExecutionProviderOption } from './onnxruntime.js';

export * from './onnxruntime.js';
// Without it TypeScript would not look for the module that is augmented below.
export type { Backend } from 'onnxruntime-common';

/** As in `onnxruntime.ts`: onnxruntime-common's declarations for `import` are other files than those for `require`. */
declare module 'onnxruntime-common' {
  // eslint-disable-next-line @typescript-eslint/no-namespace -- it is one there
  namespace InferenceSession {
    interface ExecutionProviderOptionMap {
      warpconv: WarpconvExecutionProviderOption;
    }
  }
}
