import warpconv from './index.js';

export * from './index.js';
/** All of it, as a program has it that imports onnxruntime-node's default. */
export default warpconv;
