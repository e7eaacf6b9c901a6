/** What a server opens itself, and closes when it ends: model files, or a folder of models. */
import { stat } from 'node:fs/promises';

import { mismatch } from '../check';
import { ModelFolder } from './folder/model_folder';
import type { ServeLogger } from './logger';
import { openModelFiles, type AnyModel, type OpenedModels } from './model_files';

/** What there is to serve, as {@link serve} takes it. */
export type GivenModels = string | ModelFolder | Readonly<Record<string, AnyModel>>;

/** What else is wrong with the options the handler finds. */
export async function openModels(models: unknown, logger: unknown): Promise<OpenedModels> {
  if (models instanceof ModelFolder) return { models, release: async () => {} };
  if (typeof models !== 'string') return openModelFiles(models);
  const place = await stat(models).catch(() => undefined);
  if (place?.isDirectory() !== true)
    throw mismatch('options.models', 'a folder of models, or an object of models by their names', models);
  const folder = await ModelFolder.open(models, { logger: logger as ServeLogger });
  return { models: folder, release: () => folder.close() };
}
