import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { CapabilityFiles, type CapabilityFilesOptions } from '../../../../../src/agent/node/labels/index.ts';
import { type Clock, silentLogger, systemClock } from '../../../../../src/base/index.ts';
import { eventually } from '../../../../fixtures/eventually.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';
import { hostsDir } from './facts.ts';

let root: string;
let dir: string;
let opened: CapabilityFiles[] = [];

beforeEach(async () => {
  root = await mkdtemp(path.join(tmpdir(), 'labels-'));
  dir = path.join(root, 'kubevirt-node-labeller');
});

afterEach(async () => {
  for (const files of opened) await files.stop();
  opened = [];
  await rm(root, { recursive: true, force: true });
});

async function open(
  options: Partial<CapabilityFilesOptions> = {},
  clock: Clock = systemClock,
): Promise<CapabilityFiles> {
  const sysctlDir = path.join(root, 'sys');
  const files = new CapabilityFiles(
    { dir, arch: 'amd64', sysctlDir, optional: false, graceMs: 0, ...options },
    { log: silentLogger, clock },
  );
  opened.push(files);
  await files.start();
  return files;
}

const host = (name: string, to = dir) => cp(path.join(hostsDir, name), to, { recursive: true });
const modelOf = (files: CapabilityFiles) => {
  const { domain } = files.facts();
  return domain.kind === 'known' ? domain.value.hostModel?.name : domain.because;
};
const reasons = (files: CapabilityFiles) => files.problems().map(({ reason, message }) => `${reason} ${message}`);

test('all that the files of a host say is known, and there is no problem', async () => {
  await host('intel-nested');
  await mkdir(path.join(root, 'sys/kernel'), { recursive: true });
  await writeFile(path.join(root, 'sys/kernel/sched_rt_runtime_us'), '-1\n');
  const files = await open();
  const { domain, machine, features, foreignArchs, realtime } = files.facts();
  assert.deepEqual(
    [domain, machine, features, foreignArchs, realtime].map(({ kind }) => kind),
    ['known', 'known', 'known', 'known', 'known'],
  );
  assert.deepEqual(foreignArchs.kind === 'known' && foreignArchs.value, ['arm64']);
  assert.equal(realtime.kind === 'known' && realtime.value, true);
  assert.deepEqual(files.problems(), []);
});

test('files that are not there are a problem each, where somebody promised them', async () => {
  const files = await open();
  assert.deepEqual(
    reasons(files).map((text) => /^\w+ .*\/(\w+\.xml): it is not there: the init container/.exec(text)?.[1]),
    ['virsh_domcapabilities.xml', 'capabilities.xml', 'supported_features.xml'],
  );
  assert.ok(files.problems().every(({ source, sinceMs }) => source === 'libvirt-files' && sinceMs > 0));
  assert.deepEqual((await open({ optional: true })).problems(), []);
  assert.equal((await open({ arch: 'arm64' })).problems().length, 2, 'arm64 has no list of features');
  assert.deepEqual((await open({ arch: 'riscv64' })).problems(), [], 'nobody writes files there');
});

test('files nobody promised are a problem from the time on at which their directory was there', async () => {
  const files = await open({ optional: true });
  assert.deepEqual(files.problems(), []);
  await mkdir(dir);
  await eventually(() => assert.equal(files.problems().length, 3));
  await host('intel-nested');
  await eventually(() => assert.deepEqual([modelOf(files), ...reasons(files)], ['Skylake-Client-noTSX-IBRS']));
  await rm(dir, { recursive: true });
  await eventually(() => assert.equal(files.problems().length, 3));
});

test('a directory that comes later is noticed, also when its parents come later still', async () => {
  dir = path.join(root, 'a/b/kubevirt-node-labeller');
  const files = await open();
  assert.equal(files.problems().length, 3);
  await mkdir(path.dirname(dir), { recursive: true });
  await host('real-nested-kvm');
  await eventually(() => assert.deepEqual([modelOf(files), ...reasons(files)], ['kvm64']));
});

test('files that change are read again, and listeners hear of it', async () => {
  await host('intel-cascadelake');
  const files = await open();
  let heard = 0;
  files.onChange(() => heard++);
  await host('amd-milan-snp');
  await eventually(() => assert.equal(modelOf(files), 'EPYC-Milan'));
  assert.ok(heard > 0);
});

test('a directory that is replaced as a whole is followed', async () => {
  await host('intel-cascadelake');
  const files = await open();
  await host('amd-milan-snp', path.join(root, 'new'));
  await rename(dir, path.join(root, 'old'));
  await rename(path.join(root, 'new'), dir);
  await eventually(() => assert.equal(modelOf(files), 'EPYC-Milan'));
  await host('intel-nested');
  await eventually(() => assert.equal(modelOf(files), 'Skylake-Client-noTSX-IBRS'));
});

test('what was known stays known while a file is torn, absurd, gone or another thing, and the problem is told', async () => {
  await host('amd-milan-snp');
  const files = await open();
  const file = path.join(dir, 'virsh_domcapabilities.xml');
  const bad: readonly [how: string, make: () => Promise<unknown>, reason: RegExp][] = [
    ['empty', () => writeFile(file, ''), /^CapabilityFileUnusable .*it is empty; what was read before still counts/],
    ['torn', () => writeFile(file, '<domainCapabilities><cpu>'), /^CapabilityFileUnusable/],
    ['absurd', () => writeFile(file, '<'.repeat(10_000_000)), /^CapabilityFileUnusable .*10000000 bytes/],
    ['gone', () => rm(file), /^CapabilityFileMissing/],
    ['a directory', () => mkdir(file), /^CapabilityFileUnusable .*no plain file/],
    ['a link', () => rm(file, { recursive: true }).then(() => symlink('/etc/passwd', file)), /^CapabilityFileUnusable/],
    ['a pipe', () => rm(file).then(() => spawnSync('mkfifo', [file])), /^CapabilityFileUnusable .*no plain file/],
  ];
  for (const [how, make, reason] of bad) {
    await make();
    await files.read();
    assert.equal(modelOf(files), 'EPYC-Milan', how);
    assert.equal(files.problems().length, 1, how);
    assert.match(reasons(files)[0] ?? '', reason, how);
  }
  await rm(file);
  await host('intel-cascadelake');
  await files.read();
  assert.deepEqual([modelOf(files), ...reasons(files)], ['Cascadelake-Server-noTSX']);
});

test('a file that is written anew is no problem, one that stays unusable for a minute is', async () => {
  await host('amd-milan-snp');
  const clock = new FakeClock();
  const files = await open({ graceMs: 60_000 }, clock);
  let heard = 0;
  files.onChange(() => heard++);
  await writeFile(path.join(dir, 'capabilities.xml'), '');
  await files.read();
  clock.advance(59_000);
  assert.deepEqual([files.problems().length, heard], [0, 0]);
  await host('amd-milan-snp');
  await files.read();
  clock.advance(600_000);
  assert.deepEqual([files.problems().length, heard], [0, 0]);
  await rm(path.join(dir, 'capabilities.xml'));
  await files.read();
  clock.advance(61_000);
  assert.deepEqual([files.problems().length, heard], [1, 1]);
});

test('a file that was never good leaves its facts unknown, and the other files count', async () => {
  await host('amd-milan-snp');
  await writeFile(path.join(dir, 'supported_features.xml'), '<cpu');
  const files = await open();
  const { features, domain } = files.facts();
  assert.deepEqual([features.kind, domain.kind], ['unknown', 'known']);
  assert.equal(files.problems().length, 1);
});

test('a foreign architecture counts when its file can be read, and its own is none', async () => {
  await host('intel-nested');
  await cp(path.join(dir, 'virsh_domcapabilities.xml'), path.join(dir, 'virsh_domcapabilities_x86_64.xml'));
  await writeFile(path.join(dir, 'virsh_domcapabilities_aarch64.xml'), 'error: no emulator');
  const files = await open();
  const { foreignArchs } = files.facts();
  assert.deepEqual(foreignArchs.kind === 'known' && foreignArchs.value, []);
  assert.deepEqual(files.problems(), []);
});

test('a foreign architecture stays known while its file is written anew, and goes with the file', async () => {
  await host('intel-nested');
  const files = await open();
  const archs = () => {
    const { foreignArchs } = files.facts();
    return foreignArchs.kind === 'known' ? foreignArchs.value : [];
  };
  const file = path.join(dir, 'virsh_domcapabilities_aarch64.xml');
  for (const torn of ['', '<domainCapabilities><cpu>']) {
    await writeFile(file, torn);
    await files.read();
    assert.deepEqual(archs(), ['arm64']);
  }
  await rm(file);
  await files.read();
  assert.deepEqual(archs(), []);
});

test('nothing is told when a change changes nothing', async () => {
  await host('intel-cascadelake');
  const files = await open();
  let heard = 0;
  files.onChange(() => heard++);
  await host('intel-cascadelake');
  await files.read();
  assert.equal(heard, 0);
});
