/** What there is to say about serving a model of a folder: defaults of the folder, and the model's own config.json. */
import { readFile } from 'node:fs/promises';

import { invalid, readProperties } from '../../check';
import type { ModelFile } from '../model_files';

/** Of all models of a folder; a config.json may say otherwise of one. */
export type ModelDefaults = Omit<ModelFile, 'file' | 'version'>;

export const MODEL_DEFAULTS = {
  sessionOptions: undefined,
  maxBatch: undefined,
  gpuShare: undefined,
  image: undefined,
} as const satisfies Record<keyof ModelDefaults, unknown>;

/** A config.json has no options of sessions but this: others can have files written. */
const CONFIG_DEFAULTS = { device: undefined, maxBatch: undefined, gpuShare: undefined, image: undefined };

export async function readConfig(file: string | undefined, defaults: ModelDefaults): Promise<ModelDefaults> {
  if (file === undefined) return defaults;
  const { device, ...own } = readProperties('config.json', await readJson(file), CONFIG_DEFAULTS);
  const sessionOptions =
    device === undefined ? {} : { sessionOptions: { ...defaults.sessionOptions, device } };
  const given = Object.entries(own).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(given), ...sessionOptions } as ModelDefaults;
}

async function readJson(file: string): Promise<unknown> {
  const text = await readFile(file, 'utf8');
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid(`config.json is not JSON: ${(error as Error).message}`);
  }
}
