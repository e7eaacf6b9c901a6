/**
 * Models over HTTP: the Open Inference Protocol, for `node:http` and what takes its handlers.
 *
 * @packageDocumentation
 */
export { ModelFolder } from './folder/model_folder';
export { createHandler } from './handler';
export { serve } from './server';

export type { ModelDefaults } from './folder/config';
export type { ModelControl, ModelFolderOptions, ModelState } from './folder/model_folder';
export type { AccessLogEntry, AccessLogger, AccessLogOption } from './access_log';
export type { Handler } from './handler';
export type { HandlerOptions, ServeLogger } from './options';
export type { RunningServer, ServeOptions } from './server';
export type { AnyModel, ModelFile } from './model_files';
export type { GivenModels } from './open_models';
export type {
  ModelOptions,
  ServedImageOptions,
  ServedSession,
  ServedTensor,
  ServedValueMetadata,
} from './model';
