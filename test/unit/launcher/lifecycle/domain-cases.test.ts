import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { DomainLock } from '../../../../src/launcher/lifecycle/domain-lock.ts';
import { MetadataCache } from '../../../../src/launcher/lifecycle/metadata.ts';
import { PowerControl } from '../../../../src/launcher/lifecycle/power.ts';
import { type SyncDeps, VmiSync } from '../../../../src/launcher/lifecycle/sync.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { domainCases } from '../../../fixtures/domain-cases.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const memory = new MemoryHypervisor();
domainCases('libvirt in memory', 'cases_memory', () => ({
  hypervisor: memory,
  endDomain: async (name) => memory.end(name, 1),
}));

const nothing = async () => undefined;

function parts(
  hypervisor: MemoryHypervisor,
  {
    syncDisks = nothing,
    syncNetwork = nothing,
    ...more
  }: Partial<Pick<SyncDeps, 'syncDisks' | 'syncNetwork' | 'onStarted'>> = {},
) {
  const lock = new DomainLock({ maxWaitMs: 1000 }, { clock: systemClock });
  const metadata = new MetadataCache({ file: '/dev/null/none' }, { log: silentLogger });
  const deps = { hypervisor, lock, metadata, log: silentLogger, killQemu: () => undefined };
  const prepare = async () => '<domain><name>default_small</name></domain>';
  const named = { domainName: 'default_small' };
  return {
    sync: new VmiSync(named, { ...deps, prepare, syncDisks, syncNetwork, ...more }),
    power: new PowerControl(named, deps),
    lock,
    metadata,
  };
}

test('a start whose answer is lost while the guest runs does not undefine it; the next sync finds it', async () => {
  const hypervisor = new MemoryHypervisor();
  const { sync, metadata } = parts(hypervisor);
  const start = hypervisor.start.bind(hypervisor);
  hypervisor.start = async (domain, options) => {
    hypervisor.start = start;
    await start(domain, options);
    throw new LibvirtError('CONNECTION_LOST', 'connection to libvirt lost');
  };
  await assert.rejects(sync.sync(launcherVmi(), {}), { code: 'CONNECTION_LOST' });
  assert.ok(!hypervisor.calls.includes('undefine'));
  await sync.sync(launcherVmi(), {});
  assert.equal(hypervisor.calls.filter((call) => call === 'define').length, 1);
  assert.equal(metadata.state.run.kind, 'has-run');
});

test('a start is told once, not each sync', async () => {
  const told: string[] = [];
  const { sync } = parts(new MemoryHypervisor(), { onStarted: ({ metadata }) => told.push(metadata.name) });
  for (const _each of [1, 2]) await sync.sync(launcherVmi(), {});
  assert.equal(told.length, 1);
});

test('a guest with an isolated emulator thread is started paused and resumed at once', async () => {
  const hypervisor = new MemoryHypervisor();
  const cpu = { dedicatedCpuPlacement: true, isolateEmulatorThread: true };
  await parts(hypervisor).sync.sync(launcherVmi({ spec: { domain: { devices: {}, cpu } } }), {});
  assert.deepEqual(
    hypervisor.calls.filter((call) => call === 'start' || call === 'resume'),
    ['start', 'resume'],
  );
});

test('soft reboot goes by the agent when it is connected, else by ACPI, and needs one of them', async () => {
  const hypervisor = new MemoryHypervisor();
  const { sync, power } = parts(hypervisor);
  await sync.sync(launcherVmi(), {});
  const connected = launcherVmi();
  connected.status = { conditions: [{ type: 'AgentConnected', status: 'True' }] };
  await power.softReboot(connected);
  await power.softReboot(launcherVmi());
  assert.deepEqual(
    hypervisor.calls.filter((call) => call.startsWith('reboot')),
    ['reboot guest-agent', 'reboot acpi'],
  );
  hypervisor.failures.set('reboot', new LibvirtError('AGENT_UNRESPONSIVE', 'no answer'));
  await power.softReboot(connected);
  const without = launcherVmi({ spec: { domain: { devices: {}, features: { acpi: { enabled: false } } } } });
  await assert.rejects(power.softReboot(without), { code: 'NOT_SUPPORTED' });
});

test('kill does not wait for the modify lock', async () => {
  const hypervisor = new MemoryHypervisor();
  const { sync, power, lock } = parts(hypervisor);
  await sync.sync(launcherVmi(), {});
  let release: () => void = () => undefined;
  const held = lock.run('test', () => new Promise<void>((resolve) => (release = resolve)));
  await power.kill();
  assert.ok(hypervisor.calls.includes('destroy'));
  release();
  await held;
});

test('a guest that ends between the question and the order to kill it is no failure', async () => {
  const hypervisor = new MemoryHypervisor();
  const { sync, power } = parts(hypervisor);
  await sync.sync(launcherVmi(), {});
  hypervisor.failures.set('destroy', new LibvirtError('OPERATION_INVALID', 'domain is not running'));
  await power.kill();
});

test('a QEMU that does not react to SIGTERM is killed by force', async () => {
  const hypervisor = new MemoryHypervisor();
  const { sync, power } = parts(hypervisor);
  await sync.sync(launcherVmi(), {});
  hypervisor.failures.set('destroy', new LibvirtError('SYSTEM_ERROR', 'Failed to terminate process'));
  await power.kill();
  assert.deepEqual(
    hypervisor.calls.filter((call) => call.startsWith('destroy')),
    ['destroy', 'destroy by force'],
  );
});

test('a grace period or conditions of another shape cost a running domain neither its sync nor its soft reboot', async () => {
  const hypervisor = new MemoryHypervisor();
  const { sync, power, metadata } = parts(hypervisor);
  await sync.sync(launcherVmi(), {});
  const spec = JSON.parse('{"terminationGracePeriodSeconds":"soon"}');
  const vmi = { ...launcherVmi({ spec }), status: JSON.parse('{"conditions":{"type":"AgentConnected"}}') };
  await sync.sync(vmi, {});
  assert.equal(metadata.metadata.GracePeriod?.DeletionGracePeriodSeconds, 30);
  await power.softReboot(vmi);
  assert.equal(hypervisor.calls.at(-1), 'reboot acpi');
});

test('a disk that the guest does not release keeps its network devices from nothing, and is told of', async () => {
  const synced: string[] = [];
  const failing = (what: string, fails: boolean) => async () => {
    synced.push(what);
    if (fails) throw new Error(`${what} failed`);
  };
  for (const [disks, network, problem] of [
    [true, false, /disks failed/],
    [false, true, /network failed/],
    [true, true, /disks failed/],
  ] as const) {
    const devices = { syncDisks: failing('disks', disks), syncNetwork: failing('network', network) };
    const { sync } = parts(new MemoryHypervisor(), devices);
    await sync.sync(launcherVmi(), {});
    await assert.rejects(sync.sync(launcherVmi({ phase: 'Running' }), {}), problem);
    assert.deepEqual(synced.splice(0), ['disks', 'network']);
  }
});
