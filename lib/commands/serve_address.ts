/** Where `warpconv serve` listens, which pages may ask, and its log: by options, or as platforms set it, by variables. */
import type { ServeOptions } from '../serve';

export const ADDRESS_HELP = `
  --port N         the port; by default the variable PORT, or 8080; 0 for one that is free
  --host ADDRESS   where to listen; by default the variable HOST, or 127.0.0.1; 0.0.0.0 lets other machines in
  --cors ORIGIN    let pages of this origin ask, such as https://example.com, or of all by '*'; may be repeated
  --access-log     print a line of JSON for each request on stdout, and all else on stderr
`.trim();

export const ADDRESS_OPTIONS = {
  port: { type: 'string' },
  host: { type: 'string' },
  cors: { type: 'string', multiple: true },
  'access-log': { type: 'boolean' },
} as const;

export interface AddressArguments {
  readonly port?: string;
  readonly host?: string;
  readonly cors?: readonly string[];
  readonly 'access-log'?: boolean;
}

const PORT = /^\d{1,9}$/;
const MOST_PORT = 65_535;

/** Options of the server; a sentence where a variable has a wrong value. */
export function readAddress(
  { port, host, cors, 'access-log': accessLog }: AddressArguments,
  environment = process.env,
): Partial<ServeOptions> | string {
  // What is empty is as good as not set: that is how files of settings leave something out.
  const [PORT_SET, HOST_SET] = [environment.PORT || undefined, environment.HOST || undefined];
  if (port === undefined && PORT_SET !== undefined && !(PORT.test(PORT_SET) && Number(PORT_SET) <= MOST_PORT))
    return `the variable PORT must be a number from 0 to ${MOST_PORT}, got '${PORT_SET}'; --port goes before it`;
  const [at, where] = [port ?? PORT_SET, host ?? HOST_SET];
  return {
    ...(at !== undefined && { port: Number(at) }),
    ...(where !== undefined && { host: where }),
    ...(cors !== undefined && { cors: cors.includes('*') ? '*' : cors }),
    ...(accessLog !== undefined && { accessLog }),
  };
}

/** Says where a wrong address comes from, if it is from a variable. */
export function explainAddress(error: unknown, { port, host }: AddressArguments): unknown {
  const { syscall, code } = error as { syscall?: unknown; code?: unknown };
  if (!(error instanceof Error) || (syscall !== 'listen' && syscall !== 'getaddrinfo')) return error;
  const isOfPort = code === 'EADDRINUSE' || code === 'EACCES';
  const [name, option, given] = isOfPort ? ['PORT', '--port', port] : ['HOST', '--host', host];
  const value = process.env[name];
  if (given === undefined && value)
    error.message += `; the variable ${name} is '${value}', ${option} goes before it`;
  return error;
}
