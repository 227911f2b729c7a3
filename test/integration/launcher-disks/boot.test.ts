import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { test } from 'node:test';
import type { Volume } from '../../../src/api/index.ts';
import { prepareDisks } from '../../../src/launcher/disks/index.ts';
import { buildDomainXml, launcherPaths, serialSocket, vncSocket } from '../../../src/launcher/domain/index.ts';
import { noCloud } from '../../unit/launcher/disks/sandbox.ts';
import { vmiWith } from '../../unit/launcher/domain/cases.ts';
import { privateLibvirt } from './private-libvirt.ts';

const message = 'BOOTED-FROM-CONTAINER-DISK\n';

/** A boot sector that writes its message to the first serial port for ever. */
function bootSector(): Buffer {
  const sector = Buffer.alloc(1 << 20);
  const code = [
    ...[0x31, 0xc0, 0x8e, 0xd8], // ds = 0
    ...[0xba, 0xf8, 0x03], // dx = COM1
    ...[0xbe, 0x40, 0x7c], // again: si = message
    ...[0xac, 0x84, 0xc0, 0x74, 0xf8, 0xee, 0xeb, 0xf8], // until zero: out dx, [si++]
  ];
  sector.set(code);
  sector.write(`${message}\0`, 0x40, 'latin1');
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

/** Connects and collects until `wanted` has come. */
function readUntil(socketPath: string, wanted: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(socketPath);
    socket.setTimeout(60_000, () => socket.destroy(new Error(`no ${wanted} within a minute; got ${text}`)));
    socket.on('error', reject);
    socket.on('data', (data) => {
      text += data.toString('latin1');
      if (!text.includes(wanted)) return;
      resolve(text);
      socket.destroy();
    });
  });
}

test('a VMI with containerDisk, emptyDisk and cloud-init boots from its disk and talks on serial and VNC sockets', async (t) => {
  const libvirt = privateLibvirt();
  t.after(libvirt.remove);
  const paths = launcherPaths({ nonRoot: false, root: libvirt.dir });
  mkdirSync(path.join(paths.imageVolumeDir, 'disk_0/disk'), { recursive: true });
  writeFileSync(path.join(paths.imageVolumeDir, 'disk_0/disk/boot.img'), bootSector());
  const volumes: Volume[] = [
    { name: 'root', containerDisk: { image: 'boot:1' } },
    noCloud('seed', { userData: '#cloud-config' }),
    { name: 'scratch', emptyDisk: { capacity: '1Mi' } },
  ];
  const devices = { rng: {}, disks: [{ name: 'root', disk: { bus: 'virtio' as const }, bootOrder: 1 }] };
  const vmi = vmiWith({ devices, memory: { guest: '32Mi' } }, { volumes });
  const { disks } = await prepareDisks(vmi, { paths, imageVolume: true });
  const uid = vmi.metadata.uid ?? '';
  mkdirSync(path.join(paths.privateDir, uid), { recursive: true });
  chmodSync(path.join(paths.privateDir, uid), 0o777);
  const file = path.join(libvirt.dir, 'domain.xml');
  const context = { hypervisor: 'qemu', architecture: 'amd64', paths, cpuSet: [0], disks, network: 'user' } as const;
  writeFileSync(file, buildDomainXml(vmi, context));

  const virsh = libvirt.interactive();
  const ended = new Promise((resolve) => virsh.on('close', resolve));
  let output = '';
  const created = new Promise<void>((resolve, reject) => {
    const collect = (data: Buffer) => {
      output += data.toString();
      if (output.includes('created from')) resolve();
      if (/error:[^\n]+\nerror:[^\n]+\n/.test(output)) reject(new Error(output));
    };
    virsh.stdout.on('data', collect);
    virsh.stderr.on('data', collect);
  });
  try {
    virsh.stdin.write(`create ${file}\n`);
    await created;
    assert.match(await readUntil(serialSocket(paths, uid), message), /BOOTED-FROM-CONTAINER-DISK/);
    assert.match(await readUntil(vncSocket(paths, uid), 'RFB 003'), /^RFB 003\.008/);
  } finally {
    virsh.stdin.end('destroy default_testvm\nquit\n');
    await ended;
  }
});
