import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { buildDomainXml, parseDomainXml } from '../../../src/launcher/domain/index.ts';
import { goldenCases } from '../../unit/launcher/domain/cases.ts';
import { privateLibvirt } from './private-libvirt.ts';

test('a real libvirt validates, accepts and gives back every kept document', (t) => {
  const { dir, virsh, remove } = privateLibvirt();
  t.after(remove);
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
    const spec = parseDomainXml(documents[index] ?? '');
    assert.equal(spec.Name, `default_${name}`);
    assert.match(spec.OS.Type.Machine, /^pc-q35-/);
    assert.equal(spec.Devices.Channels?.[0]?.Target?.Name, 'org.qemu.guest_agent.0');
    const wanted = (vmi.spec.domain.devices?.disks ?? []).map((disk) => disk.name);
    const aliases = (spec.Devices.Disks ?? []).map((disk) => disk.Alias?.Name);
    assert.deepEqual(aliases.slice(0, wanted.length).sort(), wanted.sort());
  }
});
