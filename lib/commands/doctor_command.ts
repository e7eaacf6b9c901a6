/** `npx warpconv doctor`: what was found on this machine. */
import { command } from './command';
import { examine, format, isHealthy } from './doctor';
import { packageVersion } from '../load';

export const doctorCommand = command({
  name: 'doctor',
  summary: 'print what was found on this machine, and the remedy for what was not',
  synopsis: 'doctor [--json]',
  help: `
Print what was found on this machine, and the remedy for what was not.
It exits with 0 when convolutions run.

  --json  print the findings as JSON
`,
  options: { json: { type: 'boolean' } },
  mostArguments: 0,
  run({ json = false }) {
    const findings = examine();
    const healthy = isHealthy(findings);
    const host = {
      warpconv: packageVersion(),
      node: process.version,
      platform: `${process.platform}-${process.arch}`,
    };
    const report = json
      ? JSON.stringify({ ...host, healthy, findings }, null, 2)
      : `warpconv ${host.warpconv}, Node.js ${host.node}, ${host.platform}\n${format(findings)}`;
    process.stdout.write(`${report}\n`);
    return healthy ? 0 : 1;
  },
});
