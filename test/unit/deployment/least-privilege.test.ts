import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';

/** The overlay without `privileged`, and the profiles that belong to it. That the agent runs under them is shown in test/kubelet. */

const read = (file: string) => parse(readFileSync(path.join('daemonset', file), 'utf8'));
const patch = read('overlays/least-privilege/daemonset.yaml').spec.template.spec;
const [agent] = patch.containers;
const [installer] = patch.initContainers;

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly args?: readonly { readonly index: number; readonly value: number; readonly op: string }[];
  readonly comment: string;
}
const profile: { defaultAction: string; defaultErrnoRet: number; architectures: string[]; syscalls: Rule[] } =
  JSON.parse(readFileSync('image/security/seccomp.json', 'utf8'));
const allowed = profile.syscalls.filter(({ action }) => action === 'SCMP_ACT_ALLOW');
const allowedNames = allowed.flatMap(({ names }) => names);

suite('the overlay least-privilege', () => {
  test('asks for the capabilities that the table of the guide has a reason for, and no others', () => {
    const [, table = ''] = readFileSync('daemonset/README.md', 'utf8').split('## Rights on the node');
    const rows =
      table
        .split('\n## ')[0]
        ?.split('\n')
        .filter((line) => /^\| `[A-Z_]+` \|/.test(line)) ?? [];
    const reported = rows.map((line) => line.split('`')[1]);
    assert.deepEqual(agent.securityContext.capabilities, { drop: ['ALL'], add: reported });
  });

  test('is not privileged, gains nothing, and writes nothing to its root file system', () => {
    for (const { securityContext } of [agent, installer]) {
      assert.deepEqual(
        [
          securityContext.privileged ?? false,
          securityContext.allowPrivilegeEscalation,
          securityContext.readOnlyRootFilesystem,
        ],
        [false, false, true],
      );
    }
    assert.deepEqual(installer.securityContext.capabilities, { drop: ['ALL'] });
  });

  test('brings the profile that it names to where a kubelet looks for it', () => {
    const base = read('base/daemonset.yaml').spec.template.spec;
    const [{ name, mountPath }] = installer.volumeMounts;
    const volume = base.volumes.find((each: { name: string }) => each.name === name);
    assert.equal(volume.hostPath.path, '/var/lib/kubelet/seccomp');
    const { localhostProfile } = agent.securityContext.seccompProfile;
    assert.equal(installer.command.at(-1), path.posix.join(mountPath, localhostProfile));
  });

  test('has the image of this version for its own init container, by the name that overlays replace', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
    assert.equal(installer.image, `localhost/virt-handler:${version}`);
  });

  test('mounts for its one path of other propagation what the base mounts there', () => {
    const base = read('base/daemonset.yaml').spec.template.spec.containers[0].volumeMounts;
    const [{ mountPropagation: _own, ...mount }] = agent.volumeMounts;
    const { mountPropagation: _base, ...found } = base.find((each: { name: string }) => each.name === mount.name);
    assert.deepEqual(mount, found);
  });
});

suite('the seccomp profile', () => {
  test('refuses what it does not name', () => {
    assert.deepEqual([profile.defaultAction, profile.defaultErrnoRet], ['SCMP_ACT_ERRNO', 1]);
    assert.deepEqual(profile.architectures, ['SCMP_ARCH_X86_64', 'SCMP_ARCH_AARCH64']);
  });

  test('names no call that reaches into the kernel, other processes, mounts, or for more rights', () => {
    const never =
      'acct add_key adjtimex bpf capset chroot clock_settime clone3 delete_module fanotify_init finit_module fork fsconfig fsmount ' +
      'fsopen init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl ' +
      'memfd_create memfd_secret mknod mknodat mount mount_setattr move_mount move_pages name_to_handle_at open_by_handle_at ' +
      'open_tree perf_event_open personality pidfd_getfd pivot_root process_madvise process_vm_readv process_vm_writev ptrace ' +
      'quotactl reboot request_key sethostname setns setgid setresgid setresuid setuid settimeofday swapoff swapon syslog umount2 ' +
      'unshare userfaultfd vfork vhangup vmsplice';
    assert.deepEqual(
      never.split(' ').filter((name) => allowedNames.includes(name)),
      [],
    );
  });

  test('lets threads be made, no processes, and sockets of four families', () => {
    const rulesOf = (name: string) => allowed.filter(({ names }) => names.includes(name));
    const threads = { index: 0, value: 0x10000, valueTwo: 0x10000, op: 'SCMP_CMP_MASKED_EQ' };
    assert.deepEqual(
      rulesOf('clone').map(({ args }) => args),
      [[threads]],
    );
    const families = rulesOf('socket').map(({ args = [] }) => args.map(({ index, value, op }) => [index, value, op]));
    assert.deepEqual(
      families,
      [1, 2, 10, 16].map((family) => [[0, family, 'SCMP_CMP_EQ']]),
    );
  });

  test('names each call once, and says of each group why', () => {
    const names = profile.syscalls.filter(({ args }) => !args).flatMap((rule) => rule.names);
    assert.equal(new Set(names).size, names.length);
    for (const { comment } of profile.syscalls) assert.ok(comment.length > 5);
  });

  test('is put in place as a whole, over an older one and over half of one, by its program', () => {
    const dir = mkdtempSync(path.join(os.tmpdir(), 'seccomp-'));
    try {
      const places = ['usr/lib/virt-handler/bin', 'usr/share/virt-handler'].map((place) => path.join(dir, place));
      for (const place of places) mkdirSync(place, { recursive: true });
      const program = path.join(places[0] ?? '', 'install-seccomp-profile.mjs');
      copyFileSync('image/security/install-seccomp-profile.js', program);
      copyFileSync('image/security/seccomp.json', path.join(places[1] ?? '', 'seccomp.json'));
      const target = path.join(dir, 'seccomp/virt-handler/agent.json');
      for (const before of ['', 'old', '.new']) {
        if (before === 'old') copyFileSync('package.json', target);
        if (before === '.new') copyFileSync('package.json', `${target}.new`);
        const { status, stderr } = spawnSync(process.execPath, [program, target], { encoding: 'utf8' });
        assert.equal(status, 0, stderr);
        assert.deepEqual(JSON.parse(readFileSync(target, 'utf8')), profile);
        assert.deepEqual(readdirSync(path.dirname(target)), ['agent.json']);
      }
      assert.equal(statSync(path.dirname(target)).mode & 0o022, 0);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});

test('the AppArmor profile has the capabilities of the overlay, and forbids mounting and tracing', () => {
  const text = readFileSync('image/security/apparmor.profile', 'utf8');
  const named = [...text.matchAll(/^ {2}capability (\w+),$/gm)].map(([, name = '']) => name.toUpperCase());
  assert.deepEqual(named, agent.securityContext.capabilities.add);
  for (const rule of ['deny mount,', 'deny ptrace (trace, tracedby),']) assert.ok(text.includes(`  ${rule}\n`), rule);
  const named2 = read('components/apparmor/daemonset.yaml').spec.template.spec.containers[0].securityContext
    .appArmorProfile;
  assert.match(text, new RegExp(`^profile ${named2.localhostProfile} `, 'm'));
});
