import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import {
  appendFile,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { sleep } from '../../../src/base/index.ts';
import {
  findCgroupRoot,
  isAlive,
  LoopDevices,
  mountsBelow,
  Sandboxes,
  type SandboxMount,
  type SandboxPlan,
  type SandboxState,
  shareMounts,
  signalProcess,
  unshareMounts,
  virtTail,
} from '../../../src/standalone/index.ts';
import { eventually } from '../../fixtures/eventually.ts';

const execute = promisify(execFile);
const needsRoot = process.getuid?.() === 0 ? false : 'sandboxes mount: this test needs root';

const needsLoop = needsRoot || (existsSync('/dev/loop-control') ? false : 'there are no loop devices');

describe('pod sandbox', { skip: needsRoot }, () => {
  let dir: string;
  let sandboxes: Sandboxes;
  const uids: string[] = [];

  before(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'virt-sandbox-'));
    sandboxes = await newSandboxes();
  });

  after(async () => {
    for (const uid of uids) {
      await sandboxes.kill(uid);
      await settled(uid);
      await sandboxes.remove(uid);
      const cgroup = sandboxes.cgroupDir(uid);
      assert.ok(!cgroup || !existsSync(cgroup), `${cgroup} is left`);
    }
    await rm(dir, { recursive: true, force: true });
  });

  async function newSandboxes(): Promise<Sandboxes> {
    return new Sandboxes({
      podsDir: path.join(dir, 'pods'),
      libvirtCacheDir: path.join(dir, 'cache'),
      cgroupRoot: await findCgroupRoot('virt-node'),
      programs: [],
    });
  }

  async function plan(uid: string, script: string, changes: Partial<SandboxPlan> = {}): Promise<SandboxPlan> {
    uids.push(uid);
    const shared = path.join(dir, 'pods', uid, 'volumes/kubernetes.io~empty-dir/public');
    await mkdir(shared, { recursive: true });
    return {
      uid,
      namespace: 'default',
      name: `pod-${uid}`,
      argv: ['/bin/sh', '-c', script],
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', POD_NAME: `pod-${uid}` },
      mounts: [{ source: shared, target: '/var/run/kubevirt', readOnly: false, type: 'directory' }],
      kvm: 'fails',
      logFile: path.join(dir, 'logs', uid, 'compute.log'),
      ...changes,
    };
  }

  async function until<Kind extends SandboxState['kind']>(
    uid: string,
    kind: Kind,
  ): Promise<SandboxState & { kind: Kind }> {
    for (const signal = AbortSignal.timeout(20_000); ; await sleep(20, signal)) {
      const state = await sandboxes.inspect(uid);
      if (state.kind === kind) return state as SandboxState & { kind: Kind };
    }
  }

  async function settled(uid: string): Promise<void> {
    for (const signal = AbortSignal.timeout(20_000); ; await sleep(20, signal)) {
      const { kind } = await sandboxes.inspect(uid);
      if (kind !== 'running' && kind !== 'starting') return;
    }
  }

  const fileOf = (uid: string, name: string) =>
    path.join(dir, 'pods', uid, 'volumes/kubernetes.io~empty-dir/public', name);
  const log = (uid: string) => readFile(path.join(dir, 'logs', uid, 'compute.log'), 'utf8');

  async function untilFile(file: string): Promise<string> {
    for (const signal = AbortSignal.timeout(20_000); ; await sleep(20, signal)) {
      const text = await readFile(file, 'utf8').catch(() => '');
      if (text !== '') return text;
    }
  }

  test('the program sees private places, its volume and the user qemu; its output goes to the log and its exit code is kept', async () => {
    const script = [
      'echo hello from $POD_NAME',
      'echo $(ls /run | sort) >/var/run/kubevirt/run',
      'touch /etc/libvirt/x /var/lib/libvirt/x /run/x && id -u qemu >/var/run/kubevirt/uid',
      'echo pid of init: $(cat /proc/1/comm)',
      'stat -c %a /dev/kvm 2>/dev/null',
      'exit 7',
    ].join('\n');
    await sandboxes.start(await plan('a1', script));
    const state = await until('a1', 'exited');
    assert.equal(state.exitCode, 7);
    assert.equal((await readFile(fileOf('a1', 'run'), 'utf8')).trim(), 'kubevirt lock user');
    assert.equal((await readFile(fileOf('a1', 'uid'), 'utf8')).trim(), '107');
    assert.match(await log('a1'), /hello from pod-a1\npid of init: sh\n/);
    await assert.rejects(readFile('/etc/libvirt/x'), { code: 'ENOENT' });
    assert.deepEqual(await mountsBelow(dir), [], 'mounts leaked to the host');
    await sandboxes.remove('a1');
    assert.deepEqual(await sandboxes.inspect('a1'), { kind: 'none' });
    assert.ok(!(await sandboxes.list()).includes('a1'));
  });

  test('of what the machine mounts later the pod sees only what is below a mount that follows it', async () => {
    const podsDir = path.join(dir, 'pods');
    await shareMounts(podsDir);
    await shareMounts(podsDir);
    const plain = await plan('follows', 'echo up >/run/kubevirt/up; while :; do sleep 0.05; done');
    const [shared] = plain.mounts;
    assert.ok(shared);
    const following = path.join(dir, 'pods/follows/volumes/kubernetes.io~empty-dir/following');
    for (const below of [`${following}/late`, `${shared.source}/late`]) await mkdir(below, { recursive: true });
    const mount = { ...shared, source: following, target: '/run/following', followsHost: true } as const;
    await sandboxes.start({ ...plain, mounts: [shared, mount] });
    await untilFile(fileOf('follows', 'up'));
    const state = await until('follows', 'running');
    const seen = () => readFile(`/proc/${state.init.pid}/mountinfo`, 'utf8');
    const places = [`${following}/late`, `${shared.source}/late`];
    try {
      for (const place of places) await execute('mount', ['-n', '-t', 'tmpfs', 'late', place]);
      assert.match(await seen(), / \/run\/following\/late .* - tmpfs late /);
      assert.doesNotMatch(await seen(), / \/run\/kubevirt\/late /);
    } finally {
      for (const place of places) await execute('umount', ['-n', place]);
    }
    assert.doesNotMatch(await seen(), /late/);
    await sandboxes.kill('follows');
    await settled('follows');
    await unshareMounts(podsDir);
    assert.deepEqual(await mountsBelow(dir), [], 'nothing is left on the machine');
  });

  test('a program beside it has a log of its own: that of a file that is yet to come, and begins anew when that is cut', async () => {
    const script =
      '[ ! -e /proc/self/fd/3 ] || echo open; sleep 0.3; printf "one\\033[1m\\n" >/run/kubevirt/serial; echo up >/run/kubevirt/up; while :; do sleep 0.05; done';
    const sideLog = path.join(dir, 'logs/beside/guest-console-log.log');
    const argv = [...virtTail, '--logfile', '/run/kubevirt/serial'];
    await sandboxes.start(await plan('beside', script, { beside: [{ argv, logFile: sideLog }] }));
    await untilFile(fileOf('beside', 'up'));
    const said = () => readFile(sideLog, 'utf8');
    await eventually(async () => assert.equal(await said(), 'one\u001b[1m\n'), 5_000);
    await appendFile(fileOf('beside', 'serial'), 'two\n');
    await eventually(async () => assert.equal(await said(), 'one\u001b[1m\ntwo\n'), 5_000);
    await truncate(fileOf('beside', 'serial'), 0);
    await appendFile(fileOf('beside', 'serial'), 'three\n');
    await eventually(async () => assert.match(await said(), /two\nthree\n$/), 5_000);
    await until('beside', 'running');
    await sandboxes.terminate('beside');
    await settled('beside');
    assert.doesNotMatch(await log('beside'), /one|two|three|open/);
  });

  test('nothing is run in a pod whose root directory is not made yet: it would see the machine’s', async () => {
    await sandboxes.start(await plan('early', 'sleep 1000'));
    await until('early', 'running');
    const run = () => sandboxes.exec('early', { argv: ['true'], env: {}, stdio: 'pipes' });
    await eventually(async () => void (await run()), 10_000);
    await rm(path.join(dir, 'pods/early/sandbox/root-made'));
    await assert.rejects(run, { code: 'SANDBOX', message: /is being made/ });
  });

  test('SIGTERM reaches the program, which may take its time and choose the exit code', async () => {
    await sandboxes.start(
      await plan(
        'b1',
        'trap "echo told; sleep 0.2; exit 0" TERM; echo up >/var/run/kubevirt/up; while :; do sleep 0.05; done',
      ),
    );
    await untilFile(fileOf('b1', 'up'));
    assert.equal(await sandboxes.terminate('b1'), true);
    assert.equal((await until('b1', 'exited')).exitCode, 0);
    assert.match(await log('b1'), /told/);
  });

  test('SIGTERM ends a pod in whatever instant of its start it comes', async () => {
    const instants = Array.from({ length: 40 }, (_, at) => at * 4);
    const endAt = async (afterMs: number) => {
      const uid = `instant-${afterMs}`;
      // As a program in its start: it has no handler of its own.
      await sandboxes.start(await plan(uid, 'exec sleep 1000'));
      let knownMs = Number.POSITIVE_INFINITY;
      for (const signal = AbortSignal.timeout(20_000); performance.now() < knownMs + afterMs; await sleep(1, signal)) {
        const { kind } = await sandboxes.inspect(uid);
        if (kind === 'running') knownMs = Math.min(knownMs, performance.now());
      }
      const askedMs = performance.now();
      assert.equal(await sandboxes.terminate(uid), true);
      const { exitCode } = await until(uid, 'exited');
      return { exitCode, tookMs: performance.now() - askedMs };
    };
    for (const parts = [...instants]; parts.length > 0; ) {
      for (const { exitCode, tookMs } of await Promise.all(parts.splice(0, 4).map(endAt))) {
        assert.equal(exitCode, 143);
        assert.ok(tookMs < 5_000, `${tookMs} ms`);
      }
    }
  });

  test('SIGKILL to process 1 ends what the program left behind, in other sessions too, and leaves no mounts', async () => {
    await sandboxes.start(
      await plan(
        'c1',
        'setsid sleep 1000 & setsid sh -c "echo up >/var/run/kubevirt/up; exec sleep 1000" & sleep 1000',
      ),
    );
    await untilFile(fileOf('c1', 'up'));
    const running = await until('c1', 'running');
    await assert.rejects(sandboxes.remove('c1'), { code: 'SANDBOX' });
    const members = await processesInPidNamespaceOf(running.init.pid);
    assert.ok(members.length >= 4, `only ${members.length} processes in the pod`);
    await sandboxes.kill('c1');
    assert.equal((await until('c1', 'exited')).exitCode, 137);
    const alive = await Promise.all(members.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
    assert.deepEqual(
      alive.filter((cmdline) => cmdline.includes('sleep')),
      [],
    );
    assert.deepEqual(await mountsBelow(dir), []);
  });

  test('a later process finds a running pod again, and a second start of it changes nothing', async () => {
    const program = await plan('d1', 'echo started >>/var/run/kubevirt/starts; sleep 1000');
    await sandboxes.start(program);
    await untilFile(fileOf('d1', 'starts'));
    const before = await until('d1', 'running');
    const later = await newSandboxes();
    await later.start(program);
    const found = await later.inspect('d1');
    assert.deepEqual(found.kind === 'running' && found.init, before.init);
    assert.equal(await isAlive(before.init), true);
    assert.equal(await readFile(fileOf('d1', 'starts'), 'utf8'), 'started\n');
  });

  test('a pod whose shim was killed together with it is lost, not running', async () => {
    await sandboxes.start(await plan('e1', 'sleep 1000'));
    const { init } = await until('e1', 'running');
    const shim = (await readFile(path.join(dir, 'pods/e1/sandbox/shim'), 'utf8')).split(' ');
    process.kill(Number(shim[0]), 'SIGKILL');
    await signalProcess(init, 'SIGKILL');
    await until('e1', 'lost');
  });

  test('a torn record of process 1 does not make a foreign process ours', async () => {
    await sandboxes.start(await plan('f1', 'exit 0'));
    await until('f1', 'exited');
    await rm(path.join(dir, 'pods/f1/sandbox/exit-code'));
    await writeFile(path.join(dir, 'pods/f1/sandbox/pid1'), `${process.pid} 1`);
    await until('f1', 'lost');
    await writeFile(
      path.join(dir, 'pods/f1/sandbox/pid1'),
      `${process.pid} 12345 00000000-0000-0000-0000-000000000000\n`,
    );
    assert.equal((await sandboxes.inspect('f1')).kind, 'lost');
    await sandboxes.kill('f1');
  });

  test('a mount that cannot be made ends the pod with a line that says which', async () => {
    const missing = {
      source: path.join(dir, 'not there'),
      target: '/run/x',
      readOnly: true,
      type: 'directory',
    } as const;
    await sandboxes.start(await plan('g1', 'exit 0', { mounts: [missing] }));
    assert.equal((await until('g1', 'exited')).exitCode, 125);
    assert.match(await log('g1'), /sandbox: cannot bind .*not there at \/run\/x/);
  });

  test('the environment of a pod is its program’s alone: what makes the pod on the host does not obey it', async () => {
    const evil = path.join(dir, 'evil');
    const trace = path.join(dir, 'evil-ran');
    await mkdir(evil);
    for (const name of ['flock', 'unshare', 'mount', 'mkdir', 'mv', 'setpriv', 'env']) {
      await writeFile(path.join(evil, name), `#!/bin/sh\ntouch ${trace}\nexec /usr/bin/${name} "$@"\n`, {
        mode: 0o755,
      });
    }
    const env = { PATH: evil, ENV: path.join(evil, 'mv'), LD_PRELOAD: '/no/such.so', WORDS: "it's $(id) `x`" };
    await sandboxes.start(await plan('i1', '/usr/bin/env', { env }));
    assert.equal((await until('i1', 'exited')).exitCode, 0, await log('i1'));
    assert.match(await log('i1'), /WORDS=it's \$\(id\) `x`/);
    assert.equal(existsSync(trace), false);
  });

  test('of the host a pod has programs, which it cannot change, and no other place', async () => {
    const script = [
      'ls -A / | tr "\\n" " "; echo',
      'ls /etc | tr "\\n" " "; echo',
      'for place in /usr /lib /bin /etc / /proc/sys /sys; do touch "$place/x" 2>/dev/null && echo "wrote to $place"; done',
      'echo x 2>/dev/null >/proc/sys/kernel/hostname && echo "named the host"',
      'mount -t tmpfs tmpfs /mnt 2>/dev/null && echo mounted',
      'mknod /tmp/disk b 8 0 2>/dev/null && echo "made a disk"',
      'cat /proc/1/environ 2>/dev/null && echo "read of process 1"',
      'chroot / true 2>/dev/null && echo "changed its root"',
      'umount /proc/sys 2>/dev/null && echo unmounted',
    ].join('\n');
    await sandboxes.start(await plan('j1', script));
    await until('j1', 'exited');
    const [root = '', etc = '', ...worked] = (await log('j1')).trim().split('\n');
    assert.deepEqual(
      root
        .trim()
        .split(' ')
        .filter((name) => !/^(bin|sbin|lib\w*)$/.test(name)),
      ['dev', 'etc', 'proc', 'root', 'run', 'sys', 'tmp', 'usr', 'var'],
    );
    assert.doesNotMatch(etc, /shadow|ssh|sudoers|cron/);
    assert.match(etc, /passwd/);
    assert.deepEqual(worked, []);
  });

  test('hostile names in the plan stay data', async () => {
    const evil = path.join(dir, "it's $(touch owned-by-pod) `x`");
    await mkdir(evil);
    const mount = { source: evil, target: "/run/it's $(id)", readOnly: true, type: 'directory' } as const;
    const script = `[ -d "/run/it's \\$(id)" ] && ! touch "/run/it's \\$(id)/x"`;
    await sandboxes.start(await plan('h1', script, { mounts: [mount] }));
    assert.equal((await until('h1', 'exited')).exitCode, 0, await log('h1'));
    await assert.rejects(readFile('/owned-by-pod'), { code: 'ENOENT' });
    await assert.rejects(sandboxes.inspect('../../etc'), { code: 'POD_INVALID' });
  });

  test('names that a table of mounts has words for stay names, of directories and of files, of sources and of mount points', async () => {
    const names = [
      'a b\tc',
      'new\nline',
      '#comment',
      'back\\040slash',
      '"quoted"',
      'LABEL=root',
      'ro,exec',
      'ümläut 🐧',
      '%s%n',
    ];
    const mounts: SandboxMount[] = [];
    for (const [index, name] of names.entries()) {
      const source = path.join(dir, 'odd', name);
      await mkdir(source, { recursive: true });
      await writeFile(path.join(source, 'file'), `${index}`);
      const readOnly = index % 2 === 0;
      mounts.push({ source, target: `/run/${name}`, readOnly, type: 'directory' });
      mounts.push({ source: path.join(source, 'file'), target: `/run/files/${name}`, readOnly, type: 'file' });
    }
    const script = [
      `const { readFileSync, writeFileSync } = require('node:fs');`,
      `for (const [index, name] of ${JSON.stringify(names)}.entries())`,
      '  for (const file of ["/run/" + name + "/file", "/run/files/" + name]) {',
      "    if (readFileSync(file, 'latin1') !== String(index)) console.log('another file', file);",
      '    let isWritten = true; try { writeFileSync(file, String(index)); } catch { isWritten = false; }',
      "    if (isWritten === (index % 2 === 0)) console.log('written', isWritten, file);",
      '  }',
    ];
    // In the pod the program is where it is on this machine.
    const program = path.join(dir, 'look.cjs');
    await writeFile(program, script.join('\n'));
    mounts.push({ source: program, target: '/look.cjs', readOnly: true, type: 'file' });
    mounts.push({ source: process.execPath, target: '/run/node', readOnly: true, type: 'file' });
    await sandboxes.start(await plan('odd', 'exec /run/node /look.cjs', { mounts }));
    assert.equal((await until('odd', 'exited')).exitCode, 0, await log('odd'));
    assert.equal(await log('odd'), '');
  });

  test('a file is mounted below a volume that is a mount itself, and what is mounted on a link of a volume stays in the pod', async () => {
    const outer = path.join(dir, 'pods/nested/volumes/kubernetes.io~empty-dir/outer');
    await mkdir(outer, { recursive: true });
    const inner = path.join(dir, 'inner.img');
    await writeFile(inner, 'inner');
    const aim = path.join(dir, 'aim');
    await mkdir(aim);
    await symlink(aim, path.join(outer, 'link'));
    const mounts: SandboxMount[] = [
      { source: outer, target: '/run/outer', readOnly: false, type: 'directory' },
      { source: path.dirname(inner), target: '/run/outer/link/deeper', readOnly: true, type: 'directory' },
      { source: inner, target: '/run/outer/disks/disk.img', readOnly: true, type: 'file' },
    ];
    const script = 'cat /run/outer/disks/disk.img; true 2>/dev/null >/run/outer/disks/disk.img && echo written';
    await sandboxes.start(await plan('nested', script, { mounts }));
    await until('nested', 'exited');
    assert.equal(await log('nested'), 'inner');
    assert.deepEqual(await mountsBelow(dir), [], 'nothing is mounted on the machine');
  });

  test('what a pod writes to libvirt’s cache reaches no other pod and not the node', async () => {
    const learnt = path.join(dir, 'cache/qemu/capabilities');
    await mkdir(learnt, { recursive: true });
    await writeFile(path.join(learnt, 'abc.xml'), '<learnt/>');
    await execute('mkfifo', [path.join(learnt, 'pipe.xml')]);
    await symlink('/etc/shadow', path.join(learnt, 'link.xml'));
    const place = '/var/cache/libvirt/qemu/capabilities';
    const attack = [
      `cat ${place}/abc.xml; ls ${place} | tr "\\n" " "; echo`,
      `rm ${place}/abc.xml && mkfifo ${place}/abc.xml`,
      'mv /var/cache/libvirt/qemu /var/cache/libvirt/old && ln -s /etc /var/cache/libvirt/qemu && echo done',
    ];
    await sandboxes.start(await plan('k1', attack.join('\n')));
    assert.equal((await until('k1', 'exited')).exitCode, 0, await log('k1'));
    assert.equal(await log('k1'), '<learnt/>abc.xml \ndone\n');
    assert.equal(await readFile(path.join(learnt, 'abc.xml'), 'utf8'), '<learnt/>');
    assert.ok((await lstat(path.join(dir, 'cache/qemu'))).isDirectory());
    await sandboxes.start(await plan('k2', `cat ${place}/abc.xml`));
    assert.equal((await until('k2', 'exited')).exitCode, 0, await log('k2'));
    assert.equal(await log('k2'), '<learnt/>');
  });

  test('a mount point with a blank below /usr is read-only in a pod as any other', async () => {
    await withSystemMount('blank in it', async (point) => {
      const script = `touch '${point}/x' 2>/dev/null && echo "wrote"; [ -d '${point}' ]`;
      await sandboxes.start(await plan('l1', script));
      assert.equal((await until('l1', 'exited')).exitCode, 0, await log('l1'));
      assert.equal(await log('l1'), '');
    });
  });

  test('what is mounted below /usr while a pod runs does not appear in it', async () => {
    await withSystemMount('late', async (point) => {
      await mkdir(path.join(point, 'new'));
      const script = [
        'echo up >/var/run/kubevirt/up',
        'while [ ! -e /var/run/kubevirt/go ]; do sleep 0.05; done',
        `touch '${point}/new/x' 2>/dev/null && echo wrote; ls '${point}/new'`,
      ].join('\n');
      await sandboxes.start(await plan('m1', script));
      await untilFile(fileOf('m1', 'up'));
      await execute('mount', ['-n', '-t', 'tmpfs', 'tmpfs', path.join(point, 'new')]);
      await writeFile(path.join(point, 'new/later'), '');
      await writeFile(fileOf('m1', 'go'), '');
      await until('m1', 'exited');
      assert.equal(await log('m1'), '');
    });
  });

  test('a block device is QEMU’s in the pod, in /dev or in a volume of its own, and stays the machine’s outside', {
    skip: needsLoop,
  }, async () => {
    const loops = new LoopDevices();
    const file = path.join(dir, 'disk.img');
    await writeFile(file, Buffer.alloc(1024 * 1024));
    const source = await loops.attach(file);
    try {
      const script = [
        'stat -c "%F %u %a" /dev/data /var/run/kubevirt/data/uid >/var/run/kubevirt/seen.new',
        'setpriv --reuid=107 --regid=107 --clear-groups dd if=/proc/self/cmdline of=/dev/data conv=fsync',
        'mv /var/run/kubevirt/seen.new /var/run/kubevirt/seen',
      ].join('\n');
      const devices = ['/dev/data', '/run/kubevirt/data/uid'].map((target) => ({ source, target }));
      await sandboxes.start(await plan('s1', script, { devices }));
      assert.equal(await untilFile(fileOf('s1', 'seen')), 'block special file 107 660\n'.repeat(2));
      assert.equal((await stat(source)).uid, 0);
      assert.match(await readFile(file, 'latin1'), /^dd\0/);
      assert.equal((await stat(fileOf('s1', 'data/uid'))).rdev, (await stat(source)).rdev);
    } finally {
      await settled('s1');
      await loops.detach(file);
    }
  });

  test('a file that was exchanged after it was looked at is not given to the pod', async () => {
    const source = path.join(dir, 'disk.img');
    await writeFile(source, 'disk');
    const { dev, ino } = await stat(source, { bigint: true });
    const mount = {
      source,
      target: '/run/disk.img',
      readOnly: false,
      type: 'file',
      identity: `${dev}-${ino}`,
    } as const;
    await sandboxes.start(await plan('n1', 'cat /run/disk.img', { mounts: [mount] }));
    assert.equal((await until('n1', 'exited')).exitCode, 0, await log('n1'));
    assert.equal(await log('n1'), 'disk');
    await rename(source, `${source}.old`);
    await symlink('/etc/shadow', source);
    await sandboxes.start(await plan('n2', 'cat /run/disk.img', { mounts: [mount] }));
    assert.equal((await until('n2', 'exited')).exitCode, 125);
    assert.match(await log('n2'), /^sandbox: .*disk\.img was exchanged/);
  });
});

/** A shared mount below /usr, as machines have them; gone afterwards. */
async function withSystemMount(name: string, work: (point: string) => Promise<void>): Promise<void> {
  const top = await mkdtemp('/usr/local/lib/virt-sandbox-');
  const point = path.join(top, name);
  try {
    await mkdir(point);
    await execute('mount', ['-n', '-t', 'tmpfs', 'tmpfs', point]);
    await execute('mount', ['-n', '--make-shared', point]);
    await work(point);
  } finally {
    await execute('umount', ['-n', '-R', point]);
    await rm(top, { recursive: true });
  }
}

async function processesInPidNamespaceOf(pid: number): Promise<number[]> {
  const { readdir, readlink } = await import('node:fs/promises');
  const namespaceOf = (id: number | string) => readlink(`/proc/${id}/ns/pid`).catch(() => '');
  const wanted = await namespaceOf(pid);
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(ids.map(async (id) => ((await namespaceOf(id)) === wanted ? id : undefined)));
  return found.filter((id) => id !== undefined);
}
