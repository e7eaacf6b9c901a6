/** A registry that has this package as it would be published, and passes everything else on. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';

import { ROOT } from '../../scripts/root.mjs';
import { packageName, TARGETS } from '../../scripts/targets.mjs';

const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));

/** Makes the tarballs, those of the other platforms with a file that loads nowhere. @returns {string[]} */
function makeTarballs(folder, target, binary) {
  const out = path.join(folder, 'packages');
  const script = path.join(ROOT, 'scripts/packages.mjs');
  execFileSync(process.execPath, [script, '--out', out, '--allow-no-cuda', `${target}=${binary}`]);
  const own = ['warpconv', `warpconv-${target}`].map((name) => path.join(out, `${name}-${version}.tgz`));
  const others = Object.keys(TARGETS).filter((other) => other !== target);
  return [...own, ...others.map((other) => makeOther(folder, other))];
}

function makeOther(folder, target) {
  const { os, cpu, libc } = TARGETS[target];
  const content = path.join(folder, 'others', target, 'package');
  mkdirSync(content, { recursive: true });
  const manifest = { name: packageName(target), version, main: 'warpconv.node', os: [os], cpu: [cpu] };
  writeFileSync(
    path.join(content, 'package.json'),
    JSON.stringify({ ...manifest, ...(libc && { libc: [libc] }) }),
  );
  writeFileSync(path.join(content, 'warpconv.node'), `for ${target}`);
  const tarball = path.join(folder, 'others', `${target}.tgz`);
  execFileSync('tar', ['czf', tarball, '-C', path.dirname(content), 'package']);
  return tarball;
}

/** What a registry says of a package that has one version. */
function describe(tarball, url) {
  const manifest = JSON.parse(
    execFileSync('tar', ['xzfO', tarball, 'package/package.json'], { encoding: 'utf8' }),
  );
  const bytes = readFileSync(tarball);
  const digest = (algorithm, encoding) => createHash(algorithm).update(bytes).digest(encoding);
  const file = `/-tarballs/${path.basename(tarball)}`;
  const dist = { tarball: url + file, shasum: digest('sha1', 'hex') };
  dist.integrity = `sha512-${digest('sha512', 'base64')}`;
  const { name } = manifest;
  const latest = { ...manifest, dist };
  const packument = { name, 'dist-tags': { latest: version }, versions: { [version]: latest } };
  return { name, packument, latest, file, bytes };
}

async function passOn(upstream, request, response) {
  const answer = await fetch(new URL(request.url, upstream), {
    headers: { accept: request.headers.accept ?? '*/*' },
  });
  response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
  response.end(Buffer.from(await answer.arrayBuffer()));
}

/** @returns {Promise<{ url: string, close: () => void }>} */
export async function startRegistry(folder, target, binary) {
  const upstream = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  const answers = new Map();
  const server = createServer((request, response) => {
    const answer = answers.get(decodeURIComponent(request.url));
    if (answer !== undefined) response.end(answer);
    else passOn(upstream, request, response).catch((error) => response.writeHead(502).end(String(error)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${server.address().port}`;
  for (const tarball of makeTarballs(folder, target, binary)) {
    const { name, packument, latest, file, bytes } = describe(tarball, url);
    answers.set(`/${name}`, JSON.stringify(packument)).set(`/${name}/latest`, JSON.stringify(latest));
    answers.set(file, bytes);
  }
  return { url, close: () => server.close() };
}
