import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { buildDomainXml, domainFromXml, domainStatus } from '../../../src/launcher/domain/index.ts';
import { goldenCases } from '../../unit/launcher/domain/cases.ts';
import { withPrivateLibvirt } from './private-libvirt.ts';

test('a real libvirt validates, accepts and gives back every kept document', () => {
  withPrivateLibvirt(({ dir, virsh }) => {
    const commands = goldenCases.flatMap(({ name, vmi, context }) => {
      const uid = randomUUID();
      const renamed = structuredClone(vmi);
      renamed.metadata.name = name;
      renamed.metadata.uid = uid;
      if (renamed.spec.domain.firmware?.uuid) renamed.spec.domain.firmware.uuid = uid;
      const file = path.join(dir, `${name}.xml`);
      writeFileSync(file, buildDomainXml(renamed, context));
      return [`define --validate ${file}`, `dumpxml default_${name}`];
    });
    const { status, output } = virsh(commands.join('; '));
    assert.equal(status, 0, output);
    const documents = output.match(/<domain [\s\S]*?<\/domain>/g) ?? [];
    assert.equal(documents.length, goldenCases.length, output);
    for (const [index, { name, vmi }] of goldenCases.entries()) {
      const metadata = {
        UID: '',
        GracePeriod: null,
        Migration: null,
        Backup: null,
        AccessCredential: null,
        MemoryDump: null,
      };
      const xml = documents[index] ?? '';
      const domain = domainFromXml({ namespace: 'default', name, xml, state: domainStatus(5, 0), metadata });
      assert.equal(domain.Spec.Name, `default_${name}`);
      assert.match(domain.Spec.OS.Type.Machine, /^pc-q35-/);
      assert.deepEqual(domain.Spec.Devices.Channels?.[0]?.Target?.Name, 'org.qemu.guest_agent.0');
      const wanted = (vmi.spec.domain.devices?.disks ?? []).map((disk) => disk.name);
      const aliases = (domain.Spec.Devices.Disks ?? []).map((disk) => disk.Alias?.Name);
      assert.deepEqual(
        wanted.filter((disk) => !aliases.includes(disk)),
        [],
      );
    }
  });
});
