import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Decision } from '../../../../src/agent/decide/index.ts';
import { decide, rulesByRoute } from '../../../../src/agent/decide/index.ts';
import type { Observation } from '../../../../src/agent/observe/index.ts';
import {
  domainNone,
  domainOf,
  domainUnknown,
  key,
  launcherDead,
  node,
  nowMs,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../fixtures/agent-builders.ts';

interface Row {
  readonly rule: string;
  readonly when: string;
  readonly given: Partial<Observation>;
  readonly expect: Partial<Pick<Decision, 'phase' | 'requeueAfterMs' | 'healthy' | 'route'>> & {
    readonly steps?: string[];
  };
}

const deleted = {
  metadata: {
    deletionTimestamp: '2026-01-02T03:04:00Z',
    resourceVersion: '10',
    name: 'vm1',
    namespace: 'default',
    uid,
    labels: { 'kubevirt.io/nodeName': node },
  },
};
const scheduled = presentVmi(vmiOf('Scheduled'));
const deleting = presentVmi(vmiOf('Running', deleted));
const ghost = { name: 'vm1', namespace: 'default', uid, socketFile: '/pods/pod-1/sock' };
const migrating = { migrationUid: 'm1', sourceNode: node, targetNode: 'node2' };
const toNode2 = { metadata: { name: 'vm1', namespace: 'default', uid, labels: { 'kubevirt.io/nodeName': 'node2' } } };
const elsewhere = { kind: 'elsewhere', vmi: vmiOf('Running', { ...toNode2, status: { nodeName: 'node2' } }) } as const;
const memory = (more: Partial<Observation['memory']> = {}) => ({
  uid,
  synced: { fingerprint: 'same', atMs: nowMs - 60_000 },
  ...more,
});
const predecessor = (domain: Observation['domain'], launcher: Observation['launcher']) => ({
  uid: 'old',
  domain,
  launcher,
});
const ready = { kind: 'ready', connected: false } as const;

const table: readonly Row[] = [
  {
    rule: 'vmi-lookup-failed',
    when: 'the API server cannot be asked',
    given: { vmi: { kind: 'unclear', reason: 'down' } },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'predecessor-dead',
    when: 'an earlier VMI of the name left a dead launcher',
    given: {
      vmi: scheduled,
      domain: { kind: 'absent' },
      predecessor: predecessor({ kind: 'absent' }, { kind: 'dead', reason: 'gone' }),
    },
    expect: { steps: ['cleanUp'], requeueAfterMs: 0 },
  },
  {
    rule: 'predecessor-in-the-way',
    when: 'the earlier domain still runs',
    given: { vmi: scheduled, domain: { kind: 'absent' }, predecessor: predecessor(seen(domainOf()), ready) },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'domain-unknown',
    when: 'the launcher could not be asked',
    given: { domain: domainUnknown },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'finished-nothing-left',
    when: 'a final VMI is cleaned up',
    given: { vmi: presentVmi(vmiOf('Failed')), domain: { kind: 'absent' }, memory: memory({ cleaned: true }) },
    expect: { steps: [] },
  },
  {
    rule: 'launcher-not-probed',
    when: 'this process never asked the launcher',
    given: { domain: { kind: 'absent' } },
    expect: { steps: ['ensureLauncherConnection'], requeueAfterMs: 0 },
  },
  {
    rule: 'launcher-unclear',
    when: 'two sockets claim the VMI',
    given: { domain: { kind: 'absent' }, launcher: { kind: 'unclear', reason: 'two' } },
    expect: { steps: [] },
  },
  {
    rule: 'kill-awaited',
    when: 'a kill was sent a second ago',
    given: { vmi: deleting, memory: memory({ killedMs: nowMs - 1_000 }) },
    expect: { steps: [], requeueAfterMs: 4_000 },
  },
  {
    rule: 'final-domain-alive',
    when: 'a failed VMI still has a guest',
    given: { vmi: presentVmi(vmiOf('Failed')) },
    expect: { steps: ['killDomain'] },
  },
  {
    rule: 'ending-post-copy-failed',
    when: 'a deleted VMI is stuck after a failed post-copy migration',
    given: { vmi: deleting, domain: seen(domainOf('Paused', 'PostcopyFailed')) },
    expect: { steps: ['killDomain'] },
  },
  {
    rule: 'grace-over',
    when: 'the grace period is 0',
    given: { vmi: presentVmi(vmiOf('Running', { ...deleted, spec: { terminationGracePeriodSeconds: 0 } })) },
    expect: { steps: ['killDomain'], requeueAfterMs: 5_000 },
  },
  {
    rule: 'grace-over',
    when: 'the domain is stuck in ShuttingDown',
    given: {
      vmi: deleting,
      domain: seen(domainOf('ShuttingDown')),
      memory: memory({ shutdown: { firstMs: nowMs - 30_000, deadlineMs: nowMs, lastSignalMs: nowMs - 30_000 } }),
    },
    expect: { steps: ['killDomain'] },
  },
  {
    rule: 'guest-shutting-down',
    when: 'the guest reacts',
    given: {
      vmi: deleting,
      domain: seen(domainOf('ShuttingDown')),
      memory: memory({
        shutdown: { firstMs: nowMs - 10_000, deadlineMs: nowMs + 20_000, lastSignalMs: nowMs - 10_000 },
      }),
    },
    expect: { steps: [], requeueAfterMs: 20_000 },
  },
  {
    rule: 'shutdown-signal-awaited',
    when: 'the last signal is two seconds old',
    given: {
      vmi: deleting,
      memory: memory({ shutdown: { firstMs: nowMs - 2_000, deadlineMs: nowMs + 28_000, lastSignalMs: nowMs - 2_000 } }),
    },
    expect: { steps: [], requeueAfterMs: 3_000 },
  },
  {
    rule: 'shutdown-signal-due',
    when: 'the VMI was deleted',
    given: { vmi: deleting },
    expect: { steps: ['shutdownDomain'], requeueAfterMs: 5_000 },
  },
  {
    rule: 'shutdown-signal-due',
    when: 'the launcher asks for it',
    given: {
      domain: seen(
        domainOf('Running', 'Unknown', {
          GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: true },
        }),
      ),
    },
    expect: { steps: ['shutdownDomain'] },
  },
  {
    rule: 'shutdown-signal-due',
    when: 'the VMI object vanished and the domain knows its grace',
    given: { vmi: { kind: 'deleted' } },
    expect: { steps: ['shutdownDomain'] },
  },
  {
    rule: 'grace-over',
    when: 'the VMI object vanished and the domain knows no grace',
    given: { vmi: { kind: 'deleted' }, domain: seen(domainOf('Running', 'Unknown', { GracePeriod: null })) },
    expect: { steps: ['killDomain'] },
  },
  {
    rule: 'finished-delete-awaited',
    when: 'the launcher was told a second ago',
    given: {
      vmi: presentVmi(vmiOf('Succeeded')),
      domain: seen(domainOf('Shutoff', 'Shutdown')),
      memory: memory({ deletedMs: nowMs - 1_000 }),
    },
    expect: { steps: [], requeueAfterMs: 9_000 },
  },
  {
    rule: 'finished-domain-stopped',
    when: 'the final phase is written',
    given: { vmi: presentVmi(vmiOf('Succeeded')), domain: seen(domainOf('Shutoff', 'Shutdown')) },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'finished-domain-stopped',
    when: 'the VMI object vanished',
    given: { vmi: { kind: 'deleted' }, domain: seen(domainOf('Shutoff', 'Shutdown')) },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'finished-clean-up',
    when: 'the domain is gone',
    given: { vmi: presentVmi(vmiOf('Succeeded')), domain: domainNone },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'finished-clean-up',
    when: 'the launcher does not confirm the deletion',
    given: {
      vmi: presentVmi(vmiOf('Succeeded')),
      domain: seen(domainOf('Shutoff', 'Shutdown')),
      memory: memory({ deletedMs: nowMs - 10_000 }),
    },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'vmi-unreadable',
    when: 'the status has wrong types',
    given: {
      vmi: {
        ...presentVmi(vmiOf('Running')),
        problems: [{ path: 'status.activePods', expected: 'a map of strings', part: 'status' }],
      } as Observation['vmi'],
    },
    expect: { steps: [] },
  },
  {
    rule: 'deleted-nothing-left',
    when: 'a VMI deleted before its start is cleaned up',
    given: { vmi: presentVmi(vmiOf('Scheduled', deleted)), domain: domainNone, memory: memory({ cleaned: true }) },
    expect: { steps: [] },
  },
  {
    rule: 'deleted-before-start',
    when: 'the domain was only defined',
    given: { vmi: presentVmi(vmiOf('Scheduled', deleted)), domain: seen(domainOf('Shutoff')) },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'deleted-before-start-awaited',
    when: 'the launcher was told',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: seen(domainOf('Shutoff')),
      memory: memory({ deletedMs: nowMs - 1_000 }),
    },
    expect: { steps: [], requeueAfterMs: 9_000 },
  },
  {
    rule: 'deleted-without-domain',
    when: 'nothing was ever started',
    given: { vmi: presentVmi(vmiOf('Scheduled', deleted)), domain: domainNone },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'guest-stopped',
    when: 'the guest shut itself down',
    given: { domain: seen(domainOf('Shutoff', 'Shutdown')) },
    expect: { steps: [], phase: 'Succeeded', requeueAfterMs: 0 },
  },
  {
    rule: 'guest-stopped',
    when: 'the guest crashed',
    given: { domain: seen(domainOf('Crashed', 'Panicked')) },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'domain-migrated',
    when: 'the hand-over is not visible yet',
    given: { domain: seen(domainOf('Shutoff', 'Migrated')) },
    expect: { steps: [] },
  },
  {
    rule: 'migrated-without-hand-over',
    when: 'the migration ended and this node still owns the VMI',
    given: {
      vmi: presentVmi(vmiOf('Running', { status: { migrationState: { endTimestamp: '2026-01-01T00:00:00Z' } } })),
      domain: seen(domainOf('Shutoff', 'Migrated')),
    },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'migration-in-progress',
    when: 'the launcher is sending the guest',
    given: { domain: seen(domainOf('Paused', 'Migration')) },
    expect: { steps: [] },
  },
  {
    rule: 'post-copy-failed',
    when: 'the guest cannot be recovered',
    given: { domain: seen(domainOf('Paused', 'PostcopyFailed')) },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'shutoff-unexplained',
    when: 'a running guest is shut off without a reason',
    given: { domain: seen(domainOf('Shutoff')) },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'shutoff-believed',
    when: 'the launcher says so again',
    given: { domain: seen(domainOf('Shutoff')), memory: memory({ askedAgainMs: nowMs - 10 }) },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'domain-lost',
    when: 'the launcher says that a running VMI has no domain',
    given: { domain: domainNone },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'launcher-dead-before-start',
    when: 'the launcher of a scheduled VMI ended',
    given: { vmi: scheduled, domain: launcherDead, launcher: { kind: 'dead', reason: 'ended' } },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'launcher-never-ready',
    when: 'the socket is missing for three minutes',
    given: { vmi: scheduled, domain: { kind: 'absent' }, launcher: { kind: 'not-ready', forMs: 180_000 } },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'domain-running',
    when: 'the domain of a scheduled VMI runs',
    given: { vmi: scheduled },
    expect: { steps: [], phase: 'Running', requeueAfterMs: 0 },
  },
  {
    rule: 'domain-running',
    when: 'the guest starts paused',
    given: { vmi: scheduled, domain: seen(domainOf('Paused', 'User')) },
    expect: { phase: 'Running' },
  },
  {
    rule: 'handed-over',
    when: 'the phase is older than the hand-over label',
    given: { vmi: presentVmi(vmiOf('Scheduling')), domain: domainNone },
    expect: { phase: 'Scheduled' },
  },
  {
    rule: 'launcher-not-ready',
    when: 'the socket is not there yet',
    given: { vmi: scheduled, domain: { kind: 'absent' }, launcher: { kind: 'not-ready', forMs: 5 } },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'vmi-malformed',
    when: 'the spec has no domain',
    given: {
      vmi: {
        ...scheduled,
        problems: [{ path: 'spec.domain', expected: 'an object', part: 'spec' }],
      } as Observation['vmi'],
      domain: domainNone,
    },
    expect: { steps: [] },
  },
  {
    rule: 'start-due',
    when: 'the launcher is ready and has no domain',
    given: { vmi: scheduled, domain: domainNone, memory: { uid } },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'start-due',
    when: 'the domain is defined and not started (fault 2)',
    given: { vmi: scheduled, domain: seen(domainOf('Shutoff')), memory: { uid } },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'start-due',
    when: 'a start ten seconds ago left nothing',
    given: {
      vmi: scheduled,
      domain: domainNone,
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 10_000 } }),
    },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'start-unseen',
    when: 'no event came after the start',
    given: {
      vmi: scheduled,
      domain: domainNone,
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 1_000 } }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'start-awaited',
    when: 'the start was a moment ago',
    given: {
      vmi: scheduled,
      domain: domainNone,
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 100 } }),
    },
    expect: { steps: [], requeueAfterMs: 900 },
  },
  {
    rule: 'domain-not-yet-running',
    when: 'libvirt is still starting the guest',
    given: { vmi: scheduled, domain: seen(domainOf('Paused', 'StartingUp')) },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'io-error-pause',
    when: 'the last try was two seconds ago',
    given: {
      domain: seen(domainOf('Paused', 'IOError')),
      memory: memory({ ioRetry: { lastMs: nowMs - 2_000, waitMs: 10_000 } }),
    },
    expect: { steps: [], requeueAfterMs: 8_000 },
  },
  {
    rule: 'io-error-retry',
    when: 'the guest is paused by an I/O error',
    given: { domain: seen(domainOf('Paused', 'IOError')) },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'], requeueAfterMs: 10_000 },
  },
  {
    rule: 'vmi-changed',
    when: 'the spec of a running VMI changed',
    given: { syncFingerprint: 'other' },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'] },
  },
  { rule: 'steady', when: 'all is as it should be', given: {}, expect: { steps: [], healthy: true } },
  {
    rule: 'migration-not-supported',
    when: 'this node is the target',
    given: {
      vmi: presentVmi(
        vmiOf('Running', {
          metadata: {
            name: 'vm1',
            namespace: 'default',
            uid,
            labels: { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': node },
          },
          status: { nodeName: 'node2', migrationState: { migrationUid: 'm1' } },
        }),
      ),
    },
    expect: { steps: [], route: 'migration-target' },
  },
  {
    rule: 'migration-target-left-alone',
    when: 'the user was told',
    given: {
      vmi: presentVmi(
        vmiOf('Running', {
          metadata: {
            name: 'vm1',
            namespace: 'default',
            uid,
            labels: { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': node },
          },
          status: { nodeName: 'node2', migrationState: { migrationUid: 'm1' } },
        }),
      ),
      memory: memory({ toldMigrationUid: 'm1' }),
    },
    expect: { steps: [], route: 'migration-target' },
  },
  {
    rule: 'migration-not-supported',
    when: 'this node is the source',
    given: { vmi: presentVmi(vmiOf('Running', { status: { migrationState: migrating } })) },
    expect: { steps: [], route: 'migration-source' },
  },
  {
    rule: 'steady',
    when: 'a migration was refused',
    given: {
      vmi: presentVmi(vmiOf('Running', { status: { migrationState: migrating } })),
      memory: memory({ toldMigrationUid: 'm1' }),
    },
    expect: { route: 'migration-source' },
  },
  {
    rule: 'orphan-nothing-here',
    when: 'nothing of the VMI is left',
    given: { vmi: elsewhere, domain: { kind: 'absent' } },
    expect: { steps: [], route: 'orphaned-source' },
  },
  {
    rule: 'orphan-unknown',
    when: 'the launcher of a moved VMI cannot be asked',
    given: { vmi: elsewhere, domain: domainUnknown },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'orphan-not-probed',
    when: 'a record of a moved VMI is left',
    given: { vmi: elsewhere, domain: { kind: 'absent' }, ghost },
    expect: { steps: ['ensureLauncherConnection'] },
  },
  {
    rule: 'orphan-alive',
    when: 'the domain of a moved VMI still runs',
    given: { vmi: elsewhere },
    expect: { steps: [] },
  },
  {
    rule: 'orphan-stopped',
    when: 'the domain migrated away',
    given: { vmi: elsewhere, domain: seen(domainOf('Shutoff', 'Migrated')) },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'orphan-unclear',
    when: 'a socket may still come',
    given: { vmi: elsewhere, domain: { kind: 'absent' }, ghost, launcher: { kind: 'unclear', reason: '?' } },
    expect: { steps: [] },
  },
  {
    rule: 'orphan-clean-up',
    when: 'the launcher of a moved VMI is gone (fault 12 of spec 10)',
    given: { vmi: elsewhere, domain: launcherDead, ghost },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'nothing-to-do',
    when: 'a running VMI has a launcher that is not asked yet and cannot be',
    given: {
      domain: { kind: 'absent' },
      launcher: { kind: 'unclear', reason: '?' },
      memory: memory({ cleaned: true }),
    },
    expect: { steps: [] },
  },
];

for (const { rule, when, given, expect } of table) {
  test(`${rule}: ${when}`, () => {
    const decision = decide(observationOf(given));
    assert.equal(decision.rule, rule);
    const { steps, ...fields } = expect;
    if (steps)
      assert.deepEqual(
        decision.steps.map(({ step }) => step),
        steps,
      );
    for (const [name, value] of Object.entries(fields)) assert.equal(decision[name as keyof Decision], value, name);
  });
}

test('every rule has a row in the table, so that none is without a test', () => {
  const names = Object.values(rulesByRoute).flatMap((rules) => rules.map(({ name }) => name));
  const tested = new Set(table.map(({ rule }) => rule));
  assert.deepEqual(
    [...new Set(names)].filter((name) => !tested.has(name)),
    [],
  );
  assert.equal(key, 'default/vm1');
});
