/** The folder of models of `npx warpconv serve DIR`. */
import { printable } from '../printable';
import type { ModelControl, ModelFolder, ModelFolderOptions, ServeLogger } from '../serve';

const text = { type: 'string' } as const;

/** Those that say something only of a folder */
export const FOLDER_OPTIONS = {
  'model-control': text,
  'poll-seconds': text,
  'load-model': { type: 'string', multiple: true },
  'strict-readiness': text,
} as const;

export const FOLDER_HELP = `
A folder has its models at NAME/VERSION/model.onnx, of which the newest version is served, or NAME.onnx. SIGHUP has it
looked at again; a version that has changed takes the place of the one before when it is loaded, and no request fails.

  --model-control MODE    'none' (SIGHUP alone), 'poll' (looks by itself, too) or 'explicit' (loads and unloads what
                          POST /v2/repository/models/NAME/load and unload say, whoever sends them)
  --poll-seconds N        seconds between two looks; 15 by default
  --load-model NAME       a model to load at first, with 'explicit'; may be given several times
  --strict-readiness no   ready even while a model cannot be loaded
`;

/** Options of the command line. */
export interface FolderArguments {
  readonly 'model-control'?: string;
  readonly 'poll-seconds'?: string;
  readonly 'load-model'?: readonly string[];
  readonly 'strict-readiness'?: string;
}

/** What they have to look like */
export const FOLDER_SHAPES = {
  'poll-seconds': [/^\d{1,9}(?:\.\d+)?$/, 'a number'],
  'strict-readiness': [/^(?:yes|no)$/, "'yes' or 'no'"],
} as const;

export function readFolderArguments(args: FolderArguments): ModelFolderOptions {
  const {
    'model-control': control,
    'poll-seconds': seconds,
    'load-model': load,
    'strict-readiness': strict,
  } = args;
  return {
    ...(control !== undefined && { control: control as ModelControl }),
    ...(seconds !== undefined && { pollInterval: Math.round(1000 * Number(seconds)) }),
    ...(load !== undefined && { load }),
    ...(strict !== undefined && { strictReadiness: strict === 'yes' }),
  };
}

/**
 * Looks at a folder of models again whenever the process gets SIGHUP.
 *
 * @returns what ends that
 */
export function reloadOnHangup(opening: Promise<ModelFolder>): () => void {
  const onHangup = () => {
    opening
      .then((folder) => folder.reload())
      .catch((err: unknown) => LOGGER.error({ err }, 'the folder of models cannot be read'));
  };
  process.on('SIGHUP', onHangup);
  return () => void process.off('SIGHUP', onHangup);
}

function log(details: object, message: string): void {
  const { model, version, err } = details as { model?: string; version?: string; err?: Error };
  const name = model && JSON.stringify(model);
  const which = version === undefined ? name : `${name} ${version}`;
  const parts = [message, which, err?.message.replaceAll('\n', ' ')];
  const line = parts.filter((part) => part !== undefined).join(': ');
  process.stderr.write(printable(`warpconv: ${line}\n`));
}

/** A line on stderr for each thing that becomes of a model */
export const LOGGER: ServeLogger = { error: log, warn: log, info: log };
