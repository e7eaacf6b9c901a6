/**
 * Node.js's own timers, as they were when this was loaded. Test frameworks fake the global ones, and a server that waits
 * for a faked one waits for ever.
 */
import timers from 'node:timers';
import promises from 'node:timers/promises';

export const { setTimeout, setInterval, clearTimeout } = timers;

/** Resolves when the event loop has turned. */
export const nextTurn: () => Promise<void> = promises.setImmediate;

/** Resolves after so many milliseconds. */
export const wait: (milliseconds: number) => Promise<void> = promises.setTimeout;
