/** What services have in common, whatever their framework. */

/** HTTP statuses of errors, by their codes. */
const STATUSES = {
  // Dims, types or names that do not fit the model
  ERR_WARPCONV_INVALID_ARGUMENT: 400,
  ERR_PICTURE: 415,
  // The client has gone. Only the log gets this.
  ERR_WARPCONV_ABORTED: 499,
  // Later, or elsewhere: memory comes back, and another instance takes over from one that shuts down.
  ERR_WARPCONV_OUT_OF_MEMORY: 503,
  ERR_WARPCONV_DISPOSED: 503,
};

/** Errors of web frameworks bring their status. */
export const statusOf = (error) => error.statusCode ?? STATUSES[error.code] ?? 500;

export const refusal = (statusCode, message) => Object.assign(new Error(message), { statusCode });

/** Ends a program that cannot start. */
export function stop(error) {
  console.error(error.message);
  process.exit(1);
}
