/**
 * Signals that come before the server listens for them: `serve` ends by itself, as later. Loading models takes a while, and
 * Node.js as process 1 of a container would not hear them at all. cli.ts imports this before what takes its time.
 */
const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

const end = () => process.exit(0);

/** The server listens now. */
export function leaveSignals(): void {
  SIGNALS.forEach((signal) => process.off(signal, end));
}

if (process.argv.slice(2).find((arg) => !arg.startsWith('-')) === 'serve')
  SIGNALS.forEach((signal) => process.once(signal, end));
