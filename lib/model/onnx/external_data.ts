/**
 * Tensors whose elements are in files beside the model's. The model says in which, and need not be trusted: only files
 * inside its own folder are read.
 */
import { realpath } from 'node:fs/promises';
import path from 'node:path';

import { describe, plural } from '../../check';
import { WarpconvError } from '../../errors';
import type { Sliced } from '../../slices';
import { invalidModel, quote } from '../complaints';
import { readFilePart, sizeOfFile } from './files';
import { TensorProto_DataLocation as DataLocation, type ModelProto, type TensorProto } from './onnx_pb';
import { readHeader, tensorObstacle } from './tensors';

/** The bytes of each tensor that has them in another file. */
export type ExternalData = ReadonlyMap<TensorProto, Uint8Array>;

interface Located {
  readonly what: string;
  readonly tensor: TensorProto;
}

/** The tensors that {@link readExternalData} reads. */
export function* externalTensors({ graph }: ModelProto): Sliced<Located[]> {
  const found: Located[] = [];
  for (const tensor of graph?.initializer ?? []) {
    yield;
    const located = { what: initializerTitle(tensor), tensor };
    if (isExternal(located)) found.push(located);
  }
  for (const { name, attribute } of graph?.node ?? []) {
    yield;
    for (const { name: key, t: tensor } of attribute) {
      if (tensor === undefined) continue;
      const located = { what: `attribute ${quote(key)} of node ${quote(name)}`, tensor };
      if (isExternal(located)) found.push(located);
    }
  }
  return found;
}

export function initializerTitle({ name }: TensorProto): string {
  return `initializer ${quote(name)}`;
}

function isExternal({ what, tensor }: Located): boolean {
  switch (tensor.dataLocation) {
    case DataLocation.DEFAULT:
      return false;
    case DataLocation.EXTERNAL:
      // Where it could not be read, what becomes of it is for its reader to say.
      return tensorObstacle(what, tensor) === undefined;
    default:
      throw invalidModel(
        `${what} has its data at a location of kind ${describe(tensor.dataLocation)}, which ONNX does not have`,
      );
  }
}

/** Contents of files by the names that a model has for them, or where each is. */
export type GivenFiles = ReadonlyMap<string, Uint8Array | string>;

/**
 * @param model - the model's file, whose folder the files are in; `undefined` where only those that are given can be
 * @throws `ERR_WARPCONV_INVALID_MODEL` naming the tensor whose file is outside of the folder, missing or too short
 */
export async function readExternalData(
  tensors: readonly Located[],
  model: string | undefined,
  given: GivenFiles,
): Promise<ExternalData> {
  const files = new ExternalFiles(model === undefined ? undefined : await findFolders(model), given);
  const data = new Map<TensorProto, Uint8Array>();
  for (const { what, tensor } of tensors) {
    data.set(tensor, await files.read(what, placeOf(what, tensor), readHeader(what, tensor).byteLength));
  }
  return data;
}

/** Where a model is, and where what it is a link to is: caches of model hubs have links beside links. */
interface Folders {
  readonly own: string;
  readonly linked: string;
}

async function findFolders(model: string): Promise<Folders> {
  try {
    return { own: await realpath(path.dirname(model)), linked: path.dirname(await realpath(model)) };
  } catch (cause) {
    throw invalidModel(
      `the model has data in other files of its folder, which cannot be found: ${(cause as Error).message}`,
      cause,
    );
  }
}

interface Place {
  readonly location: string;
  readonly offset: number;
  readonly length: number | undefined;
}

function placeOf(what: string, tensor: TensorProto): Place {
  const entries = new Map(tensor.externalData.map(({ key, value }) => [key, value]));
  const count = (key: string) => {
    const value = entries.get(key);
    if (value === undefined) return undefined;
    if (/^\d+$/.test(value) && Number.isSafeInteger(Number(value))) return Number(value);
    throw invalidModel(`${what} has its data at an ${key} of ${quote(value)}, which is no number of bytes`);
  };
  const location = entries.get('location') ?? '';
  if (location === '') throw invalidModel(`${what} has its data in another file and does not say in which`);
  return { location, offset: count('offset') ?? 0, length: count('length') };
}

interface ExternalFile {
  /** Or what it holds */
  readonly path: string | Uint8Array;
  readonly size: number;
  readonly ranges: Map<string, Uint8Array>;
  /** Of the ranges together */
  bytes: number;
}

/** The files of one model. */
class ExternalFiles {
  readonly #files = new Map<string, ExternalFile>();
  /** The end of a message about a file that nobody gave */
  readonly #names: string;

  constructor(
    private readonly folders: Folders | undefined,
    private readonly given: GivenFiles,
  ) {
    this.#names = given.size === 0 ? '' : `; options.externalData gives ${describe([...given.keys()])}`;
  }

  async read(what: string, { location, offset, length }: Place, needed: number): Promise<Uint8Array> {
    if (length !== undefined && length !== needed) {
      throw invalidModel(
        `${what} has ${plural(length, 'byte')} of data in ${quote(location)} and needs ${needed}`,
      );
    }
    const file = await this.#find(what, location);
    if (!(offset + needed <= file.size)) {
      throw invalidModel(
        `${what} needs ${plural(needed, 'byte')} from byte ${offset} of ${quote(location)}, which has ${file.size}`,
      );
    }
    const key = `${offset}+${needed}`;
    const known = file.ranges.get(key);
    if (known !== undefined) return known;
    // Otherwise a small file, read again and again in ever new ranges, could take any amount of memory.
    file.bytes += needed;
    if (file.bytes > file.size) {
      throw invalidModel(`${what} and tensors before it need more bytes of ${quote(location)} than it has`);
    }
    const bytes = await unlessUnreadable(what, location, () => partOf(file.path, offset, needed));
    file.ranges.set(key, bytes);
    return bytes;
  }

  async #find(what: string, location: string): Promise<ExternalFile> {
    const name = this.#nameOfGiven(what, location);
    if (name !== undefined) {
      const key = `given ${name}`;
      const find = async () => this.#files.get(key) ?? this.#add(this.given.get(name)!, key);
      return unlessUnreadable(what, location, find);
    }
    const { folders } = this;
    if (folders === undefined) {
      throw invalidModel(
        `${what} has its data in another file, ${quote(location)}; load the model by its path, or give options.externalData${this.#names}`,
      );
    }
    const isAbsolute = path.posix.isAbsolute(location) || path.win32.isAbsolute(location);
    if (isAbsolute || /^\.\.(\/|$)/.test(sameName(location))) throw outside(what, location, this.#names);
    const find = async () => {
      // The file itself, whatever links lead there.
      const file = await realpath(path.join(folders.own, location));
      if (!isInside(folders.own, file) && !isInside(folders.linked, file))
        throw outside(what, location, this.#names);
      return this.#files.get(file) ?? this.#add(file, file);
    };
    return unlessUnreadable(what, location, find, this.#names);
  }

  /** The very name if it is given, or else the one that names the same file. */
  #nameOfGiven(what: string, location: string): string | undefined {
    if (this.given.has(location)) return location;
    const wanted = sameName(location);
    const [name, ...others] = [...this.given.keys()].filter((given) => sameName(given) === wanted);
    if (others.length === 0) return name;
    throw invalidModel(
      `${what} has its data in ${quote(location)}, which options.externalData gives as ${describe([name, ...others])}; give one`,
    );
  }

  async #add(file: string | Uint8Array, name: string): Promise<ExternalFile> {
    const entry = {
      path: file,
      size: typeof file === 'string' ? await sizeOfFile(file) : file.length,
      ranges: new Map<string, Uint8Array>(),
      bytes: 0,
    };
    this.#files.set(name, entry);
    return entry;
  }
}

/** Bytes of the caller's are copied: they may change when the model has been loaded. */
async function partOf(file: string | Uint8Array, offset: number, length: number): Promise<Uint8Array> {
  return typeof file === 'string' ? readFilePart(file, offset, length) : file.slice(offset, offset + length);
}

async function unlessUnreadable<T>(
  what: string,
  location: string,
  read: () => Promise<T>,
  end = '',
): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (cause instanceof WarpconvError) throw cause;
    throw invalidModel(
      `${what} has its data in ${quote(location)}, which cannot be read: ${(cause as Error).message}${end}`,
      cause,
    );
  }
}

/** A name in the form in which names of files are compared: programs write `./weights.bin` for the model's `weights.bin`. */
function sameName(name: string): string {
  return path.posix.normalize(name.replaceAll('\\', '/'));
}

function isInside(folder: string, file: string): boolean {
  return file.startsWith(folder.endsWith(path.sep) ? folder : folder + path.sep);
}

function outside(what: string, location: string, end: string): WarpconvError {
  return invalidModel(
    `${what} has its data in ${quote(location)}, outside of the model's folder; copy the file there, not a link to it${end}`,
  );
}
