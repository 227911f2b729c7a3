import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { PersistentVolumeClaim } from '../../../src/api/index.ts';
import { untilLogin } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { askTpm, tpmCommands } from '../../fixtures/guest-tpm.ts';
import { demoVmi, NodeProcess } from '../../fixtures/node-process.ts';

const needsRoot = process.getuid?.() === 0 ? false : 'pods need root';

/** How often firmware has begun with these variables: OVMF counts in its variable MTC, whose newest value is the largest. */
function starts(variables: Buffer): number {
  const name = Buffer.from('MTC\0', 'utf16le');
  let [count, at] = [-1, variables.indexOf(name)];
  for (; at >= 0; at = variables.indexOf(name, at + 1)) {
    const value = variables.readUInt32LE(at + name.length);
    if (value !== 0xffffffff) count = Math.max(count, value);
  }
  return count;
}

function machine(name: string): object {
  const { spec } = demoVmi(name);
  const firmware = { ...spec.domain.firmware, bootloader: { efi: { secureBoot: false, persistent: true } } };
  const devices = { ...spec.domain.devices, tpm: { persistent: true } };
  const domain = { ...spec.domain, memory: { guest: '256Mi' }, firmware, devices };
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name },
    spec: { runStrategy: 'Always', template: { spec: { ...spec, domain } } },
  };
}

describe('TPM and EFI variables that outlive a start', { skip: needsRoot }, () => {
  let node: NodeProcess;
  before(async () => {
    node = await NodeProcess.create();
    await node.start();
    await node.apply(machine('vault'));
  });
  after(() => node.dispose());

  async function untilUp(): Promise<void> {
    await node.vmiUntil('vault', (found) => found?.status?.phase === 'Running', 60_000);
    await untilLogin(await node.serial('vault'), AbortSignal.timeout(120_000));
    await node.cli(['console', 'vault'], 'root\n');
  }
  async function turn(runStrategy: 'Always' | 'Halted'): Promise<void> {
    await node.kubectl('patch', 'vm', 'vault', '--type=merge', '-p', JSON.stringify({ spec: { runStrategy } }));
    if (runStrategy === 'Always') await untilUp();
    else await node.vmiUntil('vault', (found) => found === undefined, 60_000);
  }
  const does = (what: keyof typeof tpmCommands) =>
    eventually(async () => {
      const [command, answer] = tpmCommands[what];
      const { stdout } = await node.cli(
        ['console', 'vault'],
        `
${askTpm(command)}
`,
      );
      assert.match(stdout, answer);
    }, 30_000);
  async function claims(): Promise<PersistentVolumeClaim[]> {
    const text = await node.kubectl('get', 'pvc', '-l', 'persistent-state-for=vault', '-o', 'json');
    return (JSON.parse(text) as { items: PersistentVolumeClaim[] }).items;
  }

  test('what the guest wrote into its TPM is there at the next start, firmware goes on with its variables, and both go with the VM', async () => {
    await untilUp();
    const [claim] = await claims();
    const { name, namespace, uid, ownerReferences } = claim?.metadata ?? {};
    assert.deepEqual([claim?.status?.phase, ownerReferences?.map(({ kind }) => kind)], ['Bound', ['VirtualMachine']]);
    const vmi = await node.vmi('vault');
    assert.deepEqual(vmi?.status?.volumeStatus, [
      {
        name: 'persistent-state-for-this-vm',
        target: '',
        persistentVolumeClaimInfo: { claimName: name, accessModes: ['ReadWriteOnce'] },
      },
    ]);
    await does('define');
    await does('write');
    await does('read');
    await turn('Halted');
    const kept = path.join(node.paths.claimsDir, `${namespace}_${name}_${uid}`);
    const variables = path.join(kept, 'nvram/vault_VARS.fd');
    const before = starts(await readFile(variables));
    assert.ok(before >= 0, `${before}`);
    await turn('Always');
    await does('read');
    await turn('Halted');
    assert.ok(starts(await readFile(variables)) > before);
    await node.kubectl('delete', 'vm', 'vault', '--timeout=60s');
    await eventually(async () => assert.deepEqual([await claims(), existsSync(kept)], [[], false]), 30_000);
  });
});
