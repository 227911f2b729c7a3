import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { DomainLock, MetadataCache, VmiSync } from '../../../../src/launcher/lifecycle/index.ts';
import { MemoryDump } from '../../../../src/launcher/memory-dump/index.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const log = silentLogger;
const file = 'small-dump-20260102-030405.memory.dump';

async function guestWithVolume(t: TestContext, give = async (_file: string): Promise<void> => undefined) {
  const dir = mkdtempSync(path.join(tmpdir(), 'dump-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const [hotplugDir, volume] = [path.join(dir, 'hotplug-disks'), path.join(dir, 'hotplug-disks/dump')];
  mkdirSync(volume, { recursive: true });
  const hypervisor = new MemoryHypervisor();
  const domain = await hypervisor.define('<domain><name>default_small</name></domain>');
  await hypervisor.start(domain, { paused: false });
  hypervisor.calls.length = 0;
  const clock = new FakeClock();
  const newMetadata = () => new MetadataCache({ file: path.join(dir, 'state.json') }, { log });
  const metadata = newMetadata();
  const options = { domainName: 'default_small', hotplugDir: `${hotplugDir}/` };
  const given: string[] = [];
  const giveToQemu = (to: string) => {
    given.push(to);
    return give(to);
  };
  const newDump = (of = metadata) => new MemoryDump(options, { hypervisor, metadata: of, giveToQemu, log, clock });
  return {
    dir,
    hotplugDir,
    volume,
    hypervisor,
    metadata,
    newMetadata,
    newDump,
    clock,
    given,
    at: path.join(volume, file),
  };
}

test('a dump begins at once, and how it ended is in the metadata of the domain', async (t) => {
  const { hypervisor, metadata, newDump, at, clock, given } = await guestWithVolume(t);
  const dump = newDump();
  let end: () => void = assert.fail;
  hypervisor.onDump = (to) => {
    writeFileSync(to, 'ELF');
    return new Promise((resolve) => {
      end = resolve;
    });
  };
  await dump.begin(at);
  const { StartTimestamp, ...begun } = metadata.metadata.MemoryDump ?? {};
  assert.equal(typeof StartTimestamp, 'string');
  const open = { FileName: file, EndTimestamp: null, Completed: false, Failed: false, FailureReason: '' };
  assert.deepEqual(begun, open);
  assert.deepEqual(given, []);
  clock.advance(90_000);
  while (end === assert.fail) await new Promise(setImmediate);
  end();
  await dump.settled();
  assert.deepEqual(given, [at], 'who exports the claim cannot read it');
  const ended = metadata.metadata.MemoryDump;
  assert.deepEqual(ended, { ...open, StartTimestamp, EndTimestamp: ended?.EndTimestamp, Completed: true });
  assert.equal(Date.parse(String(ended?.EndTimestamp)) - Date.parse(String(StartTimestamp)), 90_000);
});

test('the same file again, and another one meanwhile, begin nothing', async (t) => {
  const { hypervisor, newDump, at } = await guestWithVolume(t);
  const dump = newDump();
  await Promise.all([dump.begin(at), dump.begin(at.replace('03', '04')), dump.begin(at)]);
  await dump.settled();
  await dump.begin(at);
  assert.equal(hypervisor.calls.filter((call) => call === 'dumpMemory').length, 1);
});

test('earlier dumps make room, and a link with the name of the new one is not followed', async (t) => {
  const { dir, hypervisor, metadata, volume, newDump, at } = await guestWithVolume(t);
  writeFileSync(path.join(dir, 'precious'), '');
  writeFileSync(path.join(volume, 'small-dump-20250102-030405.memory.dump'), '');
  writeFileSync(path.join(volume, 'other'), '');
  symlinkSync(path.join(dir, 'precious'), at);
  let found: string[] = [];
  hypervisor.onDump = async () => {
    found = readdirSync(volume);
  };
  const dump = newDump();
  await dump.begin(at);
  await dump.settled();
  assert.equal(metadata.metadata.MemoryDump?.Completed, true);
  assert.deepEqual(found, ['other']);
  assert.ok(readdirSync(dir).includes('precious'));
});

const failures: readonly (readonly [text: string, told: RegExp])[] = [
  ['unable to write: No space left on device', /^the claim is too small: it needs room for the whole memory/],
  ['failed to create file: Permission denied', /^QEMU may not write to the claim: .*Permission denied/],
  ['dump: failed to save memory', /failed to save memory/],
];
for (const [text, told] of failures) {
  test(`a failure is told: ${text}`, async (t) => {
    const { hypervisor, metadata, newDump, at } = await guestWithVolume(t);
    hypervisor.failures.set('dumpMemory', new LibvirtError('OPERATION_FAILED', text));
    const dump = newDump();
    await dump.begin(at);
    await dump.settled();
    const { Failed, Completed, FailureReason, EndTimestamp } = metadata.metadata.MemoryDump ?? {};
    assert.deepEqual([Failed, Completed, typeof EndTimestamp], [true, false, 'string']);
    assert.match(String(FailureReason), told);
  });
}

test('a volume that is a device or not there is told as a failure', async (t) => {
  const { hotplugDir, metadata, newDump } = await guestWithVolume(t);
  writeFileSync(path.join(hotplugDir, 'block'), '');
  const dump = newDump();
  for (const [volume, told] of [
    ['block', /volume block is no file system: .* volumeMode Filesystem/],
    ['gone', /volume gone is not there yet/],
  ] as const) {
    await dump.begin(path.join(hotplugDir, volume, `${volume}.memory.dump`));
    await dump.settled();
    assert.match(String(metadata.metadata.MemoryDump?.FailureReason), told);
  }
});

test('no other place is written to', async (t) => {
  const { hypervisor, hotplugDir, metadata, newDump } = await guestWithVolume(t);
  const places = [
    '',
    file,
    `/etc/${file}`,
    `${hotplugDir}/${file}`,
    `${hotplugDir}/dump/../../${file}`,
    `${hotplugDir}/dump/deeper/${file}`,
    `${hotplugDir}/dump/passwd`,
    `${hotplugDir}/dump/a\n.memory.dump`,
  ];
  for (const place of places) {
    await assert.rejects(newDump().begin(place), { code: 'INVALID_REQUEST' }, place);
  }
  assert.deepEqual(hypervisor.calls, []);
  assert.equal(metadata.metadata.MemoryDump, null);
});

test('a guest that does not run has no memory', async (t) => {
  const { hypervisor, newDump, at } = await guestWithVolume(t);
  hypervisor.end('default_small', 1);
  await assert.rejects(newDump().begin(at), { code: 'INVALID_REQUEST', message: /does not run/ });
});

test('a sync meanwhile does not resume the guest that stands still, and one afterwards does', async (t) => {
  const { hypervisor, metadata, newDump, at } = await guestWithVolume(t);
  const dump = newDump();
  let end: () => void = assert.fail;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  hypervisor.onDump = () => ended;
  await dump.begin(at);
  hypervisor.pretend('default_small', 3, 1);
  const lock = new DomainLock({ maxWaitMs: 1000 }, { clock: systemClock });
  const nothing = async () => undefined;
  const prepare = () => assert.fail();
  const deps = { hypervisor, lock, metadata, prepare, syncDisks: nothing, syncNetwork: nothing, log };
  const sync = new VmiSync({ domainName: 'default_small' }, deps);
  await sync.sync(launcherVmi(), {});
  assert.equal(hypervisor.calls.includes('resume'), false);
  end();
  await dump.settled();
  await sync.sync(launcherVmi(), {});
  assert.equal(hypervisor.calls.includes('resume'), true);
});

test('a dump that the launcher’s restart cut off has failed; one that was over stays as it was', async (t) => {
  const { hypervisor, metadata, newMetadata, newDump, at } = await guestWithVolume(t);
  hypervisor.onDump = () => new Promise(() => undefined);
  await newDump().begin(at);
  const again = newMetadata();
  newDump(again).start();
  assert.match(String(again.metadata.MemoryDump?.FailureReason), /started again meanwhile/);
  assert.equal(again.metadata.MemoryDump?.FileName, file);
  const once = again.metadata.MemoryDump;
  newDump(again).start();
  assert.equal(again.metadata.MemoryDump, once);
  assert.notDeepEqual(metadata.metadata.MemoryDump, once);
});

test('a dump that cannot be given to QEMU’s user is whole all the same', async (t) => {
  const { metadata, newDump, at } = await guestWithVolume(t, async () => {
    throw Object.assign(new Error('EPERM: operation not permitted, fchown'), { code: 'EPERM' });
  });
  const dump = newDump();
  await dump.begin(at);
  await dump.settled();
  const { Completed, Failed } = metadata.metadata.MemoryDump ?? {};
  assert.deepEqual([Completed, Failed], [true, false]);
});
