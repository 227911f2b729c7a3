import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import type { DomainSpecInput, VirtualMachineInstance } from '../../../src/api/index.ts';
import { systemClock } from '../../../src/base/index.ts';
import { cpuSetOf } from '../../../src/host/index.ts';
import type { LibvirtHypervisor } from '../../../src/launcher/daemon/libvirt-hypervisor.ts';
import { buildDomainXml, launcherPaths, parseDomainXml } from '../../../src/launcher/domain/index.ts';
import { DomainLock } from '../../../src/launcher/lifecycle/index.ts';
import { GuestSize } from '../../../src/launcher/resize/index.ts';
import type { DomainRef } from '../../../src/libvirt/index.ts';
import { PrivateLibvirtd } from '../../fixtures/libvirtd.ts';
import { sessionHypervisor } from '../../fixtures/session-hypervisor.ts';
import { contextWith, lean, vmiWith } from '../../unit/launcher/domain/cases.ts';

let daemon: PrivateLibvirtd;
let hypervisor: LibvirtHypervisor;
const cpuSet = cpuSetOf(process.pid);
const [first = 0, second = 1] = cpuSet;
const tooFewCpus = cpuSet.length >= 2 ? false : 'needs two CPUs';

before(async () => {
  daemon = await PrivateLibvirtd.start();
  hypervisor = await sessionHypervisor(daemon);
});
after(async () => {
  await hypervisor?.close();
  await daemon?.remove();
});

interface Guest {
  readonly domain: DomainRef;
  readonly size: GuestSize;
  /** Name of each thread of its QEMU → the CPUs it may run on. */
  readonly threads: () => Promise<ReadonlyMap<string, readonly number[]>>;
  readonly xml: () => Promise<string>;
  readonly end: () => Promise<void>;
}

const uids: Readonly<Record<string, string>> = {
  pinned: '00000000-0000-4000-8000-000000000001',
  apart: '00000000-0000-4000-8000-000000000002',
  cpus: '00000000-0000-4000-8000-000000000003',
  grown: '00000000-0000-4000-8000-000000000004',
};

function vmiOf(name: string, domain: DomainSpecInput): VirtualMachineInstance {
  const vmi = vmiWith({ devices: { ...lean, disableHotplug: false }, ...domain });
  return { ...vmi, metadata: { ...vmi.metadata, name, uid: uids[name] ?? assert.fail() } };
}

async function start(vmi: VirtualMachineInstance): Promise<Guest> {
  const context = contextWith({ cpuSet, paths: launcherPaths({ nonRoot: true, root: daemon.directory }) });
  const domain = await hypervisor.define(buildDomainXml(vmi, context));
  await hypervisor.start(domain, { paused: false });
  const lock = new DomainLock({ maxWaitMs: 1000 }, { clock: systemClock });
  return {
    domain,
    size: new GuestSize({ domainName: domain.name, cpuSet }, { hypervisor, lock }),
    threads: async () => {
      const dir = `/proc/${await daemon.qemuPid(domain.name)}/task`;
      const nameOf = (tid: string) => readFileSync(`${dir}/${tid}/comm`, 'utf8').trim();
      return new Map(readdirSync(dir).map((tid) => [nameOf(tid), cpuSetOf(Number(tid), dir)]));
    },
    xml: () => hypervisor.xml(domain),
    end: () => hypervisor.destroy(domain, { graceful: false }),
  };
}

test('each vCPU with a CPU of its own runs there and nowhere else', { skip: tooFewCpus }, async () => {
  const guest = await start(vmiOf('pinned', { cpu: { sockets: 2, dedicatedCpuPlacement: true } }));
  const threads = await guest.threads();
  assert.deepEqual(threads.get('CPU 0/TCG'), [first]);
  assert.deepEqual(threads.get('CPU 1/TCG'), [second]);
  const pins = (await hypervisor.vcpuPins(guest.domain)).map((cpus) => cpus.flatMap((may, cpu) => (may ? [cpu] : [])));
  assert.deepEqual(pins, [[first], [second]]);
  await guest.end();
});

test('the emulator apart, beside a vCPU of real time, has the next CPU', { skip: tooFewCpus }, async () => {
  const cpu = { dedicatedCpuPlacement: true, isolateEmulatorThread: true, realtime: {} };
  const guest = await start(vmiOf('apart', { cpu }));
  const threads = await guest.threads();
  assert.deepEqual(threads.get('CPU 0/TCG'), [first]);
  assert.deepEqual(threads.get('qemu-system-x86'), [second]);
  const tune = parseDomainXml(await guest.xml()).CPUTune as { EmulatorPin: unknown };
  assert.deepEqual(tune.EmulatorPin, { CPUSet: String(second) });
  await guest.end();
});

test('a vCPU is plugged into a running guest, on a CPU of its own, and none without one', {
  skip: tooFewCpus,
}, async () => {
  const cpu = { sockets: 1, maxSockets: 8, dedicatedCpuPlacement: true };
  const guest = await start(vmiOf('cpus', { cpu }));
  assert.equal((await guest.threads()).has('CPU 1/TCG'), false);
  await guest.size.setVcpus(vmiOf('cpus', { cpu: { ...cpu, sockets: 2 } }), {});
  assert.deepEqual((await guest.threads()).get('CPU 1/TCG'), [second]);
  const tooMany = vmiOf('cpus', { cpu: { ...cpu, sockets: cpuSet.length + 1, maxSockets: cpuSet.length + 1 } });
  await assert.rejects(guest.size.setVcpus(tooMany, {}), { code: 'NOT_ENOUGH_CPUS' });
  assert.match(await guest.xml(), /<vcpu placement='static' current='2'>8<\/vcpu>/);
  await guest.end();
});

test('memory is plugged into a running guest, and the device is asked for more', async () => {
  const sized = (guest: string) => {
    const vmi = vmiOf('grown', { memory: { guest, maxGuest: '1Gi' } });
    return { ...vmi, status: { phase: 'Running' as const, memory: { guestAtBoot: '256Mi' } } };
  };
  const guest = await start(sized('256Mi'));
  const requestedKiB = async () => /<requested unit='KiB'>(\d+)</.exec(await guest.xml())?.[1];
  await guest.size.setMemory(sized('512Mi'));
  assert.equal(await requestedKiB(), String(256 * 1024));
  await guest.size.setMemory(sized('768Mi'));
  assert.equal(await requestedKiB(), String(512 * 1024));
  await guest.size.setMemory(sized('256Mi'));
  assert.equal(await requestedKiB(), '0');
  assert.equal((await guest.xml()).match(/<memory model='virtio-mem'/g)?.length, 1);
  await assert.rejects(guest.size.setMemory(sized('2Gi')), { code: 'INVALID_FIELD' });
  await guest.end();
});
