/** What algorithms and precisions are called. */

/** The algorithms of the package; which of them a device has, and a problem suits, {@link algorithms} tells. */
export type AlgorithmName =
  | 'direct'
  | 'shuffle'
  | 'pointwise'
  | 'im2win'
  | 'halo'
  | 'stem'
  | 'implicit'
  | 'im2col'
  | 'sconv'
  | 'winograd'
  | 'depthwise';

/** The numbers the arithmetic runs in. Today every device computes in `'fp32'`. */
export type Precision = 'fp32' | 'tf32' | 'fp16' | 'bf16';
