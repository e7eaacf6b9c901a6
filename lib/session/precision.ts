/** What stays float32 in a session of halves. */

/** @param tooLarge - the nodes of each convolution */
export function warnOfTooLarge(tooLarge: readonly (readonly string[])[]): void {
  const names = tooLarge.map(([node]) => `'${node}'`).join(', ');
  process.emitWarning(
    `filters beyond 65504, which float16 does not have, are computed in float32: ${names}; ` +
      "precision 'bf16' has them",
    { type: 'WarpconvWarning', code: 'WARPCONV_HALF_RANGE' },
  );
}
