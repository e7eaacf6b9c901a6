export * from './onnxruntime.js';
