/** What the load tool consists of, without a server. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

import { GpuBusy } from '../../bench/serve/load/gpu_busy';
import { addCounts, quantileOf, SCALE } from '../../bench/serve/load/latencies';
import { forRival, REQUEST_KINDS, type Target } from '../../bench/serve/load/request_kinds';
import { quantile } from '../../bench/statistics';
import { Random } from '../support/random';

const FOLDER = pathToFileURL(path.join(__dirname, '../../bench/serve/load')).href;

/** What a script makes of its input, in a process of its own: Jest does not load ES modules. */
function evaluate<T>(script: string, input: unknown): T {
  const code = `import { readFileSync } from 'node:fs';\n${script}
    console.log(JSON.stringify(task(JSON.parse(readFileSync(0, 'utf8')))));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', code], {
    input: JSON.stringify(input),
    encoding: 'utf8',
  });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as T;
}

interface Parsed {
  readonly status: number;
  readonly skipped: number;
  readonly closes: boolean;
  readonly body: string;
}

describe('the parser of responses', () => {
  /** The answers in chunks of one connection, or why they are refused. */
  const parse = (connections: readonly (readonly string[])[]) =>
    evaluate<(readonly Parsed[] | string)[]>(
      `import { ResponseParser } from '${FOLDER}/response_parser.mjs';
      const shown = (answer) => answer && { ...answer, body: answer.body.toString('latin1') };
      const answersOf = (chunks) => {
        const parser = new ResponseParser();
        const buffer = Buffer.alloc(2 ** 16);
        try {
          return chunks
            .map((chunk) => shown(parser.push(buffer.subarray(0, buffer.write(chunk, 'latin1')))))
            .filter((answer) => answer !== undefined);
        } catch ({ message }) {
          return message;
        }
      };
      const task = (connections) => connections.map(answersOf);`,
      connections,
    );
  const JSON_HEAD = '{"outputs":[]}';
  const FIRST = `HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: 14\r\nContent-Length: 18\r\n\r\n${JSON_HEAD}\r\n\r\n`;
  const SECOND = 'HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';

  it('takes them split at any byte', () => {
    const splits = Array.from({ length: FIRST.length - 1 }, (_, index) => [
      FIRST.slice(0, index + 1),
      FIRST.slice(index + 1),
      SECOND,
    ]);
    const expected = [
      { status: 200, length: 18, skipped: 14, closes: false, body: `${JSON_HEAD}\r\n\r\n` },
      { status: 503, length: 0, skipped: 0, closes: true, body: '' },
    ];
    for (const answers of parse(splits)) expect(answers).toEqual(expected);
    expect(parse([[...FIRST, ...SECOND]])).toEqual([expected]);
  });

  it('refuses what it does not read', () => {
    const head = 'HTTP/1.1 200 OK\r\n';
    expect(
      parse([
        [`${head}Transfer-Encoding: chunked\r\n\r\n`],
        [`${head}Date: now\r\n\r\n`],
        ['SSH-2.0-OpenSSH\r\n\r\n'],
        [`${FIRST}x`],
        [head + 'x'.repeat(2 ** 15)],
      ]),
    ).toEqual([
      'a chunked answer; only a Content-Length is read',
      'an answer of status 200 without Content-Length',
      "'SSH-2.0-OpenSSH' begins no answer of HTTP/1.1",
      '1 bytes behind an answer',
      'a head of over 16384 bytes',
    ]);
  });
});

describe('the check of answers', () => {
  const wrongBy = (expected: readonly number[], answers: readonly (readonly number[])[]) =>
    evaluate<string[]>(
      `import { AnswerCheck } from '${FOLDER}/answer_check.mjs';
      const task = ({ expected, answers }) => {
        const check = new AnswerCheck({ expected: Float32Array.from(expected), tolerance: 1e-3 });
        return answers.map((answer) => String(check.wrongBy(Buffer.from(Float32Array.from(answer).buffer))));
      };`,
      { expected, answers },
    );

  it('is relative to the largest magnitude', () => {
    const answers = [
      [1, -8],
      [1, -8],
      [1.005, -8],
      [1.25, -8],
      [1, -8],
    ];
    expect(wrongBy([1, -8], answers)).toEqual([...Array(3).fill('undefined'), '0.03125', 'undefined']);
  });

  it('takes no other length and nothing but numbers', () => {
    // JSON has no NaN; null becomes 0 in an array of numbers, and a text becomes NaN.
    const notNumber = 'x' as unknown as number;
    expect(wrongBy([1, 2], [[1], [], [1, 2, 3], [1, notNumber]])).toEqual([
      ...Array(3).fill('Infinity'),
      'NaN',
    ]);
    expect(
      wrongBy(
        [0, 0],
        [
          [0, 0],
          [0, 1],
        ],
      ),
    ).toEqual(['undefined', '1']);
  });
});

describe('latencies', () => {
  const counted = (milliseconds: readonly number[]) =>
    Float64Array.from(
      evaluate<number[]>(
        `import { LatencyCounts } from '${FOLDER}/latency_counts.mjs';
        const task = ({ scale, milliseconds }) => {
          const counts = new LatencyCounts(scale);
          for (const one of milliseconds) counts.add(one);
          return [...counts.counts];
        };`,
        { scale: SCALE, milliseconds },
      ),
    );

  it('have quantiles within a percent', () => {
    const random = new Random(1);
    const latencies = Array.from({ length: 5000 }, () => 0.02 * 1e6 ** random.uniform());
    const counts = addCounts([counted(latencies.slice(0, 2000)), counted(latencies.slice(2000))]);
    for (const part of [0, 0.01, 0.5, 0.99, 1]) {
      const exact = quantile(latencies, part);
      expect(Math.abs(quantileOf(counts, part) / exact - 1)).toBeLessThan(0.01);
    }
  });

  it('beyond the scale are in its first and last bucket', () => {
    const counts = counted([0, 1e9]);
    expect([counts[0], counts.at(-1)]).toEqual([1, 1]);
    expect(quantileOf(addCounts([]), 0.5)).toBeNaN();
  });
});

describe('requests', () => {
  const target: Target = {
    input: { name: 'x', isTensor: true, type: 'float32', shape: ['N', 1, 2, 3] },
    output: 'y',
  };

  it('have elements that the seed decides, behind their JSON', async () => {
    const [request, again, other] = await Promise.all(
      [1, 1, 2].map(async (seed) => REQUEST_KINDS.float32!(target, seed)),
    );
    expect(again).toEqual(request);
    expect(other!.elements).not.toEqual(request!.elements);
    const { headers, body, elements } = request!;
    const skipped = Number(headers['Inference-Header-Content-Length']);
    expect(JSON.parse(body.subarray(0, skipped).toString())).toEqual({
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1, 2, 3], parameters: { binary_data_size: 24 } }],
      outputs: [{ name: 'y', parameters: { binary_data: true } }],
    });
    expect(body.subarray(skipped)).toEqual(forRival(request!).body);
    expect(elements).toHaveLength(6);
  });
});

describe('requests of images', () => {
  const target: Target = {
    input: { name: 'x', isTensor: true, type: 'float32', shape: ['N', 3, 5, 4] },
    output: 'y',
  };

  it('have bytes in rows of pixels, which are normalised in planes', async () => {
    const { headers, body, elements } = await REQUEST_KINDS.uint8!(target, 1);
    const bytes = body.subarray(Number(headers['Inference-Header-Content-Length']));
    expect([bytes.length, elements.length]).toEqual([60, 60]);
    const green = 7 * 3 + 1;
    expect(elements[20 + 7]).toBeCloseTo((bytes[green]! / 255 - 0.456) / 0.224, 5);
  });

  it('are a file', async () => {
    const { headers, body, elements } = await REQUEST_KINDS.jpeg!(target, 1);
    expect([headers['Content-Type'], body.readUInt16BE(0), elements.length]).toEqual([
      'image/jpeg',
      0xffd8,
      60,
    ]);
  });
});

describe('how busy the GPUs are', () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(path.join(os.tmpdir(), 'warpconv-test-'))));
  afterEach(() => rmSync(folder, { recursive: true }));

  it('is the mean of the samples of all of them', async () => {
    const tool = path.join(folder, 'nvidia-smi');
    writeFileSync(tool, "#!/bin/sh\nprintf '100\\n50\\n[N/A]\\n0\\n50\\n'\nexec sleep 60\n");
    chmodSync(tool, 0o755);
    const gpu = new GpuBusy(tool);
    let mean: number | undefined;
    try {
      while ((mean = gpu.mean()) === undefined) await setTimeout(10);
    } finally {
      gpu.stop();
    }
    expect(mean).toBe(0.5);
    expect(gpu.mean()).toBeUndefined();
  });

  it('is not known without nvidia-smi', async () => {
    const gpu = new GpuBusy(path.join(folder, 'nvidia-smi'));
    await setTimeout(50);
    expect(gpu.mean()).toBeUndefined();
    gpu.stop();
  });
});
