import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { dummyKind } from '../fixtures/pod-network.ts';
import type { NodeMachine } from './node-machine.ts';

const program = '/var/lib/stand-in/ip';

/** Found before the image's own `ip`. */
const inContainer = '/usr/local/sbin/ip';

const standIn = (kind: string) => `#!/usr/bin/node
const { spawnSync } = require('node:child_process');
const { existsSync, readFileSync } = require('node:fs');
const real = ['/usr/sbin/ip', '/sbin/ip', '/usr/bin/ip', '/bin/ip'].find(existsSync);
const input = readFileSync(0, 'utf8').replace(/ type dummy$/gm, ' type ${kind}');
const { status, stdout, stderr } = spawnSync(real, process.argv.slice(2), { input, encoding: 'utf8' });
process.stdout.write(stdout.replaceAll('"info_kind":"${kind}"', '"info_kind":"dummy"'));
process.stderr.write(stderr);
process.exitCode = status ?? 1;
`;

/**
 * Each node of a real cluster has links of type `dummy`, which a bridge needs. Where this kernel has none, the agent's `ip` makes and shows
 * another kind that is quiet, too: all else is the agent's own.
 */
export function provideDummyLinks(machine: NodeMachine): void {
  if (dummyKind === 'dummy' || dummyKind === undefined) return;
  mkdirSync(path.dirname(program), { recursive: true });
  writeFileSync(program, standIn(dummyKind), { mode: 0o755 });
  const volumes = [{ name: 'stand-in', hostPath: { path: program, type: 'File' } }];
  const volumeMounts = [{ name: 'stand-in', mountPath: inContainer, readOnly: true }];
  const spec = { containers: [{ name: 'virt-handler', volumeMounts }], volumes };
  const patch = JSON.stringify({ spec: { template: { spec } } });
  machine.api.kubectl('-n', 'kubevirt', 'patch', 'daemonset', 'virt-handler', '-p', patch);
  machine.api.kubectl('-n', 'kubevirt', 'rollout', 'status', 'daemonset/virt-handler', '--timeout=120s');
}
