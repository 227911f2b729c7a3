import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationState, PersistentVolumeClaim, ResourceType } from '../../../../src/api/index.ts';
import { decideMigration } from '../../../../src/controller/migration/decide.ts';
import type { PresentMigration } from '../../../../src/controller/migration/observation.ts';
import { deleteStateClaim, handStateOver } from '../../../../src/controller/migration/state-steps.ts';
import type { ExecuteContext } from '../../../../src/controller/migration/steps.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { claim } from '../vmi/plugged.ts';
import { buildAttachment, buildTarget, observed, runningVmi, uid } from './situations.ts';

const renderers = { target: () => buildTarget(), attachment: () => buildAttachment() };
const [source, target] = [claim('source'), claim('target')];
const made = { sources: [source], target };
const none = { sources: [source], target: undefined };

/** A guest with a TPM that keeps what it knows. */
function keeping(state?: MigrationState, status: object = {}) {
  const vmi = runningVmi(state, status);
  const domain = { ...vmi.spec.domain, devices: { tpm: { persistent: true } } };
  return { ...vmi, spec: { ...vmi.spec, domain } };
}

const own = (more: MigrationState): MigrationState => ({ migrationUid: uid, targetPod: 'target', ...more });
const there = { kind: 'pod', pod: buildTarget(), isRecorded: true } as const;
type Phase = Parameters<typeof observed>[0];

const rows: readonly (readonly [
  title: string,
  Phase,
  Partial<PresentMigration>,
  rule: string,
  steps: readonly string[],
])[] = [
  [
    'has no claim for the target',
    'Pending',
    { vmi: keeping(), keptState: none },
    'state-claim-for-target',
    ['createStateClaim'],
  ],
  ['has one', 'Pending', { vmi: keeping(), keptState: made }, 'no-target-yet', ['createTargetPod']],
  [
    'keeps nothing',
    'Pending',
    { vmi: runningVmi(), keptState: { sources: [], target: undefined } },
    'no-target-yet',
    ['createTargetPod'],
  ],
  [
    'is on its way',
    'Running',
    { vmi: keeping(own({ startTimestamp: 'now' })), keptState: made, target: there },
    'agents-at-work',
    [],
  ],
  [
    'has arrived',
    'Running',
    { vmi: keeping(own({ completed: true })), keptState: made, target: there },
    'state-arrived',
    ['handStateOver'],
  ],
  [
    'has arrived and shut down before anybody noticed',
    'Running',
    {
      vmi: keeping(own({ targetNodeDomainReadyTimestamp: 'now' }), { phase: 'Succeeded' }),
      keptState: made,
      target: there,
    },
    'state-arrived',
    ['handStateOver'],
  ],
  [
    'failed to arrive',
    'Running',
    { vmi: keeping(own({ completed: true, failed: true })), keptState: made, target: there },
    'reported-failed',
    [],
  ],
  ['stays where it is', 'Failed', { vmi: keeping(), keptState: made }, 'state-claim-left', ['deleteStateClaim']],
  [
    'is gone',
    'Failed',
    { vmi: undefined, sourcePod: undefined, keptState: made },
    'state-claim-left',
    ['deleteStateClaim'],
  ],
  ['has arrived, and its claim is its own', 'Succeeded', { vmi: keeping(), keptState: none }, 'over', []],
];
for (const [title, phase, more, rule, steps] of rows) {
  test(`migration ${phase}, the guest ${title}: ${rule}`, () => {
    const decision = decideMigration(observed(phase, more), renderers);
    assert.deepEqual([decision.rule, decision.steps.map(({ step }) => step)], [rule, steps]);
  });
}

/** What the API server was asked, in order; a claim of `missing` is not there. */
function recorded(missing: readonly string[] = []) {
  const calls: string[] = [];
  const call = async (what: string, { name }: { name: string }) => {
    calls.push(`${what} ${name}`);
    if (missing.includes(name)) throw new KubeError('NOT_FOUND', name);
    return {} as never;
  };
  const client = {
    patch: (_: ResourceType, ref: PersistentVolumeClaim['metadata'], body: object) =>
      call(`patch ${JSON.stringify(body)}`, ref),
    delete: (_: ResourceType, ref: PersistentVolumeClaim['metadata'], options: { uid?: string }) =>
      call(`delete ${options.uid}`, ref),
  };
  const { signal } = new AbortController();
  const context = { client, observation: observed('Running'), signal } as unknown as ExecuteContext;
  return { calls, context };
}

const labels = '"labels":{"persistent-state-for":"vm1","kubevirt.io/migrationName":null}';

test('the target’s claim is the VM’s before that of the source goes, and none goes when there is no other', async () => {
  const { calls, context } = recorded();
  await handStateOver({ step: 'handStateOver', claim: target, sources: [source] }, context);
  assert.deepEqual(calls, [
    `patch {"metadata":{"uid":"uid-claim-target",${labels}}} target`,
    'delete uid-claim-source source',
  ]);
  const gone = recorded(['target']);
  await handStateOver({ step: 'handStateOver', claim: target, sources: [source] }, gone.context);
  assert.equal(gone.calls.length, 1);
});

test('a claim that is gone already needs no deletion', async () => {
  const { calls, context } = recorded(['target']);
  assert.deepEqual(await deleteStateClaim({ step: 'deleteStateClaim', claim: target }, context), { kind: 'done' });
  assert.deepEqual(calls, ['delete uid-claim-target target']);
});
