import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Pod } from '../../../src/api/index.ts';
import { decidePod, type PodObservation, type SandboxState } from '../../../src/standalone/index.ts';

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

function seen(changes: Partial<PodObservation>): PodObservation {
  return {
    pod: pod('Pending'),
    sandbox: sandboxes.none,
    terminatingSinceMs: undefined,
    nowMs: 100_000,
    isDraining: false,
    ...changes,
  };
}

describe('decidePod', () => {
  const table: readonly [string, Partial<PodObservation>, string, string][] = [
    ['a new pod is started', {}, 'new', 'start'],
    ['a running pod is left alone', { sandbox: sandboxes.running, pod: pod('Running') }, 'up', 'none'],
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
      'and told only once',
      { pod: pod('Running', { graceSeconds: 30 }), sandbox: sandboxes.running, terminatingSinceMs: 99_000 },
      'ending',
      'none',
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
    ['a pod that ended is only reported', { pod: pod('Running'), sandbox: sandboxes.exited }, 'down', 'none'],
    ['a lost pod is only reported', { pod: pod('Running'), sandbox: sandboxes.lost }, 'down', 'none'],
    ['a pod that ran is never started again', { pod: pod('Running'), sandbox: sandboxes.none }, 'record-lost', 'none'],
    ['a final pod is left alone', { pod: pod('Failed'), sandbox: sandboxes.exited }, 'final', 'none'],
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
    ['a node that stops starts nothing', { isDraining: true }, 'draining', 'none'],
  ];
  for (const [title, changes, rule, action] of table) {
    test(title, () => {
      const decision = decidePod(seen(changes));
      assert.deepEqual([decision.rule, decision.action], [rule, action]);
    });
  }

  test('every rule that the matrix shows has a row', () => {
    const matrix = readFileSync('test/unit/standalone/pod-runner/matrix.golden.txt', 'utf8');
    const shown = new Set([...matrix.matchAll(/^([a-z-]+) +\| .* \| .* \| /gm)].map(([, rule]) => rule));
    assert.ok(shown.size > 10, 'the matrix is read');
    assert.deepEqual([...shown].sort(), [...new Set(table.map(([, , rule]) => rule))].sort());
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
            const { action } = decidePod(seen({ pod: pod(phase, deleted), sandbox, isDraining }));
            const lives = sandbox.kind === 'running' || sandbox.kind === 'starting';
            assert.equal(action === 'finish', deleted !== undefined && !lives);
            assert.notEqual(action, 'remove');
          }
        }
      }
    }
  });
});
