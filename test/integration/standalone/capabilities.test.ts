import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { CapabilityFiles } from '../../../src/agent/node/labels/index.ts';
import { planLabels } from '../../../src/agent/node/labels/plan.ts';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { Capabilities, type NodePaths, nodePaths, Sandboxes } from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';

const isRoot = process.getuid?.() === 0;
const hasLibvirt = existsSync('/usr/sbin/libvirtd') && existsSync('/usr/bin/virsh');
const skip = isRoot && hasLibvirt ? false : 'this asks a real libvirt in namespaces: it needs root, libvirtd and virsh';

describe('what libvirt says about this machine', { skip }, () => {
  let root: string;
  let paths: NodePaths;

  before(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'capabilities-'));
    paths = nodePaths(root);
  });

  after(() => rm(root, { recursive: true, force: true }));

  async function ask(kvm: 'works' | 'fails' = 'fails'): Promise<void> {
    const capabilities = new Capabilities({ paths, kvm, arch: process.arch }, { log: silentLogger });
    await capabilities.start();
    await capabilities.done();
    await capabilities.stop();
  }

  test('becomes labels of the node: its files are those that the agent reads', async () => {
    await ask();
    const arch = { x64: 'amd64', arm64: 'arm64' }[process.arch as string] ?? process.arch;
    const options = { dir: paths.labellerDir, arch, sysctlDir: '/proc/sys', optional: false };
    const files = new CapabilityFiles(options, { log: silentLogger, clock: systemClock });
    await files.start();
    await files.stop();
    assert.deepEqual(files.problems(), []);
    const { labels } = planLabels(files.facts(), { obsoleteModels: undefined, crossArchitecture: false });
    const machine = process.arch === 'x64' ? 'q35' : 'virt';
    assert.equal(labels.get(`machine-type.node.kubevirt.io/${machine}`), 'true');
    assert.deepEqual(await readdir(paths.runDir), ['capabilities-key'], 'nothing else is left');
  });

  test('is asked once: the next start finds the files', async () => {
    const file = path.join(paths.labellerDir, 'capabilities.xml');
    const { ino } = await stat(file);
    await ask();
    assert.equal((await stat(file)).ino, ino);
  });

  test('is asked again when a file is gone or another, or KVM support is, and what was left from before goes', async () => {
    const key = path.join(paths.runDir, 'capabilities-key');
    await writeFile(path.join(paths.labellerDir, 'virsh_domcapabilities_ppc64.xml'), '<old/>');
    await writeFile(key, (await readFile(key, 'utf8')).replace('fails', 'works'));
    await ask();
    await rm(path.join(paths.labellerDir, 'supported_features.xml'), { force: true });
    await ask();
    await writeFile(path.join(paths.labellerDir, 'capabilities.xml'), '<torn');
    await ask();
    assert.match(await readFile(path.join(paths.labellerDir, 'capabilities.xml'), 'utf8'), /<\/capabilities>/);
    const files = await readdir(paths.labellerDir);
    assert.equal(files.includes('supported_features.xml'), process.arch === 'x64');
    assert.ok(files.includes('capabilities.xml') && !files.includes('virsh_domcapabilities_ppc64.xml'), files.join());
  });

  async function startLibvirtInPod(kvm: 'works' | 'fails'): Promise<void> {
    const learnt = path.join(paths.libvirtCacheDir, 'qemu/capabilities');
    const names = (await readdir(learnt)).filter((name) => name.endsWith('.xml')).sort();
    assert.ok(names.length > 0);
    const sandboxes = new Sandboxes({ ...paths, cgroupRoot: undefined, programs: [] });
    const inodes = `stat -c '%n %i' ${names.map((name) => `/var/cache/libvirt/qemu/capabilities/${name}`).join(' ')}`;
    const script = [
      `printf '%s\\n' 'user = "+107"' 'group = "+107"' 'security_driver = "none"' >/etc/libvirt/qemu.conf`,
      `printf '%s\\n' 'auth_unix_rw = "none"' 'auth_unix_ro = "none"' >/run/libvirtd.conf`,
      `before=$(${inodes})`,
      'libvirtd -f /run/libvirtd.conf &',
      'until virsh -c qemu:///system version >/dev/null 2>&1; do kill -0 $! || exit 3; sleep 0.1; done',
      'virsh -c qemu:///system capabilities >/dev/null || exit 4',
      `[ "$before" = "$(${inodes})" ]`,
    ].join('\n');
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
    const logFile = path.join(root, 'pod.log');
    const pod = {
      uid: 'p',
      namespace: 'default',
      name: 'p',
      argv: ['/bin/sh', '-c', script],
      env,
      mounts: [],
      logFile,
    };
    await sandboxes.start({ ...pod, kvm });
    await eventually(async () => assert.equal((await sandboxes.inspect('p')).kind, 'exited'), 60_000);
    const ended = await sandboxes.inspect('p');
    assert.equal(ended.kind === 'exited' && ended.exitCode, 0, await readFile(logFile, 'utf8'));
    await sandboxes.remove('p');
  }

  test('a pod’s libvirt finds what the node’s learnt about QEMU, in a copy of its own, and asks no QEMU again', async () => {
    await startLibvirtInPod('fails');
  });

  const noKvm = existsSync('/dev/kvm') ? false : 'this machine has no /dev/kvm';
  test('so does that of a pod that may use KVM', { skip: noKvm }, async () => {
    await ask('works');
    await startLibvirtInPod('works');
    await ask();
  });

  test('is asked again when what it learnt about QEMU is gone, which pods get copies of', async () => {
    const learnt = path.join(paths.libvirtCacheDir, 'qemu/capabilities');
    await rm(learnt, { recursive: true });
    await ask();
    assert.ok((await readdir(learnt)).length > 0);
  });

  test('is asked while the probe runs, as if KVM did not work, and published when the probe says so', async () => {
    const other = nodePaths(path.join(root, 'guessed'));
    const probe = new EventEmitter<{ answer: ['works' | 'fails'] }>();
    const kvm = once(probe, 'answer').then(([answer]): 'works' | 'fails' => answer);
    const options = { paths: other, kvm, arch: process.arch, guessAfterMs: 0 };
    const capabilities = new Capabilities(options, { log: silentLogger });
    await capabilities.start();
    const out = path.join(other.runDir, 'capabilities/out/capabilities.xml');
    await eventually(async () => assert.match(await readFile(out, 'utf8'), /<\/capabilities>/), 60_000);
    assert.ok(!existsSync(other.labellerDir), 'published before it is known');
    probe.emit('answer', 'fails');
    await capabilities.done();
    assert.match(await readFile(path.join(other.labellerDir, 'capabilities.xml'), 'utf8'), /<\/capabilities>/);
    assert.deepEqual(await readdir(other.runDir), ['capabilities-key']);
  });

  test('a guess that was wrong is given up, and what is published is of the answer', { skip: noKvm }, async () => {
    const other = nodePaths(path.join(root, 'wrong'));
    const probe = new EventEmitter<{ answer: ['works' | 'fails'] }>();
    const kvm = once(probe, 'answer').then(([answer]): 'works' | 'fails' => answer);
    const options = { paths: other, kvm, arch: process.arch, guessAfterMs: 0 };
    const capabilities = new Capabilities(options, { log: silentLogger });
    await capabilities.start();
    await eventually(() => assert.ok(existsSync(path.join(other.runDir, 'capabilities/out'))));
    probe.emit('answer', 'works');
    await capabilities.done();
    const asked = await readFile(path.join(other.labellerDir, 'virsh_domcapabilities.xml'), 'utf8');
    assert.match(asked, /<domain>kvm<\/domain>/);
    assert.match(await readFile(path.join(other.runDir, 'capabilities-key'), 'utf8'), /works/);
  });

  test('nothing is mounted or runs on the host after it was stopped in the middle', async () => {
    await rm(paths.labellerDir, { recursive: true });
    const options = { paths, kvm: 'fails' as const, arch: process.arch };
    const capabilities = new Capabilities(options, { log: silentLogger });
    await capabilities.start();
    await eventually(() => assert.ok(existsSync(path.join(paths.runDir, 'capabilities/out'))));
    await capabilities.stop();
    assert.ok(!(await readFile('/proc/self/mountinfo', 'utf8')).includes(root));
    assert.ok(!existsSync(path.join(paths.runDir, 'capabilities')));
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      assert.ok(!command.includes(root), `${pid} still runs: ${command}`);
    }
  });

  test('an architecture without virtual machines has no files, and that harms nothing', async () => {
    const other = nodePaths(path.join(root, 'other'));
    const capabilities = new Capabilities({ paths: other, kvm: 'fails', arch: 'riscv64' }, { log: silentLogger });
    await capabilities.start();
    await capabilities.stop();
    assert.ok(!existsSync(other.labellerDir));
  });
});
