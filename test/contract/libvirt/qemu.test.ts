import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import {
  AddressSource,
  BlockResizeFlag,
  CreateFlag,
  DestroyFlag,
  DomainState,
  type EventKind,
  isLibvirtError,
  LibvirtClient,
  LibvirtConnector,
  StatsGroup,
  VcpuFlag,
} from '../../../src/libvirt/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { PrivateLibvirtd } from '../../fixtures/libvirtd.ts';

const uri = 'qemu:///session';
let daemon: PrivateLibvirtd;
let client: LibvirtClient;

before(async () => {
  daemon = await PrivateLibvirtd.start();
  client = await LibvirtClient.connect({ socketPath: daemon.socketPath, uri });
});

after(async () => {
  await client?.close();
  await daemon?.remove();
});

afterEach(async () => {
  if (!client.isOpen) client = await LibvirtClient.connect({ socketPath: daemon.socketPath, uri });
  for (const domain of await client.listAllDomains()) {
    if (domain.id >= 0) await client.destroy(domain);
    await client.undefine(domain).catch(() => undefined);
  }
});

/** A guest without an operating system: its firmware runs and finds no disk to boot from. */
function domainXml(name: string, devices = ''): string {
  return `<domain type='qemu'><name>${name}</name><memory unit='MiB'>32</memory>
    <vcpu current='1'>2</vcpu>
    <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>
    <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
      <controller type='usb' model='none'/><memballoon model='virtio'/>
      <video><model type='vga' vram='4096'/></video>
      <serial type='pty'/><console type='pty'><target type='serial' port='0'/></console>
      <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>${devices}
    </devices></domain>`;
}

async function recordEvents(kinds: readonly EventKind[]): Promise<string[]> {
  const seen: string[] = [];
  for (const kind of kinds) {
    await client.subscribe(kind, ({ kind: seenKind, domain, ...fields }) => {
      seen.push([seenKind, ...Object.values(fields)].join(' '));
    });
  }
  return seen;
}

test('a domain goes through its whole life, and the events come in order', async () => {
  const seen = await recordEvents(['lifecycle', 'agentLifecycle']);
  const defined = await client.defineXml(domainXml('life'));
  const domain = await client.createDomain(defined, CreateFlag.START_PAUSED);
  assert.ok(domain.id > 0);
  assert.equal((await client.getState(domain)).state, DomainState.PAUSED);
  await client.resume(domain);
  assert.equal((await client.getState(domain)).state, DomainState.RUNNING);
  await client.suspend(domain);
  assert.deepEqual(await client.getState(domain), { state: DomainState.PAUSED, reason: 1 });
  await client.resume(domain);
  await client.reset(domain);
  await client.shutdown(domain);
  await client.destroy(domain, DestroyFlag.GRACEFUL);
  assert.deepEqual(await client.getState(domain), { state: DomainState.SHUTOFF, reason: 2 });
  await client.undefine(domain);
  assert.equal(await client.lookupDomainByName('life'), undefined);
  await eventually(() => assert.equal(seen.at(-1), 'lifecycle 1 0'));
  // QEMU tells of its shutdown before it closes its monitor; a busy libvirt may see the closed monitor first, and says nothing of the other.
  const shutdown = seen.filter((event) => event === 'lifecycle 6 2').slice(0, 1);
  assert.deepEqual(seen, [
    'lifecycle 0 0',
    'agentLifecycle 2 1',
    'lifecycle 2 0',
    'lifecycle 3 0',
    'lifecycle 4 0',
    'lifecycle 3 0',
    'lifecycle 4 0',
    ...shutdown,
    'lifecycle 5 1',
    'lifecycle 1 0',
  ]);
});

test('versions and capabilities are those of the real hypervisor', async () => {
  const version = await client.getVersion();
  assert.ok(version >= 7_000_000, String(version));
  assert.match(await client.getDomainCapabilities({ arch: 'x86_64', virttype: 'qemu' }), /<domain>qemu<\/domain>/);
  assert.equal((await client.getType()).toUpperCase(), 'QEMU');
});

test('a running guest gives statistics, pinning, memory and a screenshot', async () => {
  const domain = await client.createDomain(await client.defineXml(domainXml('stats')));
  const groups = StatsGroup.STATE + StatsGroup.CPU_TOTAL + StatsGroup.BALLOON + StatsGroup.VCPU + StatsGroup.BLOCK;
  const [record] = await client.getAllDomainStats(groups);
  assert.equal(record?.domain.uuid, domain.uuid);
  assert.equal(record?.params.get('state.state'), DomainState.RUNNING);
  assert.equal(record?.params.get('balloon.maximum'), 32_768n);
  assert.equal(record?.params.get('vcpu.maximum'), 2);
  assert.equal(record?.params.get('block.count'), 0);
  assert.equal(typeof record?.params.get('cpu.time'), 'bigint');
  assert.equal((await client.memoryStats(domain)).get(6), 32_768n);
  assert.equal((await client.getInfo(domain)).vcpus, 1);
  await client.pinVcpu(domain, 0, [0]);
  assert.deepEqual(await client.getVcpuPinInfo(domain), [[0]]);
  await client.pinEmulator(domain, [0, 1]);
  assert.equal(await client.getVcpus(domain, VcpuFlag.MAXIMUM + VcpuFlag.CONFIG), 2);
  await client.setMemoryStatsPeriod(domain, 2);
  await client.sendKey(domain, [28]);
  const job = await client.getJobStats(domain);
  assert.deepEqual(job, { type: 0, params: new Map() });
  await eventually(async () => {
    const { mime, data } = await client.screenshot(domain);
    assert.match(mime, /^image\/(png|x-portable-pixmap)$/);
    assert.ok(data.length > 100, `${data.length} bytes`);
  });
});

test('a disk is attached, measured and resized, with an event', async () => {
  const image = path.join(daemon.directory, 'config/disk.img');
  await writeFile(image, Buffer.alloc(1024 * 1024));
  await chmod(image, 0o666);
  const seen = await recordEvents(['deviceAdded']);
  const ports = "<controller type='pci' model='pcie-root-port'/>".repeat(4);
  const pci = `<controller type='pci' model='pcie-root'/>${ports}`;
  const domain = await client.createDomain(await client.defineXml(domainXml('disks', pci)), CreateFlag.START_PAUSED);
  const disk = `<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='${image}'/><target dev='vda' bus='virtio'/><alias name='ua-data'/></disk>`;
  await client.attachDevice(domain, disk, 1);
  assert.match(await client.getXmlDesc(domain), /ua-data/);
  const { capacityBytes } = await client.blockInfo(domain, 'vda');
  assert.equal(capacityBytes, 1_048_576n);
  await client.blockResize(domain, 'vda', 2_097_152n, BlockResizeFlag.BYTES);
  assert.equal((await client.blockInfo(domain, 'vda')).capacityBytes, 2_097_152n);
  assert.deepEqual(await client.getDiskErrors(domain), []);
  await eventually(() => assert.deepEqual(seen, ['deviceAdded ua-data']));
});

test('without a guest agent its calls fail with AGENT_UNRESPONSIVE', async () => {
  const domain = await client.createDomain(await client.defineXml(domainXml('agent')));
  const calls = [
    client.agentCommand(domain, '{"execute":"guest-ping"}', 1),
    client.getGuestInfo(domain, 2),
    client.fsFreeze(domain),
    client.fsThaw(domain),
    client.getFsInfo(domain),
    client.setTime(domain, 1_700_000_000n),
    client.setUserPassword(domain, 'root', 'secret'),
    client.setAuthorizedSshKeys(domain, 'root', ['ssh-ed25519 AAAA']),
    client.interfaceAddresses(domain, AddressSource.AGENT),
  ];
  for (const result of await Promise.allSettled(calls)) {
    assert.ok(
      result.status === 'rejected' && isLibvirtError(result.reason, 'AGENT_UNRESPONSIVE'),
      JSON.stringify(result),
    );
  }
});

test('this machine has no SEV, and says so; a guest without it has no measurement and takes no secret', async () => {
  await assert.rejects(client.getSevInfo(), (error) =>
    isLibvirtError(error, 'OPERATION_UNSUPPORTED', 'CONFIG_UNSUPPORTED'),
  );
  const domain = await client.createDomain(await client.defineXml(domainXml('plain')), CreateFlag.START_PAUSED);
  assert.deepEqual(await client.getLaunchSecurityInfo(domain), new Map());
  await assert.rejects(client.setLaunchSecret(domain, { header: 'aA==', secret: 'cw==' }), (error) => {
    assert.ok(isLibvirtError(error, 'OPERATION_UNSUPPORTED'), String(error));
    assert.match(error.message, /SEV/);
    return true;
  });
});

test('a console carries bytes both ways, and the screen of the firmware is readable there', async () => {
  const xml = domainXml('console')
    .replace('</os>', '<bios useserial="yes"/></os>')
    .replace("<video><model type='vga' vram='4096'/></video>", '<video><model type="none"/></video>');
  const domain = await client.createDomain(await client.defineXml(xml), CreateFlag.START_PAUSED);
  const own = await LibvirtClient.connect({ socketPath: daemon.socketPath, uri });
  try {
    const stream = await own.openConsole(domain);
    await stream.write(Buffer.from('x'));
    const late = setTimeout(() => stream.abort(), 20_000);
    await client.resume(domain);
    let text = '';
    for await (const chunk of stream) {
      text += chunk.toString('latin1');
      if (text.includes('SeaBIOS')) break;
    }
    clearTimeout(late);
    assert.match(text, /SeaBIOS/);
    assert.equal(await own.getUri(), uri);
  } finally {
    await own.close();
  }
});

test('a memory dump is written by the daemon', async () => {
  const domain = await client.createDomain(await client.defineXml(domainXml('dump')));
  const target = path.join(daemon.directory, 'config/memory.dump');
  await client.coreDumpWithFormat(domain, target, 0, 16, { timeoutMs: 60_000 });
  assert.ok(existsSync(target));
});

test('kill -9 of the daemon in the middle of a call is CONNECTION_LOST; QEMU lives and is found again', async () => {
  const connector = new LibvirtConnector({
    connect: { socketPath: daemon.socketPath, uri },
    backoff: { baseMs: 50, maxMs: 200 },
  });
  const connections: number[] = [];
  connector.onConnected((count) => connections.push(count));
  const seen: string[] = [];
  await connector.start(AbortSignal.timeout(10_000));
  try {
    await connector.subscribe('lifecycle', ({ event, detail }) => seen.push(`${event}/${detail}`));
    const domain = await connector.createDomain(await connector.defineXml(domainXml('survivor')));
    const qemuPid = await daemon.qemuPid('survivor');
    process.kill(daemon.pid, 'SIGSTOP');
    const pending = connector.getState(domain);
    const lost = assert.rejects(pending, (error) => isLibvirtError(error, 'CONNECTION_LOST'));
    await daemon.kill('SIGKILL');
    await lost;
    await eventually(() => assert.equal(connector.isConnected, false));
    await assert.rejects(connector.getState(domain), (error) => isLibvirtError(error, 'CONNECTION_LOST'));
    process.kill(qemuPid, 0);

    seen.length = 0;
    await daemon.launch();
    await eventually(() => assert.deepEqual(connections, [1, 2]));
    await eventually(async () => assert.equal((await connector.getState(domain)).state, DomainState.RUNNING));
    assert.equal(await daemon.qemuPid('survivor'), qemuPid);
    await connector.suspend(domain);
    await eventually(() => assert.deepEqual(seen, ['3/0']));
    await connector.destroy(domain);
  } finally {
    await connector.stop();
  }
});

test('a connector waits for a daemon that is not there yet, when told to', async () => {
  await daemon.kill();
  const connector = new LibvirtConnector({
    connect: { socketPath: daemon.socketPath, uri: 'test:///default' },
    backoff: { baseMs: 20, maxMs: 100 },
    outageWaitMs: 20_000,
  });
  await assert.rejects(connector.start(AbortSignal.timeout(200)), (error) => isLibvirtError(error, 'CONNECT_FAILED'));
  const waiting = connector.getUri();
  await daemon.launch();
  assert.equal(await waiting, 'test:///default');
  await connector.stop();
  await assert.rejects(connector.getUri(), (error) => isLibvirtError(error, 'CONNECTION_LOST'));
});
