/** Requests that are sent before the one in front of them is answered, on one connection. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';

import { createHandler } from '../../lib/serve';
import { RawConnection } from './support/client';
import { doublingRequest, doublingSession } from './support/fake_session';
import { closeAll, open, openThreaded, until } from './support/serving';

afterEach(closeAll);

function sent(x: number): string {
  const body = JSON.stringify(doublingRequest([[x, -x]]));
  return `POST /v2/models/double/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

describe.each([
  ['one thread', open],
  ['two threads', openThreaded],
])('%s: requests of one connection', (_, start) => {
  test('are answered in their order', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    const connection = await RawConnection.open(url);
    connection.write(Array.from({ length: 50 }, (_, x) => sent(x)).join(''));
    const answers = () => [...connection.received.matchAll(/"name":"y"[^}]*"data":\[(\d+),/g)];
    await until(() => answers().length === 50);
    expect(answers().map(([, first]) => Number(first))).toEqual(Array.from({ length: 50 }, (_, x) => 2 * x));
    expect(connection.received.match(/HTTP\/1\.1 200 /g)).toHaveLength(50);
    connection.socket.destroy();
  });

  test('fail each by itself', async () => {
    const { url } = await start({ models: { double: doublingSession() } });
    const connection = await RawConnection.open(url);
    const bad = 'POST /v2/models/double/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{';
    connection.write(sent(1) + bad + 'GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n' + sent(2));
    const statuses = () =>
      [...connection.received.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status);
    await until(() => statuses().length === 4);
    expect(statuses()).toEqual(['200', '400', '404', '200']);
    connection.socket.destroy();
  });
});

/** Sends three requests, leaves, and waits for longer than the server has patience. */
async function leaveBehind(): Promise<{ metrics: string; isDrained: boolean }> {
  const session = doublingSession();
  const handler = createHandler({ models: { double: session }, timeout: 500 });
  const server = createServer(handler).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  session.hold();
  const connection = await RawConnection.open(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  connection.write(sent(1) + sent(2) + sent(3));
  await until(() => handler.metrics().includes('requests_in_flight 3\n'));
  connection.socket.destroy();
  await until(() => handler.metrics().includes('status="499"} 3\n'));
  session.open();
  await setTimeout(1500);
  const metrics = handler.metrics();
  const isDrained = await Promise.race([handler.drain().then(() => true), setTimeout(2000, false)]);
  handler.close();
  server.close();
  return { metrics, isDrained };
}

// Node.js tells only of the response whose turn it is that its client has gone.
describe('requests whose connection has gone before their turn', () => {
  test('are forgotten', async () => {
    const { metrics } = await leaveBehind();
    expect(metrics).toContain('requests_in_flight 0\n');
    expect(metrics).toContain('held_bytes 0\n');
  });

  test('do not keep the server from closing', async () => {
    expect((await leaveBehind()).isDrained).toBe(true);
  });
});
