import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { errorMessage } from '../../../src/base/index.ts';
import { buildDomainXml, parseDomainXml } from '../../../src/launcher/domain/index.ts';
import { inOurWords } from '../../../src/launcher/lifecycle/start-failure.ts';
import { LibvirtError } from '../../../src/libvirt/index.ts';
import { contextWith, goldenCases, lean, vmiWith } from '../../unit/launcher/domain/cases.ts';
import { privateLibvirt } from './private-libvirt.ts';

/** Root ports that no device sits on. */
function freeRootPorts(xml: string): number {
  const buses = new Set([...xml.matchAll(/<address type='pci' domain='0x0000' bus='0x(\w\w)'/g)].map(([, bus]) => bus));
  const ports = [...xml.matchAll(/index='(\d+)' model='pcie-root-port'/g)].map(([, index]) => Number(index));
  return ports.filter((index) => !buses.has(index.toString(16).padStart(2, '0'))).length;
}

/** QEMU is here for PCs alone, no processor that encrypts memory, and no libvirt of today. */
const ofThisMachine = goldenCases.filter(
  ({ vmi, context }) =>
    context.architecture === 'amd64' && !vmi.spec.domain.launchSecurity && context.libvirtVersion === undefined,
);
const ofOtherArchitectures = goldenCases.filter(({ context }) => context.architecture !== 'amd64');

for (const { name, vmi, context } of ofOtherArchitectures) {
  test(`libvirt's schema takes a kept document for another machine: ${name}`, (t) => {
    const { dir, virsh, remove } = privateLibvirt();
    t.after(remove);
    const define = (file: string, xml: string) => {
      writeFileSync(path.join(dir, file), xml);
      return virsh(`define --validate ${path.join(dir, file)}`).output;
    };
    const xml = buildDomainXml(vmi, context);
    // It is validated first; then there is no QEMU for it here.
    assert.match(define('whole.xml', xml), /No emulator found for arch .(aarch64|s390x)./);
    const broken = xml.replace('<devices>', '<devices><nonsense/>');
    assert.match(define('broken.xml', broken), /failed to validate against schema/);
  });
}

test('a real libvirt refuses what this machine cannot encrypt, and that becomes words of the field', (t) => {
  const { dir, virsh, remove } = privateLibvirt();
  t.after(remove);
  const { vmi, context } = goldenCases.find(({ name }) => name === 'encrypted-sev') ?? assert.fail();
  const file = path.join(dir, 'sev.xml');
  writeFileSync(
    file,
    buildDomainXml(vmi, context)
      .replace('type="kvm"', 'type="qemu"')
      .replace(/mode="host-model"/, 'mode="maximum"'),
  );
  const { status, output } = virsh(`define --validate ${file}`);
  assert.notEqual(status, 0, output);
  const told = inOurWords(new LibvirtError('CONFIG_UNSUPPORTED', output), vmi);
  assert.match(
    errorMessage(told),
    /^spec\.domain\.launchSecurity\.sev: this node cannot start guests with SEV: it needs/,
    output,
  );
});

test('a real libvirt validates, accepts and gives back every kept document', (t) => {
  const { dir, virsh, remove } = privateLibvirt();
  t.after(remove);
  const commands = ofThisMachine.flatMap(({ name, vmi, context }) => {
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
  assert.equal(documents.length, ofThisMachine.length, output);
  for (const [index, { name, vmi }] of ofThisMachine.entries()) {
    const spec = parseDomainXml(documents[index] ?? '');
    assert.equal(spec.Name, `default_${name}`);
    assert.match(spec.OS.Type.Machine, /^pc-q35-/);
    assert.equal(spec.Devices.Channels?.[0]?.Target?.Name, 'org.qemu.guest_agent.0');
    const wanted = (vmi.spec.domain.devices?.disks ?? []).map((disk) => disk.name);
    const aliases = (spec.Devices.Disks ?? []).map((disk) => disk.Alias?.Name);
    assert.deepEqual(aliases.slice(0, wanted.length).sort(), wanted.sort());
  }
});

test('a guest has root ports left to plug devices into, more when it is large', (t) => {
  const { dir, virsh, remove } = privateLibvirt();
  t.after(remove);
  const cases = [
    { name: 'small', vmi: vmiWith({ devices: { rng: {} } }), free: 3 },
    { name: 'large', vmi: vmiWith({ memory: { guest: '3Gi' } }), free: 12 },
    {
      name: 'bare',
      vmi: vmiWith({ devices: { ...lean, disableHotplug: false, autoattachMemBalloon: false } }),
      free: 6,
    },
  ];
  const commands = cases.flatMap(({ name, vmi }) => {
    const file = path.join(dir, `${name}.xml`);
    writeFileSync(
      file,
      buildDomainXml({ ...vmi, metadata: { ...vmi.metadata, name, uid: randomUUID() } }, contextWith()),
    );
    return [`define --validate ${file}`, `dumpxml default_${name}`];
  });
  const { output } = virsh(commands.join('; '));
  const documents = output.match(/<domain [\s\S]*?<\/domain>/g) ?? [];
  assert.deepEqual(
    documents.map(freeRootPorts),
    cases.map(({ free }) => free),
    output,
  );
});
