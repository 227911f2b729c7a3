import assert from 'node:assert/strict';
import { test } from 'node:test';
import { movedDomainXml } from '../../../../src/launcher/domain/index.ts';

const uid = 'd08b65d5-5f42-4c6c-a5e5-45d1f4d7f0d5';
const from = { uid, namespace: 'default', name: 'demo' };
const to = { uid: '0c7ad33b-0f1f-4c34-9a2e-2b3b5d9a8f10', namespace: 'there', name: 'copy' };

const xml = `<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>default_demo</name><uuid>${uid}</uuid>
  <metadata><kubevirt xmlns='http://kubevirt.io'><uid>${uid}</uid></kubevirt></metadata>
  <os><nvram template='/usr/share/VARS.fd'>/nvram/demo_VARS.fd</nvram></os>
  <sysinfo type='smbios'><system><entry name='uuid'>${uid}</entry></system></sysinfo>
  <devices>
    <disk type='file' device='disk'><source file='/vmi-disks/demo/disk.img'/><target dev='vda'/></disk>
    <disk type='file' device='cdrom'><source file='/e/cloud-init-data/default/demo/noCloud.iso'/><target dev='sda'/></disk>
    <serial type='unix'><source mode='bind' path='/p/${uid}/virt-serial0'/></serial>
  </devices>
  <qemu:commandline><qemu:arg value='file=/e/ignition-data/default/demo/data.ign'/></qemu:commandline>
</domain>`;

const moved = (sizes = new Map<string, bigint>()) => movedDomainXml(xml, from, to, sizes);

test('what is at paths of its VMI is at those of the other one', () => {
  for (const path of [
    `path="/p/${to.uid}/virt-serial0"`,
    '>/nvram/copy_VARS.fd<',
    'file="/e/cloud-init-data/there/copy/noCloud.iso"',
    'file=/e/ignition-data/there/copy/data.ign',
  ]) {
    assert.ok(moved().includes(path), `${path} is not in ${moved()}`);
  }
  assert.match(moved(), new RegExp(`<kubevirt xmlns="http://kubevirt.io">\\s*<uid>${to.uid}</uid>`));
});

test('what the guest sees stays as it is, also a UUID that was the UID of its VMI', () => {
  assert.ok(moved().includes(`<uuid>${uid}</uuid>`));
  assert.ok(moved().includes(`<entry name="uuid">${uid}</entry>`));
  // The volume is named like the VM.
  assert.ok(moved().includes('file="/vmi-disks/demo/disk.img"'));
});

test('of a disk that may lie in a larger image only its own size is the guest’s', () => {
  const sliced = moved(new Map([['vda', 1048576n]]));
  assert.match(sliced, /disk\.img">\s*<slices>\s*<slice type="storage" offset="0" size="1048576"\/>\s*<\/slices>/);
  assert.equal(sliced.split('<slices>').length, 2);
  assert.ok(!moved().includes('slices'));
});
