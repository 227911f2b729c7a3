import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, mkdir, symlink } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '../../../src/base/index.ts';
import type { LibvirtHypervisor } from '../../../src/launcher/daemon/libvirt-hypervisor.ts';
import { DomainLock, hasRun, MetadataCache } from '../../../src/launcher/lifecycle/index.ts';
import { LiveMigration } from '../../../src/launcher/migration/index.ts';
import { proxySocket } from '../../../src/launcher/migration/plan.ts';
import type { HypervisorEvent } from '../../../src/launcher/ports.ts';
import { type DomainRef, DomainState } from '../../../src/libvirt/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { kernelArgs } from '../../fixtures/guest-kernel.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { guestDir } from '../../fixtures/launcher-vmi.ts';
import { PrivateLibvirtd } from '../../fixtures/libvirtd.ts';
import { scaledClock } from '../../fixtures/scaled-clock.ts';
import { sessionHypervisor } from '../../fixtures/session-hypervisor.ts';
import { json, migratingVmi, usual } from '../../unit/launcher/migration/bench.ts';

/**
 * No machine of the tests has a card with virtual functions. QEMU's own network cards stand in for them: PCI devices behind a root port with the
 * alias of one, which real libvirt, QEMU and Linux unplug in the same way. Only the launcher's look at them is told that they are the machine's.
 */

const names = ['blue', 'red'] as const;
const nic = (name: string, more = '') =>
  `<interface type='user'><model type='e1000e'/><alias name='ua-sriov-${name}'/>${more}</interface>`;
const nicOf =
  /<interface type='user'>(?:(?!<\/interface>)[\s\S])*?<alias name='(ua-sriov-[a-z]+)'\/>[\s\S]*?<\/interface>/g;
const machineDevices = (xml: string) => xml.replace(nicOf, "<hostdev type='pci'><alias name='$1'/></hostdev>");

let source: PrivateLibvirtd;
let target: PrivateLibvirtd;
let here: LibvirtHypervisor;
let there: LibvirtHypervisor;
let shell: GuestShell | undefined;
let proxyDir: string;

before(async () => {
  [source, target] = (await Promise.all(
    [0, 1].map(() => PrivateLibvirtd.start({ conf: `host_uuid = "${randomUUID()}"` })),
  )) as [PrivateLibvirtd, PrivateLibvirtd];
  [here, there] = await Promise.all([sessionHypervisor(source), sessionHypervisor(target)]);
  // Both daemons have the guest's kernel and its console at the same path.
  for (const name of ['vmlinuz', 'initramfs.gz']) {
    await copyFile(path.join(guestDir, name), path.join(source.directory, name));
    await chmod(path.join(source.directory, name), 0o644);
  }
  await chmod(source.directory, 0o777);
  proxyDir = path.join(source.directory, 'p');
  await mkdir(proxyDir);
  await chmod(proxyDir, 0o777);
});
after(async () => {
  shell?.close();
  for (const each of [here, there]) await each?.close();
  for (const each of [source, target]) await each?.remove();
});

interface Given {
  readonly devices?: string;
  readonly hasSystem?: boolean;
  /** It stands still before it is asked for a device. */
  readonly stopsAtUnplug?: boolean;
  /** How much faster the launcher's clock goes. */
  readonly haste?: number;
}

/** A guest that runs here, and the launcher's migration of it. */
async function guestOf(given: Given = {}) {
  const {
    devices = names.map((name) => nic(name)).join(''),
    hasSystem = false,
    stopsAtUnplug = false,
    haste = 1,
  } = given;
  const name = `default_${randomUUID().slice(0, 8)}`;
  const at = (file: string) => path.join(source.directory, file);
  const system = `<kernel>${at('vmlinuz')}</kernel><initrd>${at('initramfs.gz')}</initrd><cmdline>${kernelArgs}</cmdline>`;
  const ports = "<controller type='pci' model='pcie-root-port'/>".repeat(4);
  const xml = `<domain type='qemu'><name>${name}</name><memory unit='MiB'>192</memory><vcpu>1</vcpu>
    <os><type arch='x86_64' machine='q35'>hvm</type>${hasSystem ? system : ''}</os><features><acpi/></features>
    <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
      <controller type='pci' model='pcie-root'/>${ports}
      <controller type='usb' model='none'/><memballoon model='none'/><video><model type='none'/></video>
      <serial type='unix'><source mode='bind' path='${at(`${name}.console`)}'/><target port='0'/></serial>
      ${devices}</devices></domain>`;
  const domain = await here.define(xml);
  const vmi = migratingVmi('m1');
  vmi.metadata = { ...vmi.metadata, name: name.slice('default_'.length), uid: randomUUID() };
  const uid = vmi.metadata.uid ?? assert.fail();
  await symlink(target.socketPath, proxySocket(proxyDir, uid));
  await here.start(domain, { paused: false });
  const clock = scaledClock(haste);
  const metadata = new MetadataCache({ file: path.join(source.directory, `${name}.json`) }, { log: silentLogger });
  metadata.record(hasRun);
  const lock = new DomainLock({ maxWaitMs: 15_000 }, { clock });
  const seen: HypervisorEvent[] = [];
  const looks = new Proxy(here, {
    get: (real, key: keyof LibvirtHypervisor) => {
      if (key === 'xml') return async (ref: DomainRef) => machineDevices(await real.xml(ref));
      if (key === 'requestUnplug' && stopsAtUnplug) {
        return async (ref: DomainRef, alias: string) => {
          await real.suspend(ref);
          return real.requestUnplug(ref, alias);
        };
      }
      const member: unknown = Reflect.get(real, key);
      return typeof member === 'function' ? member.bind(real) : member;
    },
  });
  const migration = new LiveMigration(
    { domainName: name, proxyDir, isSession: true, owner: undefined },
    {
      hypervisor: looks,
      lock,
      metadata,
      notifier: { sendEvent: () => undefined },
      findMedia: async () => new Map(),
      prepare: async () => xml,
      syncTime: () => undefined,
      log: silentLogger,
      clock,
    },
  );
  const stop = here.onEvent((event) => {
    if (event.kind !== 'connected' && event.domain.name !== name) return;
    seen.push(event);
    migration.handle(event);
  });
  return {
    domain,
    migration,
    metadata,
    vmi,
    console: at(`${name}.console`),
    order: (migrationUid: string) =>
      migration.migrate(
        { ...vmi, status: { ...vmi.status, migrationState: { migrationUid } } } as typeof vmi,
        json(usual),
      ),
    end: async () => {
      await eventually(() => assert.ok(metadata.metadata.Migration?.EndTimestamp), 60_000);
      return metadata.metadata.Migration ?? assert.fail();
    },
    unplugged: () => seen.flatMap((event) => (event.kind === 'unplug' && event.isGone ? [event.alias] : [])).sort(),
    async remove() {
      stop();
      const left = await here.lookup(name);
      if (left && left.id >= 0) await here.destroy(left, { graceful: false });
      if (left) await here.undefine(left);
    },
  };
}

const devicesIn = (xml: string) => [...xml.matchAll(/ua-sriov-[a-z]+/g)].map(([alias]) => alias).sort();
const all = ['ua-sriov-blue', 'ua-sriov-red'];

test('a guest gives up its SR-IOV devices and leaves; on the target it has none of them, and takes them again', async () => {
  const guest = await guestOf({ hasSystem: true });
  shell = new GuestShell(guest.console);
  await shell.login();
  assert.deepEqual(devicesIn(await here.xml(guest.domain)), all);
  await guest.order('m1');
  const { Failed, FailureReason } = await guest.end();
  assert.deepEqual([Failed, FailureReason], [false, '']);
  assert.deepEqual(guest.unplugged(), all);
  const arrived = (await there.lookup(guest.domain.name)) ?? assert.fail();
  assert.equal((await there.state(arrived)).state, DomainState.RUNNING);
  for (const xml of [await there.xml(arrived), await there.persistentXml(arrived)])
    assert.deepEqual(devicesIn(xml), []);
  for (const name of names) await there.attachDevice(arrived, nic(name), { persistent: true });
  for (const xml of [await there.xml(arrived), await there.persistentXml(arrived)])
    assert.deepEqual(devicesIn(xml), all);
  await there.destroy(arrived, { graceful: false });
  await guest.remove();
});

test('a guest that does not let go of them in time stays as it is, in words, at the second order as well', async () => {
  // Its firmware finds nothing to boot.
  const guest = await guestOf({ haste: 20 });
  for (const uid of ['m1', 'm2']) {
    await guest.order(uid);
    const { UID, Failed, FailureReason, AbortStatus } = await guest.end();
    assert.deepEqual([UID, Failed, AbortStatus], [uid, true, '']);
    assert.match(FailureReason, /has not let go of its SR-IOV interfaces within 30 s \(blue, red\), .*has booted/);
    guest.migration.refuse('SyncVMI');
  }
  assert.equal((await here.state(guest.domain)).state, DomainState.RUNNING);
  assert.deepEqual(devicesIn(await here.xml(guest.domain)), all);
  await guest.remove();
});

test('an abort does not wait for the guest; what that lets go of later can be given back', async () => {
  const guest = await guestOf({ devices: nic('blue'), hasSystem: true, stopsAtUnplug: true });
  const console = new GuestShell(guest.console);
  await console.login();
  await guest.order('m1');
  await eventually(async () => assert.equal((await here.state(guest.domain)).state, DomainState.PAUSED));
  guest.migration.cancel(guest.vmi);
  const { Failed, FailureReason, AbortStatus } = await guest.end();
  assert.deepEqual([Failed, FailureReason, AbortStatus], [true, 'Live migration has been aborted', 'Succeeded']);
  assert.deepEqual(guest.unplugged(), []);
  await here.resume(guest.domain);
  await eventually(() => assert.deepEqual(guest.unplugged(), ['ua-sriov-blue']), 60_000);
  await here.attachDevice(guest.domain, nic('blue'), { persistent: true });
  for (const xml of [await here.xml(guest.domain), await here.persistentXml(guest.domain)])
    assert.deepEqual(devicesIn(xml), ['ua-sriov-blue']);
  console.close();
  await guest.remove();
});

test('a device where nothing can be unplugged is no matter of waiting', async () => {
  const fixed = "<address type='pci' domain='0x0000' bus='0x00' slot='0x10' function='0x0'/>";
  const guest = await guestOf({ devices: nic('blue', fixed) });
  await guest.order('m1');
  const { FailureReason } = await guest.end();
  assert.match(FailureReason, /libvirt does not take the SR-IOV interface blue from the guest.*hotplug.*pciAddress/s);
  assert.deepEqual(devicesIn(await here.xml(guest.domain)), ['ua-sriov-blue']);
  await guest.remove();
});
