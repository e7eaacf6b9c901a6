/**
 * Models over HTTP: the Open Inference Protocol, for `node:http` and what takes its handlers.
 *
 * @packageDocumentation
 */
export { createHandler } from './handler';
export { serve } from './server';

export type { Handler } from './handler';
export type { HandlerOptions, ServeLogger } from './options';
export type { RunningServer, ServeOptions } from './server';
export type { AnyModel, ModelFile } from './model_files';
export type {
  ModelOptions,
  ServedImageOptions,
  ServedSession,
  ServedTensor,
  ServedValueMetadata,
} from './model';
