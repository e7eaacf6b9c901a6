/** What algorithms, precisions and layouts are called. */

/** The algorithms of the package; which of them a device has, and a problem suits, {@link algorithms} tells. */
export type AlgorithmName =
  | 'direct'
  | 'shuffle'
  | 'pointwise'
  | 'im2win'
  | 'halo'
  | 'stem'
  | 'image'
  | 'implicit'
  | 'im2col'
  | 'sconv'
  | 'winograd'
  | 'depthwise';

/**
 * The least exact products that may be made: of float32, of its upper 19 bits, or of halves. Sums are float32, or more exact.
 * A device that has nothing faster computes more exactly: the CPU always multiplies float32.
 */
export type Precision = 'fp32' | 'tf32' | 'fp16' | 'bf16';

/** Maps one after the other, or the channels of a pixel next to each other. */
export type Layout = 'nchw' | 'nhwc';
