/**
 * A process of clients.ts: connections that each send the next request as soon as the one before is answered. On node:net,
 * because an HTTP client takes more time than the servers that are measured. Plain JavaScript, because the TypeScript
 * compiler's heap would hold up the event loop.
 */
import net from 'node:net';

import { AnswerCheck } from './answer_check.mjs';
import { LatencyCounts } from './latency_counts.mjs';
import { ResponseParser } from './response_parser.mjs';

/** Before a server that takes no connection is tried again */
const RETRY_MS = 100;
const TIMEOUT_MS = 60_000;

/** All connections read into it. What one reads is parsed at once, and copied where more has to come. */
const buffer = Buffer.allocUnsafe(2 ** 20);

let latencies, target, requests, connections;
let begun, cpuBefore;
const statuses = {};
let connectionErrors = 0;
let wrong = 0;
/** In the first wrong answer */
let worst;

/** Ends the process; the parent is told why. */
function fail({ message }) {
  process.send({ failure: message }, () => process.exit(1));
}

class Connection {
  #socket;
  #parser;
  #request;
  #connected = false;
  #sent = Infinity;

  /** @param {number} first - the request to begin with */
  constructor(first) {
    this.#request = first;
  }

  open() {
    const onread = { buffer, callback: (length) => this.#read(length) };
    const socket = net.connect({ ...target, noDelay: true, onread });
    socket.on('connect', () => {
      this.#connected = true;
      this.#send();
    });
    // 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (socket === this.#socket) this.#lost();
    });
    this.#socket = socket;
    this.#parser = new ResponseParser();
    this.#connected = false;
    this.#sent = Infinity;
  }

  /** Gives up a request that has waited too long. */
  check(now) {
    if (now - this.#sent > TIMEOUT_MS) this.#socket.destroy();
  }

  #send() {
    this.#sent = performance.now();
    this.#socket.write(requests[this.#request].bytes);
  }

  /** An error: on every connection that was made a request is on the way, and an announced end is none of these. */
  #lost() {
    connectionErrors++;
    if (this.#connected) this.open();
    else setTimeout(() => this.open(), RETRY_MS);
  }

  #read(length) {
    try {
      const answer = this.#parser.push(buffer.subarray(0, length));
      if (answer !== undefined) this.#take(answer);
    } catch (error) {
      fail(error);
      return false;
    }
    return true;
  }

  #take({ status, closes, skipped, body }) {
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (status === 200) {
      latencies.add(performance.now() - this.#sent);
      check(requests[this.#request], body.subarray(skipped));
    }
    this.#request = (this.#request + 1) % requests.length;
    if (closes) {
      this.#socket.destroy();
      this.open();
    } else this.#send();
  }
}

function check({ answers }, bytes) {
  const wrongBy = answers.wrongBy(bytes);
  if (wrongBy === undefined) return;
  wrong++;
  worst ??= wrongBy;
}

/** What the parent may ask */
const tasks = {
  prepare({ scale, host, port, firsts, requests: given }) {
    latencies = new LatencyCounts(scale);
    target = { host, port };
    requests = given.map(({ bytes, ...request }) => ({ bytes, answers: new AnswerCheck(request) }));
    connections = firsts.map((first) => new Connection(first));
    return {};
  },
  begin() {
    begun = performance.now();
    cpuBefore = process.cpuUsage();
    for (const connection of connections) connection.open();
    setInterval(() => connections.forEach((connection) => connection.check(performance.now())), 1000);
    return {};
  },
  measured() {
    const seconds = (performance.now() - begun) / 1000;
    const { user, system } = process.cpuUsage(cpuBefore);
    const cpuSeconds = (user + system) / 1e6;
    return { seconds, cpuSeconds, counts: latencies.counts, statuses, connectionErrors, wrong, worst };
  },
};

process.on('message', ({ task, ...details }) => process.send(tasks[task](details)));
process.on('disconnect', () => process.exit());
