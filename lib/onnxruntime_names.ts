/** What onnxruntime-common calls its types, for programs in TypeScript that have its names. */
import type { ExternalFile, SessionOptions } from './session/session_options';
import type { FromImageOptions, ToImageDataOptions } from './tensor/from_image';
import type { DataType, Location, Tensor } from './tensor/tensor';

/** A tensor of one type of elements. */
export type TypedTensor<T extends DataType> = Tensor<T>;
/** What goes in and comes out of a network. */
export type OnnxValue = Tensor;
/** Where its elements are. */
export type OnnxValueDataLocation = Location;
/** The options of a session that say where the model's data are. */
export type OnnxModelOptions = Pick<SessionOptions, 'externalData'>;

/** A path. */
export type FileUrlOrPath = string;
/** The bytes of a file. */
export type FileData = Uint8Array | ArrayBufferLike;
/** A file: its path, or its bytes. */
export type FileType = FileUrlOrPath | FileData;
/** A file that a model has data in. */
export type ExternalDataFileDescription = ExternalFile;
/** The same, or its path where that says all. */
export type ExternalDataFileType = ExternalDataFileDescription | FileUrlOrPath;

/** Where the channels of an image are. */
export type ImageTensorLayout = 'NHWC' | 'NCHW';
/** Of {@link Tensor.fromImage}. */
export type TensorFromImageDataOptions = FromImageOptions;
/** Of {@link Tensor.fromGpuBuffer}. */
export type TensorFromGpuBufferOptions<T extends DataType> = NonNullable<
  Parameters<typeof Tensor.fromGpuBuffer<T>>[1]
>;
/** Of {@link Tensor.toImageData}. */
export type TensorToImageDataOptions = ToImageDataOptions;
/** The class {@link Tensor}, for its static methods. */
export type TensorFactory = typeof Tensor;
/** The class {@link Tensor}, for its constructor. */
export type TensorConstructor = typeof Tensor;
