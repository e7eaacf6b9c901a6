/** What is served: sessions, and what their metadata says of them. */
import {
  checkInteger,
  checkName,
  checkNumber,
  checkOneOf,
  describe,
  invalid,
  isObject,
  mismatch,
  plural,
  readProperties,
} from '../check';
import { WarpconvError } from '../errors';
import { IMAGE_DEFAULTS, type ImageOptions } from '../session/images';
import { datatypeOf, type Datatype } from './datatypes';

/** Metadata of an input or an output, as in onnxruntime-common. */
export interface ServedValueMetadata {
  readonly name: string;
  readonly isTensor: boolean;
  readonly type?: string;
  /** Extents; a name, or a number below 1, for one that varies. */
  readonly shape?: readonly (number | string)[];
}

/** A tensor as a session takes and gives it: in CPU memory, row-major. */
export interface ServedTensor {
  readonly type: string;
  readonly dims: readonly number[];
  readonly data: ArrayLike<unknown>;
  readonly location?: string;
  /** Brings the elements to CPU memory, where the tensor is elsewhere. */
  getData?(release?: boolean): Promise<ArrayLike<unknown>>;
  /** Called once the elements have been read. */
  dispose?(): void;
}

/** What can be served: the package's `InferenceSession`, onnxruntime's, or any object of this shape. */
export interface ServedSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ServedValueMetadata[];
  readonly outputMetadata: readonly ServedValueMetadata[];
  /** Where it runs, such as `'cuda:0'`. */
  readonly device?: string;
  /**
   * Runs the model.
   *
   * @param feeds - every input by its name; elements stay as they are until the promise settles
   * @param fetches - the outputs that are wanted
   * @param options - `{ signal }`, which aborts once nobody waits for the result; no narrower type, because the options of
   *   onnxruntime's sessions have no property in common with it
   */
  run(
    feeds: Readonly<Record<string, ServedTensor>>,
    fetches: readonly string[],
    options: object,
  ): Promise<Readonly<Record<string, unknown>>>;
  /**
   * As `run`, for inputs that come in parts along dimension 0. There may be a single part. Elements may be in memory that
   * threads share. Without this method parts are put together before.
   */
  runJoined?(
    feeds: Readonly<Record<string, readonly ServedTensor[]>>,
    fetches: readonly string[],
    options: object,
  ): Promise<Readonly<Record<string, unknown>>>;
  /** The same for images of 8 bits in place of an input. Without this method the model takes none. */
  forImages?(options: ImageOptions): ServedSession;
  /**
   * Whether one run may serve several: whether it gives each the rows of the outputs that it would get by itself. Without
   * this method nothing is joined, unless {@link ModelOptions.maxBatch} says that it may be.
   *
   * @param inputDims - of any of the runs, by input
   * @param rows - dimension 0 of all inputs in each of the runs
   */
  canJoin?(inputDims: Readonly<Record<string, readonly number[]>>, rows: readonly number[]): boolean;
}

/** How requests may bring an input as images of 8 bits; see {@link ImageOptions}. */
export interface ServedImageOptions extends ImageOptions {
  /**
   * How encoded images (JPEG, PNG, WebP) come to the model's height and width. `'cover'`, the default: scaled so that they
   * cover both, the centre cut out. `'fill'`: scaled to both, whatever their proportions. A number: the shorter side scaled
   * to that, the centre cut out. Where the model leaves height and width free, images keep theirs, or are squares of that
   * number.
   */
  readonly resize?: 'cover' | 'fill' | number;
}

/** A session with what there is to say about serving it. */
export interface ModelOptions {
  /** One, or several of the same network, such as one on each GPU: a run goes to the one that has least to do. */
  readonly session: ServedSession | readonly ServedSession[];
  /** The version that clients may ask for by `/versions/…`. Default `'1'`. */
  readonly version?: string;
  /**
   * Most rows (extents of dimension 0) of waiting requests that are joined in one run. It is a limit: 1, 2, 4, 8 … requests
   * of one shape are joined, as many as were measured to pay. A single request with more rows runs by itself. To give more
   * than 1 says that rows do not depend on each other; it needs a dimension 0 that varies everywhere, under names that no
   * other dimension has. The default is 32 if dimension 0 of all inputs and outputs has one name, which no other dimension
   * has, and the session's `canJoin` then proves of the very requests that nobody can tell. Otherwise it is 1.
   */
  readonly maxBatch?: number;
  /**
   * How much of a GPU's time is due to the model while other models of the server have work for that GPU, too: in
   * proportion to theirs. Default 1.
   */
  readonly gpuShare?: number;
  /**
   * Takes images for a float32 input, besides its own elements: tensors of `UINT8`, and bodies that are a JPEG, PNG or WebP
   * file. Needs a session of this package. Default: none are taken.
   */
  readonly image?: ServedImageOptions;
}

/** An input or an output. */
export interface ValueSpec {
  readonly name: string;
  readonly datatype: Datatype;
  /** Extents; a name where one varies, `''` where it has none. */
  readonly dims: readonly (number | string)[];
}

/** What clients see of a model. */
export interface ModelDescription {
  readonly name: string;
  readonly version: string;
  readonly inputs: readonly ValueSpec[];
  readonly outputs: readonly ValueSpec[];
  readonly image: ImageSpec | undefined;
}

/** An input that may also come as images. */
export interface ImageSpec {
  /** Of the images: the input's name, `UINT8`, and their dims */
  readonly spec: ValueSpec;
  readonly layout: NonNullable<ImageOptions['layout']>;
  readonly resize: NonNullable<ServedImageOptions['resize']>;
}

/** Whether what a request brings for an input is an image in place of the input's own elements. */
export function bringsImage(image: ImageSpec | undefined, input: string, type: unknown): boolean {
  return image?.spec.name === input && image.spec.datatype.type === type;
}

/** One of the sessions that run a model. */
export interface Replica {
  readonly session: ServedSession;
  /** The same for requests that bring images */
  readonly imageSession: ServedSession | undefined;
  /** The GPU that runs it, such as `'cuda:0'`; nothing for the CPU. */
  readonly gpu: string | undefined;
}

export interface Model extends ModelDescription {
  readonly replicas: readonly Replica[];
  readonly maxBatch: number;
  readonly gpuShare: number;
  /** Whether the session's `canJoin` has to be asked */
  readonly needsProof: boolean;
}

const DEFAULT_MAX_BATCH = 32;

export const MODEL_DEFAULTS = {
  session: undefined,
  version: '1',
  maxBatch: undefined,
  gpuShare: 1,
  image: undefined,
} as const satisfies Record<keyof ModelOptions, unknown>;

/** Whether it is a session, or a list of them, rather than an object that has one. */
export function isServed(value: unknown): boolean {
  return (
    Array.isArray(value) || (isObject(value) && typeof (value as Partial<ServedSession>).run === 'function')
  );
}

/** Reads a session's metadata once: what a session says later goes unheard. */
export function readModel(option: string, name: string, value: unknown): Model {
  const isSession = isServed(value);
  const given = isSession
    ? { ...MODEL_DEFAULTS, session: value }
    : readProperties(option, value, MODEL_DEFAULTS);
  const sessions = readSessions(isSession ? option : `${option}.session`, given.session);
  const [session] = sessions as [ServedSession];
  const inputs = readSpecs(`${option}'s inputMetadata`, session.inputMetadata);
  const outputs = readSpecs(`${option}'s outputMetadata`, session.outputMetadata);
  const version = checkName(`${option}.version`, given.version);
  const maxBatch = readMaxBatch(`${option}.maxBatch`, given.maxBatch, [...inputs, ...outputs]);
  const gpuShare = checkPositive(`${option}.gpuShare`, given.gpuShare);
  const needsProof = given.maxBatch === undefined;
  // Nobody else's session can prove anything.
  const canJoin = !needsProof || typeof session.canJoin === 'function';
  const served = { name, version, inputs, outputs, maxBatch: canJoin ? maxBatch : 1, needsProof };
  const images = sessions.map((one) => readImages(`${option}.image`, given.image, one));
  const replicas = sessions.map((one, index) => ({
    session: one,
    imageSession: images[index]!.imageSession,
    gpu: one.device === 'cpu' ? undefined : one.device,
  }));
  return { ...served, replicas, gpuShare, image: images[0]!.image };
}

/** All of them take and give the same. */
function readSessions(name: string, value: unknown): ServedSession[] {
  if (!Array.isArray(value)) return [checkSession(name, value)];
  const sessions = Array.from(value, (one: unknown, index) => checkSession(`${name}[${index}]`, one));
  if (sessions.length === 0) throw mismatch(name, 'an InferenceSession, or several', value);
  const valuesOf = ({ inputMetadata, outputMetadata }: ServedSession) =>
    JSON.stringify([inputMetadata, outputMetadata]);
  const other = sessions.findIndex((one) => valuesOf(one) !== valuesOf(sessions[0]!));
  if (other > 0) throw invalid(`${name}[${other}] has other inputs or outputs than ${name}[0]`);
  return sessions;
}

/** What `make` gives, where complaints about its options are about those of that name. */
function named<T>(name: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    const { code, message } = error as Partial<WarpconvError>;
    if (code !== 'ERR_WARPCONV_INVALID_ARGUMENT') throw error;
    throw invalid(message!.replace(/^options/, name));
  }
}

const RESIZES = ['cover', 'fill'] as const;
/** Of the shorter side: what libvips holds of an image stays within a hundred megabytes. */
const SIDE = { min: 1, max: 4096 } as const;

function readImages(
  name: string,
  value: unknown,
  session: ServedSession,
): Pick<Model, 'image'> & Pick<Replica, 'imageSession'> {
  if (value === undefined) return { image: undefined, imageSession: undefined };
  if (typeof session.forImages !== 'function') throw invalid(`${name} needs an InferenceSession of warpconv`);
  const { resize: given, ...options } = readProperties(name, value, { ...IMAGE_DEFAULTS, resize: 'cover' });
  const resize =
    typeof given === 'number'
      ? checkInteger(`${name}.resize`, given, SIDE)
      : checkOneOf(`${name}.resize`, given, RESIZES);
  const imageSession = named(name, () => session.forImages!(options as ImageOptions));
  const index = imageSession.inputMetadata.findIndex(
    ({ type }, place) => type !== session.inputMetadata[place]!.type,
  );
  const spec = readSpecs(name, imageSession.inputMetadata)[index]!;
  const layout = options.layout as ImageSpec['layout'];
  const extents = layout === 'NHWC' ? spec.dims.slice(1, 3) : spec.dims.slice(2);
  const longer = extents.find((extent) => typeof extent === 'number' && extent > Number(resize));
  if (longer === undefined) return { image: { spec, resize, layout }, imageSession };
  throw invalid(`${name}.resize is ${resize}, and '${spec.name}' needs ${longer} pixels on a side`);
}

function checkSession(name: string, value: unknown): ServedSession {
  if (isObject(value) && typeof (value as Partial<ServedSession>).run === 'function') {
    return value as ServedSession;
  }
  throw mismatch(name, 'an InferenceSession', value);
}

function checkPositive(name: string, value: unknown): number {
  const number = checkNumber(name, value);
  if (number > 0 && Number.isFinite(number)) return number;
  throw mismatch(name, 'a number above 0', value);
}

function readSpecs(name: string, metadata: unknown): ValueSpec[] {
  if (!Array.isArray(metadata)) throw mismatch(name, 'a list', metadata);
  // Array.from also finds what is missing in between.
  const specs = Array.from(metadata, (entry: unknown, index) => readSpec(`${name}[${index}]`, entry));
  const names = specs.map((spec) => spec.name);
  const twice = names.findIndex((one, index) => names.indexOf(one) < index);
  if (twice >= 0) throw invalid(`${name}[${twice}].name is '${names[twice]}', which one before it has too`);
  return specs;
}

function readSpec(at: string, value: unknown): ValueSpec {
  if (!isObject(value)) throw mismatch(at, 'the metadata of an input or output', value);
  const { name, isTensor, type, shape } = value as ServedValueMetadata;
  const datatype = isTensor ? datatypeOf(type) : undefined;
  if (datatype === undefined) {
    throw new WarpconvError(
      'ERR_WARPCONV_UNSUPPORTED',
      `${at}: '${name}' is ${isTensor ? `a tensor of type ${describe(type)}` : 'not a tensor'}; ` +
        'only tensors of numbers and booleans are served',
    );
  }
  if (!Array.isArray(shape)) throw mismatch(`${at}.shape`, 'a list of extents', shape);
  const dims = Array.from(shape, (extent, axis) => readExtent(`${at}.shape[${axis}]`, extent));
  return { name: checkName(`${at}.name`, name), datatype, dims };
}

function readExtent(at: string, value: unknown): number | string {
  if (typeof value === 'string') return value;
  if (Number.isSafeInteger(value)) return (value as number) < 1 ? '' : (value as number);
  throw mismatch(at, 'an integer or a name', value);
}

function readMaxBatch(name: string, value: unknown, specs: readonly ValueSpec[]): number {
  const firsts = specs.map(({ dims }) => dims[0]);
  const crossing = findCrossing(specs);
  if (value === undefined) {
    const first = firsts[0];
    const named = typeof first === 'string' && first !== '' && firsts.every((other) => other === first);
    return named && crossing === undefined ? DEFAULT_MAX_BATCH : 1;
  }
  const rows = checkInteger(name, value, { min: 1, max: Number.MAX_SAFE_INTEGER });
  if (rows === 1) return rows;
  const refuse = (why: string) =>
    invalid(`${name} must be 1, got ${rows}: ${why}, so requests cannot be joined`);
  const fixed = specs.find(({ dims }) => typeof dims[0] !== 'string');
  if (fixed !== undefined) {
    const has =
      fixed.dims.length === 0 ? 'no dimensions' : `${plural(fixed.dims[0] as number, 'row')}, always`;
    throw refuse(`'${fixed.name}' has ${has}`);
  }
  if (crossing !== undefined) throw refuse(crossing);
  return rows;
}

/** Where an extent is that grows with the rows, beyond dimension 0: what is there depends on all the rows of a run. */
function findCrossing(specs: readonly ValueSpec[]): string | undefined {
  const firsts = new Set(specs.map(({ dims }) => dims[0]));
  for (const { name, dims } of specs) {
    const axis = dims.findIndex(
      (extent, at) => at > 0 && typeof extent === 'string' && extent !== '' && firsts.has(extent),
    );
    if (axis > 0) return `dimension ${axis} of '${name}' is '${dims[axis]}', as the rows are`;
  }
  return undefined;
}
