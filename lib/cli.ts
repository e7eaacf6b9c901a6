#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

// Not through ./index, which throws where the binary does not load: that is what the doctor is for.
import { examine, format, isHealthy } from './doctor';
import { PACKAGE_ROOT } from './load';

const USAGE = `usage: warpconv doctor [--json]

  doctor       print what was found on this machine, and the remedy for what was not;
               exits with 0 when convolutions run
  --json       print the findings as JSON
  --help       print this
  --version    print the version of the package
`;

function version(): string {
  const manifest = JSON.parse(readFileSync(path.join(PACKAGE_ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}

function doctor(json: boolean): number {
  const findings = examine();
  const healthy = isHealthy(findings);
  const host = {
    warpconv: version(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
  };
  const report = json
    ? JSON.stringify({ ...host, healthy, findings }, null, 2)
    : `warpconv ${host.warpconv}, Node.js ${host.node}, ${host.platform}\n${format(findings)}`;
  process.stdout.write(`${report}\n`);
  return healthy ? 0 : 1;
}

function misuse(complaint: string): number {
  process.stderr.write(`warpconv: ${complaint}\n${USAGE}`);
  return 2;
}

function main(args: string[]): number {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { json: { type: 'boolean' }, help: { type: 'boolean' }, version: { type: 'boolean' } },
  });
  if (values.help) return print(USAGE);
  if (values.version) return print(`${version()}\n`);
  const [command, ...rest] = positionals;
  if (command === undefined) return misuse('which command?');
  if (command !== 'doctor') return misuse(`there is no command '${command}'`);
  if (rest.length > 0) return misuse(`doctor takes no argument, got '${rest[0]}'`);
  return doctor(values.json ?? false);
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

try {
  process.exitCode = main(process.argv.slice(2));
} catch (error) {
  // parseArgs' complaints about options; anything else is a defect and keeps its stack.
  if (!String((error as { code?: unknown }).code).startsWith('ERR_PARSE_ARGS')) throw error;
  process.exitCode = misuse((error as Error).message);
}
