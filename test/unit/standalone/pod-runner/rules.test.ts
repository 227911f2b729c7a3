import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Pod } from '../../../../src/api/index.ts';
import { decidePod, podRules, type SandboxState } from '../../../../src/standalone/index.ts';
import { observationOf, type PodSituation } from './observation.ts';

const identity = { pid: 7, startTicks: '1', bootId: '0' };
const sandboxes: Readonly<Record<SandboxState['kind'], SandboxState>> = {
  none: { kind: 'none' },
  starting: { kind: 'starting', startedAtMs: 1 },
  running: { kind: 'running', startedAtMs: 1, init: identity },
  exited: { kind: 'exited', startedAtMs: 1, finishedAtMs: 2, exitCode: 0 },
  lost: { kind: 'lost', startedAtMs: 1 },
};

function pod(
  phase: NonNullable<Pod['status']>['phase'],
  deleted: { graceSeconds: number } | undefined = undefined,
): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'p',
      uid: 'u',
      ...(deleted && { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: deleted.graceSeconds }),
    },
    spec: { containers: [{ name: 'compute' }], terminationGracePeriodSeconds: 60 },
    ...(phase && { status: { phase } }),
  };
}

function probed(): Pod {
  const made = pod('Running');
  Object.assign(made.spec.containers[0] ?? {}, { livenessProbe: { tcpSocket: { port: 80 } } });
  return made;
}

function withSecret(): Pod {
  const made = pod('Running');
  return { ...made, spec: { ...made.spec, volumes: [{ name: 's', secret: { secretName: 's' } }] } };
}

const running = (startedAtMs: number): SandboxState => ({ kind: 'running', startedAtMs, init: identity });

function seen(changes: Partial<PodSituation>) {
  return observationOf({
    pod: pod('Pending'),
    sandbox: sandboxes.none,
    terminatingSinceMs: undefined,
    nowMs: 100_000,
    isDraining: false,
    ...changes,
  });
}

/** The plans that the rules' rows name. */
const plans: Readonly<Record<string, readonly string[]>> = {
  nothing: [],
  start: ['startSandbox'],
  terminate: ['terminateSandbox'],
  kill: ['killSandbox'],
  'rotate log': ['rotateLog'],
  probe: ['rotateLog', 'keepProbes'],
  refresh: ['rotateLog', 'refreshObjects'],
  'release disks': ['releaseDisks'],
  remove: ['releaseDisks', 'removeFiles'],
  finish: ['releaseDisks', 'reportEnd', 'removeFiles', 'deletePod'],
};

describe('decidePod', () => {
  const table: readonly [string, Partial<PodSituation>, string, string][] = [
    ['a new pod is started', {}, 'new', 'start'],
    ['a running pod is left alone', { sandbox: sandboxes.running, pod: pod('Running') }, 'up', 'rotate log'],
    ['a running pod with probes is asked', { sandbox: sandboxes.running, pod: probed() }, 'up', 'probe'],
    ['one that only starts is not', { sandbox: sandboxes.starting, pod: probed() }, 'up', 'rotate log'],
    [
      'one that is not ready is left alone',
      { sandbox: sandboxes.running, pod: probed(), probes: { isReady: false, unhealthy: undefined } },
      'up',
      'probe',
    ],
    [
      'one whose secrets were looked at long ago gets them anew',
      { sandbox: running(1), pod: withSecret(), objectsAtMs: 80_000 },
      'up',
      'refresh',
    ],
    ['not before its time', { sandbox: running(1), pod: withSecret(), objectsAtMs: 80_001 }, 'up', 'rotate log'],
    [
      'those of a pod that has just been started are new',
      { sandbox: running(80_001), pod: withSecret() },
      'up',
      'rotate log',
    ],
    ['those of a runner before are old', { sandbox: running(80_000), pod: withSecret() }, 'up', 'refresh'],
    [
      'one whose liveness probe failed is told to end',
      { sandbox: sandboxes.running, pod: probed(), probes: { isReady: true, unhealthy: 'why' } },
      'unhealthy',
      'terminate',
    ],
    [
      'it is waited for, also when it is forgotten why it was told so',
      { sandbox: sandboxes.running, pod: probed(), terminatingSinceMs: 99_000 },
      'ending',
      'terminate',
    ],
    [
      'and killed when its grace period is over',
      { sandbox: sandboxes.running, pod: probed(), terminatingSinceMs: 30_000 },
      'grace-over',
      'kill',
    ],
    [
      'a pod that is gone from the API is killed',
      { pod: undefined, sandbox: sandboxes.running },
      'orphan-runs',
      'kill',
    ],
    [
      'a starting pod that is gone is killed, too',
      { pod: undefined, sandbox: sandboxes.starting },
      'orphan-runs',
      'kill',
    ],
    [
      'files of a pod that is gone are deleted',
      { pod: undefined, sandbox: sandboxes.exited },
      'orphan-files',
      'remove',
    ],
    [
      'a deleted pod is told to end',
      { pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.running },
      'must-end',
      'terminate',
    ],
    [
      'and told again while it runs: who told it first may have died before it did',
      { pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.running, terminatingSinceMs: 99_000 },
      'ending',
      'terminate',
    ],
    [
      'what is being started is waited for',
      { pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.starting, terminatingSinceMs: 99_000 },
      'ending',
      'nothing',
    ],
    [
      'and killed when its grace is over',
      { pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.running, terminatingSinceMs: 70_000 },
      'grace-over',
      'kill',
    ],
    [
      'no grace: killed at once',
      { pod: pod('Running', { graceSeconds: 0 }), sandbox: sandboxes.running },
      'grace-over',
      'kill',
    ],
    [
      'a deleted pod that ended is reported, cleaned and taken out of the API',
      { pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.exited },
      'ended',
      'finish',
    ],
    [
      'a deleted pod that never ran, too',
      { pod: pod('Pending', { graceSeconds: 30 }), sandbox: sandboxes.none },
      'ended',
      'finish',
    ],
    ['a pod that ended is only reported', { pod: pod('Running'), sandbox: sandboxes.exited }, 'down', 'release disks'],
    ['a lost pod is only reported', { pod: pod('Running'), sandbox: sandboxes.lost }, 'down', 'release disks'],
    [
      'a pod that ran is never started again',
      { pod: pod('Running'), sandbox: sandboxes.none },
      'record-lost',
      'nothing',
    ],
    ['a final pod is left alone', { pod: pod('Failed'), sandbox: sandboxes.exited }, 'final', 'release disks'],
    [
      'a final pod with living processes is killed',
      { pod: pod('Failed'), sandbox: sandboxes.running },
      'final-runs',
      'kill',
    ],
    [
      'a node that stops tells its pods to end',
      { pod: pod('Running'), sandbox: sandboxes.running, isDraining: true },
      'must-end',
      'terminate',
    ],
    ['a node that stops starts nothing', { isDraining: true }, 'draining', 'nothing'],
  ];
  for (const [title, changes, rule, plan] of table) {
    test(title, () => {
      const decision = decidePod(seen(changes));
      assert.deepEqual([decision.rule, decision.steps.map(({ step }) => step)], [rule, plans[plan]]);
    });
  }

  test('every rule has a row and a sentence', () => {
    const tested = new Set(table.map(([, , rule]) => rule));
    assert.deepEqual(podRules.map(({ name }) => name).sort(), [...tested].sort());
    for (const { name, why } of podRules) assert.match(why, /^[A-Z].*\.$/, name);
  });

  test('a pod that must end is looked at again at the latest when its grace is over', () => {
    const decision = decidePod(
      seen({ pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.running, terminatingSinceMs: 70_400 }),
    );
    assert.equal(decision.requeueAfterMs, 400);
  });

  test('it is total: every mixture has a decision, and nothing but an ended pod is taken out of the API', () => {
    for (const sandbox of Object.values(sandboxes)) {
      for (const phase of ['Pending', 'Running', 'Succeeded', 'Failed', undefined] as const) {
        for (const graceSeconds of [undefined, 0, 30]) {
          for (const isDraining of [false, true]) {
            const deleted = graceSeconds === undefined ? undefined : { graceSeconds };
            const { steps } = decidePod(seen({ pod: pod(phase, deleted), sandbox, isDraining }));
            const names = steps.map(({ step }) => step);
            const lives = sandbox.kind === 'running' || sandbox.kind === 'starting';
            assert.equal(names.includes('deletePod'), deleted !== undefined && !lives);
            assert.equal(names.includes('removeFiles'), names.includes('deletePod'));
          }
        }
      }
    }
  });
});
