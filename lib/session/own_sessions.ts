/** The sessions of this package, which take more than they promise to strangers. */
const own = new WeakSet<object>();

export function noteOwnSession(session: object): void {
  own.add(session);
}

/** Whether `run` takes elements in memory that threads share, and a signal that is no whole AbortSignal. */
export function isOwnSession(session: object): boolean {
  return own.has(session);
}
