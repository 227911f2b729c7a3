import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { daemonConf, qemuConf } from '../../../../src/launcher/daemon/config.ts';
import { findQemuUser, makePodDirectories, ownSerialLog, requireOwnPod } from '../../../../src/launcher/daemon/pod.ts';
import { podPaths } from '../../../../src/launcher/daemon/pod-paths.ts';
import { watchForHang } from '../../../../src/launcher/daemon/start-libvirt.ts';
import { DaemonSupervisor, daemonEnvironment, findDaemonProgram } from '../../../../src/launcher/daemon/supervisor.ts';
import { parseLauncherFlags } from '../../../../src/launcher/flags.ts';
import { eventually } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { launcherArgs } from '../../../fixtures/launcher-vmi.ts';

let dir: string;
let supervisor: DaemonSupervisor | undefined;

beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), 'daemon-'));
});
afterEach(async () => {
  await supervisor?.stop();
  supervisor = undefined;
  rmSync(dir, { recursive: true, force: true });
});

const paths = () => ({ runDir: dir, qemuConfFile: '', qemuPidFile: '', qemuLogDir: '' });

const hostUuid = 'a2b0b8c4-7d0d-4a5c-9a55-b4b6b4a1d5f0';

/** A program in place of libvirtd. */
function program(script: string) {
  const file = path.join(dir, 'virtqemud');
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return { name: 'virtqemud', file, socketName: 'virtqemud-sock' } as const;
}

function supervise(script: string): DaemonSupervisor {
  const options = { program: program(script), paths: paths(), configFile: '/c', env: process.env, restartDelayMs: 20 };
  supervisor = new DaemonSupervisor(options, { log: silentLogger });
  return supervisor;
}

test('virtqemud is preferred, libvirtd is taken, neither is an error that says what to install', () => {
  assert.throws(() => findDaemonProgram([dir]), { code: 'DAEMON_FAILED', message: /install libvirt-daemon-system/ });
  writeFileSync(path.join(dir, 'libvirtd'), '', { mode: 0o755 });
  assert.equal(findDaemonProgram([dir]).socketName, 'libvirt-sock');
  writeFileSync(path.join(dir, 'virtqemud'), '', { mode: 0o755 });
  assert.equal(findDaemonProgram([dir]).socketName, 'virtqemud-sock');
});

test('a daemon that ends is started again, one that hangs is killed first, and stop ends it for good', async () => {
  const daemon = supervise('exec sleep 100');
  await daemon.start();
  await eventually(() => assert.ok(daemon.pid));
  const first = daemon.pid;
  process.kill(first ?? 0, 'SIGKILL');
  await eventually(() => assert.ok(daemon.restarts === 1 && daemon.pid && daemon.pid !== first));
  daemon.killHung();
  await eventually(() => assert.equal(daemon.restarts, 2));
  await daemon.stop();
  assert.equal(daemon.pid, undefined);
});

test('a daemon that cannot start is tried again, and its last words are kept', async () => {
  const daemon = supervise('echo first >&2\necho "cannot open libfoo.so: install it" >&2\nexit 127');
  await daemon.start();
  assert.equal(daemon.lastEnd, undefined);
  await eventually(() => assert.ok(daemon.restarts >= 2));
  assert.equal(daemon.lastEnd, 'virtqemud ended with code 127: cannot open libfoo.so: install it');
  rmSync(path.join(dir, 'virtqemud'));
  await eventually(() => assert.match(daemon.lastEnd ?? '', /ENOENT/));
});

test('a socket at which another daemon answers already is not taken over', async () => {
  const daemon = supervise('exec sleep 100');
  const other = net.createServer((socket) => socket.on('error', () => undefined));
  await new Promise<void>((resolve) => other.listen(daemon.socketPath, resolve));
  await assert.rejects(daemon.start(), { code: 'FOREIGN_DAEMON' });
  assert.equal(daemon.pid, undefined);
  other.close();
});

test('libvirtd is reached at the socket of virtqemud, too, and takes that from no daemon that serves it', async () => {
  const libvirtd = { ...program('exec sleep 100'), name: 'libvirtd', socketName: 'libvirt-sock' } as const;
  const options = { program: libvirtd, paths: paths(), configFile: '/c', env: process.env, restartDelayMs: 20 };
  supervisor = new DaemonSupervisor(options, { log: silentLogger });
  const link = path.join(dir, 'virtqemud-sock');
  const other = net.createServer((socket) => socket.on('error', () => undefined));
  await new Promise<void>((resolve) => other.listen(link, resolve));
  await assert.rejects(supervisor.start(), { code: 'FOREIGN_DAEMON' });
  await new Promise((resolve) => other.close(resolve));
  symlinkSync('a-stale-one', link);
  await supervisor.start();
  assert.equal(readlinkSync(link), 'libvirt-sock');
});

test('a session daemon gets its directories from XDG variables, a root daemon does not', () => {
  const xdg = { runtimeDir: '/r', configDir: '/c', cacheDir: '/k' };
  const env = daemonEnvironment({ PATH: '/bin' }, { ...paths(), xdg });
  assert.deepEqual(env, {
    PATH: '/bin',
    HOME: '/k',
    XDG_RUNTIME_DIR: '/r',
    XDG_CONFIG_HOME: '/c',
    XDG_CACHE_HOME: '/k',
  });
  assert.deepEqual(daemonEnvironment({ PATH: '/bin' }, paths()), { PATH: '/bin' });
});

test('qemu.conf: QEMU writes its own logs, runs as the given user, and quotes cannot leave a value', () => {
  const user = { name: 'qemu', uid: 107, gid: 108 };
  const text = qemuConf({
    paths: paths(),
    hostUuid,
    hugepages: true,
    qemuUser: user,
    sharedFilesystems: ['/a"\nuser = "root'],
  });
  assert.match(text, /^stdio_handler = "file"$/m);
  assert.match(text, /^user = "\+107"\ngroup = "\+108"$/m);
  assert.match(text, /^hugetlbfs_mount = "\/dev\/hugepages"$/m);
  assert.match(text, /^shared_filesystems = \[ "\/auser = root" \]$/m);
  assert.doesNotMatch(qemuConf({ paths: paths(), hostUuid, hugepages: false }), /user =|hugetlbfs/);
  assert.match(daemonConf({ hostUuid, logFilters: '1:qemu' }), /log_outputs = "1:stderr"\nlog_filters = "1:qemu"/);
  assert.match(daemonConf({ hostUuid }), new RegExp(`^host_uuid = "${hostUuid}"$`, 'm'));
});

test('QEMU runs as qemu, else as libvirt-qemu with its own group, else as libvirt says', async () => {
  mkdirSync(path.join(dir, 'etc'));
  const files = { passwd: path.join(dir, 'etc/passwd'), group: path.join(dir, 'etc/group') };
  assert.equal(await findQemuUser(files), undefined);
  writeFileSync(files.passwd, 'root:x:0:0::/:/bin/sh\nlibvirt-qemu:x:64055:108::/:/bin/false\n');
  writeFileSync(files.group, 'kvm:x:108:\nlibvirt-qemu:x:64055:\n');
  assert.deepEqual(await findQemuUser(files), { name: 'libvirt-qemu', uid: 64055, gid: 64055 });
  writeFileSync(files.passwd, 'libvirt-qemu:x:64055:108::/:/bin/false\nqemu:x:107:107::/:/bin/false\n');
  assert.deepEqual(await findQemuUser(files), { name: 'qemu', uid: 107, gid: 107 });
});

test('a daemon without an answer for long is reported once per period, one that comes back is left alone', () => {
  const clock = new FakeClock();
  let connected = true;
  let hung = 0;
  const stop = watchForHang(
    { checkMs: 1000, goneMs: 5000 },
    { isConnected: () => connected, onHung: () => hung++, clock },
  );
  clock.advance(60_000);
  assert.equal(hung, 0);
  connected = false;
  clock.advance(4000);
  connected = true;
  clock.advance(1000);
  connected = false;
  clock.advance(4999);
  assert.equal(hung, 0);
  clock.advance(6000);
  assert.equal(hung, 2);
  stop();
  assert.equal(clock.timers, 0);
});

test('pitfall 11: directories of the pod that are gone are made again, with the log of the serial console, and what is there stays', async () => {
  const parsed = parseLauncherFlags([...launcherArgs]);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const pod = podPaths(flags, 'default_small', dir);
  // Nobody but root can give files away.
  const owner = { name: 'qemu', uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  await makePodDirectories(pod, owner);
  const log = path.join(pod.vmiDir, 'virt-serial0-log');
  writeFileSync(log, 'booted\n');
  await makePodDirectories(pod, owner);
  assert.equal(readFileSync(log, 'utf8'), 'booted\n');
  rmSync(pod.vmiDir, { recursive: true });
  rmSync(pod.disks.emptyDiskDir, { recursive: true });
  await makePodDirectories(pod, owner);
  assert.deepEqual([statSync(pod.vmiDir).mode & 0o777, statSync(log).mode & 0o777], [0o750, 0o640]);
  assert.ok(existsSync(pod.disks.emptyDiskDir));
});

test('a serial log that libvirt has made anew belongs to QEMU again; a link in its place is left alone', async () => {
  const parsed = parseLauncherFlags([...launcherArgs]);
  const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
  const pod = podPaths(flags, 'default_small', dir);
  const own = { name: 'qemu', uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  await makePodDirectories(pod, own);
  const log = path.join(pod.vmiDir, 'virt-serial0-log');
  const qemu = own.uid === 0 ? { name: 'qemu', uid: 107, gid: 107 } : own;
  await ownSerialLog(pod, qemu);
  assert.deepEqual([statSync(log).uid, statSync(log).gid], [qemu.uid, qemu.gid]);
  rmSync(log);
  await assert.rejects(ownSerialLog(pod, own), { code: 'ENOENT' });
  symlinkSync('/etc/hostname', log);
  await assert.rejects(ownSerialLog(pod, own), { code: 'ELOOP' });
});

test('as root outside of a pod the launcher refuses to touch the machine', async () => {
  mkdirSync(path.join(dir, '2'));
  writeFileSync(path.join(dir, '2/comm'), 'sh\n');
  await requireOwnPod(dir);
  await requireOwnPod(path.join(dir, 'none'));
  writeFileSync(path.join(dir, '2/comm'), 'kthreadd\n');
  await assert.rejects(requireOwnPod(dir), { code: 'FOREIGN_DAEMON', message: /must run in a pod/ });
});
