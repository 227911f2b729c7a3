import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import { type PodView, projectPodStatus, statusDiffers } from '../../../../src/standalone/index.ts';

const gate = 'kubevirt.io/virtual-machine-unpaused';

function pod(status?: Pod['status']): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', uid: 'u' },
    spec: { containers: [{ name: 'compute', image: 'launcher' }], readinessGates: [{ conditionType: gate }] },
    ...(status && { status }),
  };
}

const now = new Date('2026-01-02T03:04:05Z');
const init = { pid: 7, startTicks: '1', bootId: '0' };
const up = { kind: 'running', startedAtMs: now.getTime(), init } as const;
const view = (changes: Partial<PodView>): PodView => ({
  sandbox: { kind: 'none' },
  obstacle: undefined,
  hostIp: '127.0.0.1',
  podIps: [],
  now,
  logTail: '',
  isDraining: false,
  probes: undefined,
  ...changes,
});
const exited = (exitCode: number) => ({ kind: 'exited', startedAtMs: 0, finishedAtMs: 1000, exitCode }) as const;
const condition = (status: Pod['status'], type: string) => status?.conditions?.find((found) => found.type === type);

test('a pod with an obstacle stays Pending, its container waits for that reason', () => {
  const obstacle = { reason: 'ErrImagePull', message: 'put it there' };
  const status = projectPodStatus(pod(), view({ obstacle }));
  assert.equal(status.phase, 'Pending');
  assert.deepEqual(status.containerStatuses?.[0]?.state, { waiting: obstacle });
  assert.equal(status.podIP, undefined);
});

test('a running pod has an address and a ready container; Ready waits for the readiness gate', () => {
  const closed = projectPodStatus(pod(), view({ sandbox: up }));
  assert.equal(closed.phase, 'Running');
  assert.equal(closed.podIP, '127.0.0.1');
  assert.equal(closed.containerStatuses?.[0]?.ready, true);
  assert.equal(condition(closed, 'Ready')?.reason, 'ReadinessGatesNotReady');
  const open = pod({ conditions: [{ type: gate, status: 'True' }] });
  assert.equal(condition(projectPodStatus(open, view({ sandbox: up })), 'Ready')?.status, 'True');
});

test('a container with a readiness probe is ready when that says so, and until it has spoken stays as it was reported', () => {
  const probed = (status?: Pod['status']) => {
    const made = pod({ conditions: [{ type: gate, status: 'True' }], ...status });
    Object.assign(made.spec.containers[0] ?? {}, { readinessProbe: { tcpSocket: { port: 80 } } });
    return made;
  };
  const said = (isReady: boolean) => view({ sandbox: up, probes: { isReady, unhealthy: undefined } });
  const unready = projectPodStatus(probed(), said(false));
  assert.deepEqual([unready.phase, unready.containerStatuses?.[0]?.ready], ['Running', false]);
  for (const type of ['ContainersReady', 'Ready']) {
    const { status, reason, message } = condition(unready, type) ?? {};
    assert.deepEqual([status, reason], ['False', 'ContainersNotReady']);
    assert.equal(message, 'containers with unready status: [compute]');
  }
  assert.equal(condition(projectPodStatus(probed(), said(true)), 'Ready')?.status, 'True');
  assert.equal(projectPodStatus(probed(), view({ sandbox: up })).containerStatuses?.[0]?.ready, false);
  const before = projectPodStatus(probed(), said(true));
  const restarted = projectPodStatus(probed({ ...before }), view({ sandbox: up }));
  assert.equal(restarted.containerStatuses?.[0]?.ready, true);
  const ended = projectPodStatus(probed({ ...before }), view({ sandbox: exited(0) }));
  assert.equal(ended.containerStatuses?.[0]?.ready, false);
});

test('the log of the guest is a container that runs as long as the pod, and is no failure of its', () => {
  const logged = pod();
  logged.spec.initContainers = [
    { name: 'guest-console-log', command: ['/usr/bin/virt-tail'], restartPolicy: 'Always' },
  ];
  const state = (changes: Partial<PodView>) => projectPodStatus(logged, view(changes)).initContainerStatuses?.[0];
  assert.deepEqual(state({})?.state, { waiting: { reason: 'PodInitializing' } });
  assert.ok(state({ sandbox: up })?.state?.running);
  assert.equal(state({ sandbox: up })?.ready, true);
  assert.equal(state({ sandbox: exited(2) })?.state?.terminated?.exitCode, 0);
});

test('exit code 0 is Succeeded, any other Failed with the end of the log', () => {
  assert.equal(projectPodStatus(pod(), view({ sandbox: exited(0) })).phase, 'Succeeded');
  const failed = projectPodStatus(pod(), view({ sandbox: exited(2), logTail: 'why' }));
  assert.equal(failed.phase, 'Failed');
  assert.equal(failed.containerStatuses?.[0]?.state?.terminated?.message, 'why');
  assert.equal(failed.containerStatuses?.[0]?.state?.terminated?.exitCode, 2);
});

test('a pod that ran and left no trace is Failed, with a status that says that nobody knows', () => {
  for (const sandbox of [{ kind: 'lost', startedAtMs: 0 }, { kind: 'none' }] as const) {
    const status = projectPodStatus(pod({ phase: 'Running' }), view({ sandbox }));
    assert.equal(status.phase, 'Failed');
    assert.equal(status.containerStatuses?.[0]?.state?.terminated?.reason, 'ContainerStatusUnknown');
  }
});

test('the time of a condition stays while its status does', () => {
  const first = projectPodStatus(pod(), view({ sandbox: up }));
  const later = projectPodStatus(pod(first), view({ sandbox: up, now: new Date('2027-01-01T00:00:00Z') }));
  assert.equal(condition(later, 'ContainersReady')?.lastTransitionTime, '2026-01-02T03:04:05Z');
});

test('the same status is not written again, whatever the order of its fields; conditions of others do not count', () => {
  const wanted = projectPodStatus(pod(), view({ sandbox: up }));
  const reordered = Object.fromEntries(Object.entries(structuredClone(wanted)).reverse());
  const current = pod({
    ...reordered,
    conditions: [...(wanted.conditions ?? []), { type: 'example.com/other', status: 'False' }],
  });
  assert.equal(statusDiffers(current, wanted), false);
  assert.equal(statusDiffers(pod(), wanted), true);
  const ended = projectPodStatus(current, view({ sandbox: exited(0) }));
  assert.equal(statusDiffers(current, ended), true);
});
