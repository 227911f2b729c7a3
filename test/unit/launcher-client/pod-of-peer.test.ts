import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { checkedPeer } from '../../../src/launcher-client/pod-of-peer.ts';

const pod = '0d6f1b3a-1c2d-4e5f-8a9b-0c1d2e3f4a5b';
const other = 'ffffffff-1c2d-4e5f-8a9b-0c1d2e3f4a5b';
const underscored = (uid: string) => uid.replaceAll('-', '_');
const socketFile = `/var/lib/kubelet/pods/${pod}/volumes/kubernetes.io~empty-dir/sockets/launcher-sock`;
const bornMs = 1_000_000;

interface Situation {
  readonly cgroups?: string | undefined;
  readonly own?: string;
  readonly isProven?: boolean;
  readonly startedMs?: number;
  readonly isAlive?: boolean;
  readonly file?: string;
  readonly born?: number;
  /** How far the clock was set forward. */
  readonly stepMs?: number;
}

function check({
  cgroups,
  own = '0::/',
  isProven = true,
  startedMs = bornMs,
  isAlive = true,
  file = socketFile,
  born = bornMs,
  stepMs = 0,
}: Situation) {
  const peer = { pid: 42, startTime: '1', uid: 107, gid: 107, isProven };
  const facts = {
    cgroupsOf: (pid: number | 'self') => (pid === 'self' ? own : cgroups),
    isProcessAlive: () => isAlive,
    startedMs: () => startedMs,
    clockStepMs: () => stepMs,
  };
  return checkedPeer(peer, { socketFile: file, bornMs: born }, facts);
}

const ofPod: Readonly<Record<string, (uid: string) => string>> = {
  'systemd, cgroup v2': (uid) =>
    `0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${underscored(uid)}.slice/cri-containerd-abc.scope`,
  'systemd, guaranteed': (uid) => `0::/kubepods.slice/kubepods-pod${underscored(uid)}.slice/crio-abc.scope/container`,
  'cgroupfs, cgroup v1': (uid) =>
    `12:pids:/kubepods/burstable/pod${uid}/abc\n11:cpu,cpuacct:/kubepods/burstable/pod${uid}/abc\n`,
  'seen from a pod with a cgroup namespace': (uid) =>
    `0::/../../kubepods-besteffort-pod${underscored(uid)}.slice/cri-containerd-abc.scope`,
  'our pod runner': (uid) => `1:name=systemd:/system.slice\n0::/virt-node/${uid}`,
};

for (const [what, cgroupsOf] of Object.entries(ofPod)) {
  suite(`a process that listens on a pod's socket, by its cgroups: ${what}`, () => {
    test('is the pod’s, on an old kernel, too, however young', () => {
      assert.equal(check({ cgroups: cgroupsOf(pod) }).pid, 42);
      assert.equal(check({ cgroups: cgroupsOf(pod), isProven: false, startedMs: bornMs + 3_600_000 }).pid, 42);
    });

    test('is another pod’s, whoever it is', () => {
      assert.throws(() => check({ cgroups: cgroupsOf(other) }), { code: 'NO_PEER', message: new RegExp(other) });
      assert.throws(() => check({ cgroups: cgroupsOf(other), isProven: false }), { code: 'NO_PEER' });
    });
  });
}

test('a pod that names cgroups of its own after another pod stays what it is', () => {
  const within = (outer: string, inner: string) => `${ofPod['systemd, cgroup v2']?.(outer)}/pod${inner}`;
  assert.equal(check({ cgroups: within(pod, other) }).pid, 42);
  assert.throws(() => check({ cgroups: within(other, pod) }), { code: 'NO_PEER' });
});

test('a pod around the whole node says nothing of the pods in it', () => {
  const own = `0::/kubepods/pod${other}/abc`;
  assert.equal(check({ own, cgroups: `${own}/kubelet/kubepods/pod${pod}/def` }).pid, 42);
  assert.equal(check({ own, cgroups: own }).pid, 42);
});

test('without a word of cgroups a process is believed when the kernel proved it, or when it is as old as its socket', () => {
  for (const cgroups of [undefined, '', '0::/', '0::/user.slice/session-1.scope', 'x'.repeat(100_000)]) {
    assert.equal(check({ cgroups, startedMs: bornMs + 3_600_000 }).pid, 42);
    assert.equal(check({ cgroups, isProven: false }).pid, 42);
    assert.throws(() => check({ cgroups, isProven: false, startedMs: bornMs + 3_000 }), {
      code: 'NO_PEER',
      message: /began after the socket was made/,
    });
  }
});

test('a file system that tells no birth time says nothing of the age', () => {
  assert.equal(check({ cgroups: '0::/', isProven: false, startedMs: 1_800_000_000_000, born: 0 }).pid, 42);
});

test('a clock that was set forward since makes no launcher a foreign one', () => {
  const situation = { cgroups: '0::/', isProven: false, startedMs: bornMs + 3_600_000 };
  assert.equal(check({ ...situation, stepMs: 3_600_000 }).pid, 42);
  assert.throws(() => check({ ...situation, stepMs: 3_590_000 }), { code: 'NO_PEER' });
});

test('a bare UUID is a pod only right below the standalone node’s cgroup', () => {
  for (const cgroups of [
    `0::/${other}`,
    `0::/machine.slice/${other}`,
    `0::/virt-node/x/${other}`,
    `0::/jobs/${other}/${other}`,
  ]) {
    assert.equal(check({ cgroups }).pid, 42, cgroups);
  }
  const young = { isProven: false, startedMs: bornMs + 3_600_000 };
  assert.throws(() => check({ cgroups: `0::/jobs/${pod}`, ...young }), { code: 'NO_PEER' }, 'nor a proof');
});

test('what was read of a process that ended meanwhile is nobody’s', () => {
  assert.throws(() => check({ cgroups: ofPod['our pod runner']?.(pod), isProven: false, isAlive: false }), {
    code: 'NO_PEER',
  });
});

test('a socket outside of the pods belongs to whoever listens', () => {
  assert.equal(check({ file: '/run/other.sock', cgroups: ofPod['our pod runner']?.(other) }).pid, 42);
});
