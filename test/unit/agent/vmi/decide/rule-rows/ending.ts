import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import {
  answered,
  domainNone,
  domainOf,
  domainUnknown,
  launcherDead,
  nowMs,
  presentVmi,
  seen,
  vmiOf,
} from '../../../../../fixtures/agent/builders.ts';
import { deleted, deleting, memory, predecessor, type Row, ready, scheduled } from './row.ts';

/** The API server was asked twice. */
const missed = memory({ missingSinceMs: nowMs - 2_000 });

const unreadable = domainOf('Running', 'Unknown', { GracePeriod: null });
unreadable.Spec.Name = '';

/** Rules that look first, end a guest and clean up behind it. */
export const endingRows: readonly Row[] = [
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
    rule: 'predecessor-in-the-way',
    when: 'the earlier launcher hangs',
    given: { vmi: scheduled, domain: { kind: 'absent' }, predecessor: predecessor(domainUnknown, ready) },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'vmi-missing',
    when: 'the API server says for the first time that there is no such VMI',
    given: { vmi: { kind: 'deleted' } },
    expect: { steps: [], requeueAfterMs: 2_000 },
  },
  {
    rule: 'vmi-missing',
    when: 'it was missing long ago and was there since',
    given: { vmi: { kind: 'deleted' }, memory: memory({ missingSinceMs: nowMs - 60_000 }) },
    expect: { steps: [], requeueAfterMs: 2_000 },
  },
  {
    rule: 'domain-unknown',
    when: 'the launcher could not be asked',
    given: { domain: domainUnknown },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'moved-nothing-left',
    when: 'a VMI that was seen at another node has left nothing here',
    given: {
      vmi: { kind: 'deleted', moved: { node: 'node2', at: '2026-01-02T03:04:05Z', migration: 'm1' } },
      uid: '',
      domain: { kind: 'absent' },
    },
    expect: { steps: [] },
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
    rule: 'launcher-not-probed',
    when: 'a launcher that was remembered has ended, and another listens where the pods of the VMI have their socket',
    given: { domain: launcherDead },
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
    given: { vmi: { kind: 'deleted' }, memory: missed },
    expect: { steps: ['shutdownDomain'] },
  },
  {
    rule: 'shutdown-signal-due',
    when: 'the VMI object vanished and the domain cannot be read now',
    given: { vmi: { kind: 'deleted' }, domain: seen(unreadable), memory: missed },
    expect: { steps: ['shutdownDomain'] },
  },
  {
    rule: 'grace-over',
    when: 'the VMI object vanished and the domain knows no grace',
    given: {
      vmi: { kind: 'deleted' },
      domain: seen(domainOf('Running', 'Unknown', { GracePeriod: null })),
      memory: missed,
    },
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
    given: { vmi: { kind: 'deleted' }, domain: seen(domainOf('Shutoff', 'Shutdown')), memory: missed },
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
    rule: 'deleted-before-start-unconfirmed',
    when: 'the domain was only defined when it was seen last',
    given: { vmi: presentVmi(vmiOf('Scheduled', deleted)), domain: seen(domainOf('Shutoff')) },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 0 },
  },
  {
    rule: 'deleted-before-start-unconfirmed',
    when: 'the answer to that question is old: another agent may have started the guest',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: { ...seen(domainOf('Shutoff')), askedMs: nowMs - 6_000 } as Observation['domain'],
      memory: memory({ askedAgainMs: nowMs - 6_000 }),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 0 },
  },
  {
    rule: 'deleted-before-start-unconfirmed',
    when: 'the question was asked a moment ago and brought no answer',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: seen(domainOf('Shutoff')),
      memory: memory({ askedAgainMs: nowMs - 10 }),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 1_000 },
  },
  {
    rule: 'deleted-before-start-unconfirmed',
    when: 'the answer is older than the last sync',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: answered(domainOf('Shutoff')),
      memory: memory({ askedAgainMs: nowMs - 10, synced: { fingerprint: 'same', atMs: nowMs + 1 } }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'deleted-before-start-unconfirmed',
    when: 'there was no domain before the start that was just answered, and no event has come since',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: { ...domainNone, seenMs: nowMs - 20 } as Observation['domain'],
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 10, endedMs: nowMs } }),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 0 },
  },
  {
    rule: 'deleted-before-start-unconfirmed',
    when: 'there was no domain before a start that failed, which may come late all the same',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: { ...domainNone, seenMs: nowMs - 20 } as Observation['domain'],
      memory: memory({ startTries: { fingerprint: 'same', count: 1, lastMs: nowMs - 10 } }),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 0 },
  },
  {
    rule: 'deleted-without-domain',
    when: 'after the start there is no domain either',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: { ...domainNone, seenMs: nowMs, askedMs: nowMs } as Observation['domain'],
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 10, endedMs: nowMs - 5 } }),
    },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'deleted-before-start',
    when: 'the launcher answered that the domain is only defined',
    given: {
      vmi: presentVmi(vmiOf('Scheduled', deleted)),
      domain: answered(domainOf('Shutoff')),
      memory: memory({ askedAgainMs: nowMs - 10 }),
    },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'finished-domain-unconfirmed',
    when: 'the VMI was removed while its guest was being started',
    given: { vmi: { kind: 'deleted' }, domain: seen(domainOf('Shutoff')), memory: missed },
    expect: { steps: ['refreshDomain'] },
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
];
