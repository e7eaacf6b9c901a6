/** What is in a folder of models: Triton's layout NAME/VERSION/model.onnx, or plain files NAME.onnx. */
import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import path from 'node:path';

/** A model as the folder has it. */
export interface FoundModel {
  readonly name: string;
  /** The newest; nothing where there is none */
  readonly version: string | undefined;
  readonly file: string;
  /** Its config.json; nothing where there is none */
  readonly config: string | undefined;
  /** Whether it has a configuration for Triton, which says nothing here */
  readonly hasPbtxt: boolean;
  /** Why it cannot be loaded, as far as names tell */
  readonly problem: string | undefined;
  /** Another one whenever a file of the newest version has changed */
  readonly signature: string;
}

const MODEL_FILE = 'model.onnx';
const CONFIG_FILE = 'config.json';
const TRITON_CONFIG = 'config.pbtxt';
const EXTENSION = '.onnx';
/** As Triton has it: no zero in front. */
const VERSION = /^[1-9]\d*$/;
/** Of file systems. Hidden ones are Kubernetes' own, in volumes of its ConfigMaps. */
const NO_MODEL = /^(?:\..*|lost\+found)$/;

/** Where a name comes from */
interface Source {
  readonly name: string;
  readonly isFolder: boolean;
}

/** All models of a folder by their names, in order. */
export async function scanFolder(folder: string): Promise<Map<string, FoundModel>> {
  const sources = await listSources(folder);
  const found = await Promise.all([...sources].map(([name, own]) => examine(folder, name, own)));
  return new Map(found.filter((model) => model !== undefined).map((model) => [model.name, model]));
}

/** One of them. The name is looked for in the listing and never becomes part of a path otherwise. */
export async function findModel(folder: string, name: string): Promise<FoundModel | undefined> {
  const sources = (await listSources(folder)).get(name);
  return sources && examine(folder, name, sources);
}

async function listSources(folder: string): Promise<Map<string, Source[]>> {
  const entries = await readdir(folder, { withFileTypes: true });
  const sources = new Map<string, Source[]>();
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (NO_MODEL.test(entry.name)) continue;
    const isFolder = await isDirectory(folder, entry);
    if (!isFolder && !entry.name.endsWith(EXTENSION)) continue;
    const name = isFolder ? entry.name : entry.name.slice(0, -EXTENSION.length);
    sources.set(name, [...(sources.get(name) ?? []), { name: entry.name, isFolder }]);
  }
  return sources;
}

/** Links lead where they lead. */
async function isDirectory(folder: string, entry: Dirent): Promise<boolean> {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  const target = await stat(path.join(folder, entry.name)).catch(() => undefined);
  return target?.isDirectory() ?? false;
}

async function examine(
  folder: string,
  name: string,
  [source, other]: readonly Source[],
): Promise<FoundModel | undefined> {
  const place = path.join(folder, source!.name);
  const model = source!.isFolder ? await examineFolder(place, name) : await examineFile(place, name);
  if (model === undefined || other === undefined) return model;
  return { ...model, problem: `there are both '${source!.name}' and '${other.name}'; remove one` };
}

async function examineFile(file: string, name: string): Promise<FoundModel> {
  const found = { name, version: '1', file, config: undefined, hasPbtxt: false, problem: undefined };
  return { ...found, signature: await signatureOf(file) };
}

/** Nothing where it is not the folder of a model. */
async function examineFolder(folder: string, name: string): Promise<FoundModel | undefined> {
  const names = await readdir(folder).catch((error: Error) => error);
  if (!Array.isArray(names)) return unusable(folder, name, `its folder cannot be read: ${names.message}`);
  const configs = names.includes(CONFIG_FILE) ? [path.join(folder, CONFIG_FILE)] : [];
  const hasPbtxt = names.includes(TRITON_CONFIG);
  const version = names.filter((one) => VERSION.test(one)).reduce(newer, '');
  if (version === '') {
    const misnamed = await findMisnamed(folder, names);
    const isModel = configs.length > 0 || hasPbtxt || names.some((one) => one.endsWith(EXTENSION));
    if (misnamed !== undefined)
      return unusable(
        folder,
        name,
        `its version '${misnamed}' must be a number from 1, without zeros in front`,
      );
    // Somebody may have given the folder of one model.
    const remedy = VERSION.test(name) ? `; if '${name}' is a version, give the folder above` : '';
    const problem = `it has no version: the file should be at '${name}/1/${MODEL_FILE}'${remedy}`;
    return isModel ? unusable(folder, name, problem) : undefined;
  }
  const place = path.join(folder, version);
  const files = await filesBelow(place).catch((error: Error) => error);
  if (!Array.isArray(files))
    return unusable(folder, name, `its version ${version} cannot be read: ${files.message}`);
  const paths = [...configs, ...files.sort().map((file) => path.join(place, file))];
  const signatures = await Promise.all(paths.map(signatureOf));
  return {
    ...{ name, version, hasPbtxt, config: configs[0], file: path.join(place, MODEL_FILE) },
    problem: files.includes(MODEL_FILE) ? undefined : `its version ${version} has no ${MODEL_FILE}`,
    signature: [version, ...signatures].join('\n'),
  };
}

/** What would be a version, were it a number. */
async function findMisnamed(folder: string, names: readonly string[]): Promise<string | undefined> {
  for (const name of names) {
    const file = await stat(path.join(folder, name, MODEL_FILE)).catch(() => undefined);
    if (file?.isFile()) return name;
  }
  return undefined;
}

/** Links to folders are listed and not followed: some lead in circles, or to all files of the machine. */
async function filesBelow(place: string, below = ''): Promise<string[]> {
  const entries = await readdir(path.join(place, below), { withFileTypes: true });
  const files: string[] = [];
  for (const entry of entries) {
    const file = path.join(below, entry.name);
    files.push(file);
    if (entry.isDirectory()) files.push(...(await filesBelow(place, file)));
  }
  return files;
}

function unusable(folder: string, name: string, problem: string): FoundModel {
  const nothing = { version: undefined, config: undefined, hasPbtxt: false };
  return { name, ...nothing, file: folder, problem, signature: problem };
}

/** Versions may have more digits than numbers are exact for. */
function newer(one: string, other: string): string {
  if (one.length !== other.length) return one.length > other.length ? one : other;
  return one > other ? one : other;
}

/**
 * Where links lead counts, as a link may lead to another file of the same size and time. The number of a file does not:
 * some network file systems make up new ones.
 */
async function signatureOf(file: string): Promise<string> {
  try {
    const [target, { size, mtimeNs }] = await Promise.all([realpath(file), stat(file, { bigint: true })]);
    return `${target} ${size} ${mtimeNs}`;
  } catch (error) {
    return `${file} ${(error as NodeJS.ErrnoException).code}`;
  }
}
