import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import {
  type DomainRef,
  DomainState,
  isLibvirtError,
  JobOperation,
  LibvirtClient,
  MaxSpeedFlag,
  MigrateFlag,
  XmlFlag,
} from '../../../src/libvirt/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { PrivateLibvirtd } from '../../fixtures/libvirtd.ts';

const uri = 'qemu:///session';
const usual = MigrateFlag.LIVE + MigrateFlag.PEER2PEER + MigrateFlag.PERSIST_DEST;

const sourceMachine = randomUUID();
let source: PrivateLibvirtd;
let target: PrivateLibvirtd;
/** For what is asked beside a migration. */
let beside: LibvirtClient;
/** Migrations have a connection of their own, and a time limit that is far too short for them. */
let own: LibvirtClient;
let atTarget: LibvirtClient;
let domain: DomainRef;

function daemonOfMachine(hostUuid: string): Promise<PrivateLibvirtd> {
  return PrivateLibvirtd.start({ conf: `host_uuid = "${hostUuid}"` });
}

/** A guest without an operating system: its firmware runs and finds no disk to boot from. */
function domainXml(name: string, devices = ''): string {
  return `<domain type='qemu'><name>${name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
    <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
    <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
      <controller type='usb' model='none'/><memballoon model='none'/>
      <video><model type='vga' vram='16384'/></video>${devices}</devices></domain>`;
}

/** As long as the guest's memory goes at this pace, a migration is under way. */
const slowly = { bandwidthMiBps: 1 };

function there(): { readonly connectUri: string; readonly migrateUri: string } {
  return {
    connectUri: `qemu+unix:///session?socket=${target.socketPath}`,
    migrateUri: `unix://${path.join(target.directory, 'run', `${domain.name}.sock`)}`,
  };
}

async function untilMemoryMoves(): Promise<void> {
  await eventually(async () => {
    const { params } = await beside.getJobStats(domain);
    assert.ok(Number(params.get('memory_processed') ?? 0) > 0);
  });
}

async function connectAll(): Promise<void> {
  for (const client of [beside, own, atTarget]) await client?.close();
  beside = await LibvirtClient.connect({ socketPath: source.socketPath, uri });
  own = await LibvirtClient.connect({ socketPath: source.socketPath, uri, callTimeoutMs: 300 });
  atTarget = await LibvirtClient.connect({ socketPath: target.socketPath, uri });
}

before(async () => {
  source = await daemonOfMachine(sourceMachine);
  target = await daemonOfMachine(randomUUID());
});

beforeEach(async () => {
  await connectAll();
  domain = await beside.createDomain(await beside.defineXml(domainXml(`guest-${randomUUID().slice(0, 8)}`)));
});

after(async () => {
  for (const client of [beside, own, atTarget]) await client?.close();
  await source?.remove();
  await target?.remove();
});

test('a running guest moves to another daemon, in one call, and its job ends with figures', async () => {
  const ended: (readonly [operation: unknown, isWhole: boolean])[] = [];
  await beside.subscribe('jobCompleted', ({ params }) => {
    ended.push([params.find(({ field }) => field === 'operation')?.value, params.length > 5]);
  });
  const iterations: number[] = [];
  await beside.subscribe('migrationIteration', ({ iteration }) => iterations.push(iteration));
  await own.migrate(domain, there(), usual);
  assert.deepEqual(await beside.getState(domain), { state: DomainState.SHUTOFF, reason: 4 });
  const arrived = await atTarget.lookupDomainByUuid(domain.uuid);
  assert.ok(arrived && arrived.id > 0);
  assert.deepEqual(await atTarget.getState(arrived), { state: DomainState.RUNNING, reason: 2 });
  assert.equal(await atTarget.isPersistent(arrived), true);
  await eventually(() => assert.deepEqual(ended, [[JobOperation.MIGRATION_OUT, true]]));
  assert.equal(iterations[0], 1);
});

test('a migration outlasts the limit of usual calls, is watched, paced and aborted from another connection', async () => {
  const failed = assert.rejects(own.migrate(domain, { ...there(), ...slowly }, usual), (error) =>
    isLibvirtError(error, 'OPERATION_ABORTED'),
  );
  await untilMemoryMoves();
  assert.equal(await beside.getMaxSpeed(domain), 1);
  await beside.setMaxSpeed(domain, 2);
  assert.equal(await beside.getMaxSpeed(domain), 2);
  await beside.setMaxDowntime(domain, 120);
  assert.equal(await beside.getMaxDowntime(domain), 120);
  const { params } = await beside.getJobStats(domain);
  assert.equal(params.get('operation'), JobOperation.MIGRATION_OUT);
  await beside.abortJob(domain);
  await failed;
  assert.equal((await beside.getState(domain)).state, DomainState.RUNNING);
  await eventually(async () => assert.equal(await atTarget.lookupDomainByUuid(domain.uuid), undefined));
});

test('all that can be said of a target reaches the daemon: another name, another XML, a copied disk', async () => {
  const [from, to] = [path.join(source.directory, 'disk.img'), path.join(target.directory, 'disk.img')];
  const content = Buffer.alloc(1024 * 1024, 'what the guest keeps ');
  await writeFile(from, content);
  await writeFile(to, Buffer.alloc(content.length));
  for (const each of [from, to]) await chmod(each, 0o666);
  const disk = `<disk type='file'><driver name='qemu' type='raw'/><source file='${from}'/><target dev='sda' bus='sata'/></disk>`;
  const name = `${domain.name}-disk`;
  domain = await beside.createDomain(await beside.defineXml(domainXml(name, disk)));
  const moved = (await beside.getXmlDesc(domain, XmlFlag.MIGRATABLE)).replace(from, to);
  await own.migrate(
    domain,
    {
      ...there(),
      disksUri: `unix://${path.join(target.directory, 'run', 'disks.sock')}`,
      disks: ['sda'],
      destinationName: `${name}-moved`,
      destinationXml: moved,
      persistentXml: moved.replace(`<name>${name}</name>`, `<name>${name}-moved</name>`),
      bandwidthMiBps: 1000,
      postCopyBandwidthMiBps: 500,
    },
    usual + MigrateFlag.NON_SHARED_INC,
  );
  const arrived = await atTarget.lookupDomainByName(`${name}-moved`);
  assert.ok(arrived);
  assert.ok((await atTarget.getXmlDesc(arrived)).includes(to));
  assert.deepEqual(await readFile(to), content);
});

test('a disk that the guest does not have is refused before anything moves', async () => {
  const disks = { disks: ['vdz'], disksUri: `unix://${path.join(target.directory, 'run', 'disks.sock')}` };
  await assert.rejects(own.migrate(domain, { ...there(), ...disks }, usual + MigrateFlag.NON_SHARED_INC), (error) =>
    isLibvirtError(error, 'INVALID_ARG'),
  );
  assert.equal((await beside.getState(domain)).state, DomainState.RUNNING);
});

test('a daemon that calls itself the same machine is no target', async () => {
  const twin = await daemonOfMachine(sourceMachine);
  try {
    const connectUri = `qemu+unix:///session?socket=${twin.socketPath}`;
    await assert.rejects(own.migrate(domain, { ...there(), connectUri }, usual), /same host/);
  } finally {
    await twin.remove();
  }
  assert.equal((await beside.getState(domain)).state, DomainState.RUNNING);
});

test('a target daemon that dies ends the migration; the guest runs on, and the next one succeeds', async () => {
  const failed = assert.rejects(own.migrate(domain, { ...there(), ...slowly }, usual), (error) =>
    isLibvirtError(error, 'INTERNAL_ERROR', 'OPERATION_FAILED'),
  );
  await untilMemoryMoves();
  const arriving = await target.qemuPid(domain.name);
  await target.kill('SIGKILL');
  await failed;
  await eventually(async () => assert.equal((await beside.getState(domain)).state, DomainState.RUNNING));
  process.kill(arriving, 'SIGKILL');
  await target.launch();
  await connectAll();
  await eventually(async () => assert.equal(await atTarget.lookupDomainByUuid(domain.uuid), undefined));
  await own.migrate(domain, there(), usual);
  assert.equal((await beside.getState(domain)).reason, 4);
});

test('a source daemon that dies is CONNECTION_LOST; started again it leaves the guest running here', async () => {
  const failed = assert.rejects(own.migrate(domain, { ...there(), ...slowly }, usual), (error) =>
    isLibvirtError(error, 'CONNECTION_LOST'),
  );
  await untilMemoryMoves();
  await source.kill('SIGKILL');
  await failed;
  await source.launch();
  await connectAll();
  await eventually(async () => assert.equal((await beside.getState(domain)).state, DomainState.RUNNING));
  await eventually(async () => assert.equal(await atTarget.lookupDomainByUuid(domain.uuid), undefined));
});

const setting = '/proc/sys/vm/unprivileged_userfaultfd';
const faults = existsSync(setting) ? Number(readFileSync(setting, 'utf8')) : 1;

test('post-copy is refused in words where the kernel lets no ordinary user wait for pages', {
  skip: faults === 1 && 'vm.unprivileged_userfaultfd is 1',
}, async () => {
  await assert.rejects(own.migrate(domain, there(), usual + MigrateFlag.POSTCOPY), /Postcopy is not supported/);
  assert.equal((await beside.getState(domain)).state, DomainState.RUNNING);
});

test('post-copy lets the guest run on the target before its memory is there', {
  skip: faults === 0 && 'vm.unprivileged_userfaultfd is 0',
}, async () => {
  const moved = own.migrate(domain, { ...there(), ...slowly }, usual + MigrateFlag.POSTCOPY);
  await untilMemoryMoves();
  await beside.setMaxSpeed(domain, 100, MaxSpeedFlag.POSTCOPY);
  await beside.startPostCopy(domain);
  await moved;
  const arrived = await atTarget.lookupDomainByUuid(domain.uuid);
  assert.ok(arrived);
  assert.equal((await atTarget.getState(arrived)).state, DomainState.RUNNING);
});
