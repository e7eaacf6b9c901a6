/** A plain HTTP client: what is sent and what comes back, byte for byte. */
import http from 'node:http';
import net from 'node:net';

export interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | number>>;
  /** A list is sent in chunks, without a Content-Length. */
  readonly body?: string | Buffer | readonly (string | Buffer)[];
}

export interface Received {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

export function request(base: string, { method, path, headers = {}, body }: Sent): Promise<Received> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const verb = method ?? (body === undefined ? 'GET' : 'POST');
    const call = http.request({ hostname, port, path, method: verb, headers, agent: false }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(parts) }),
      );
    });
    call.on('error', reject);
    if (Array.isArray(body)) {
      call.flushHeaders();
      for (const part of body as string[]) call.write(part);
      call.end();
    } else {
      call.end(body as string | undefined);
    }
  });
}

export function json(received: Received): Record<string, unknown> {
  return JSON.parse(received.body.toString()) as Record<string, unknown>;
}

export function postJson(base: string, path: string, value: unknown): Promise<Received> {
  return request(base, {
    path,
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(value),
  });
}

/** The body of a request with binary tensors, and the headers that it needs. */
export function binaryRequest(
  head: object,
  ...tensors: readonly Uint8Array[]
): { headers: Record<string, string | number>; body: Buffer } {
  const text = Buffer.from(JSON.stringify(head));
  const body = Buffer.concat([text, ...tensors]);
  return {
    headers: { 'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': text.length },
    body,
  };
}

/** Splits a response with binary tensors. */
export function binaryResponse({ headers, body }: Received): { head: Record<string, unknown>; data: Buffer } {
  const length = Number(headers['inference-header-content-length']);
  const head = JSON.parse(body.subarray(0, length).toString()) as Record<string, unknown>;
  return { head, data: body.subarray(length) };
}

/** A connection on which bytes are written by hand. */
export class RawConnection {
  received = '';
  readonly closed: Promise<void>;

  private constructor(readonly socket: net.Socket) {
    socket.setEncoding('latin1').on('data', (text: string) => (this.received += text));
    socket.on('error', () => {});
    this.closed = new Promise((resolve) => socket.on('close', () => resolve()));
  }

  static async open(base: string): Promise<RawConnection> {
    const { hostname, port } = new URL(base);
    const socket = net.connect(Number(port), hostname);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new RawConnection(socket);
  }

  write(text: string): void {
    this.socket.write(text);
  }
}
