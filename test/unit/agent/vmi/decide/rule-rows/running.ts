import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import {
  answered,
  domainNone,
  domainOf,
  launcherDead,
  nowMs,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../../fixtures/agent/builders.ts';
import { remembered } from '../../../../../fixtures/agent/remembered.ts';
import { memory, type Row, scheduled } from './row.ts';

const scheduledWithSev = (sev: object) =>
  presentVmi(vmiOf('Scheduled', { spec: { domain: { devices: {}, launchSecurity: { sev } } } }));

const askedToEnd = domainOf('Running', 'Unknown', {
  GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: true },
});

/** Rules for a VMI that this node owns: phase, start and changes. */
export const runningRows: readonly Row[] = [
  {
    rule: 'stopped-while-told-to-run',
    when: 'the guest ended while its launcher was told of a change',
    given: {
      domain: seen(domainOf('Crashed', 'Panicked')),
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 800, endedMs: nowMs + 1 } }),
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 0 },
  },
  {
    rule: 'guest-stopped',
    when: 'the launcher says once more, after it was told of a change, that the guest ended',
    given: {
      domain: seen(domainOf('Crashed', 'Panicked')),
      memory: memory({ synced: { fingerprint: 'same', atMs: nowMs - 800, endedMs: nowMs } }),
    },
    expect: { phase: 'Failed' },
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
    rule: 'guest-stopped',
    when: 'the guest shut itself down, and its domain has lost the reason since',
    given: {
      domain: seen(domainOf('Shutoff', 'Unknown')),
      memory: memory({ finalPhase: { phase: 'Succeeded', because: 'the guest was shut down' } }),
    },
    expect: { phase: 'Succeeded' },
  },
  {
    rule: 'domain-lost',
    when: 'the guest shut itself down, then its launcher gave no answer, then it ended',
    given: {
      domain: {
        kind: 'unknown',
        uid,
        reason: 'no answer',
        sinceMs: 0,
        seenMs: 0,
        lastDomain: domainOf('Shutoff', 'Shutdown'),
      },
      launcher: { kind: 'dead', reason: 'ended' },
    },
    expect: { phase: 'Succeeded' },
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
    rule: 'shutoff-unexplained',
    when: 'after the question an event says so, which may be older than it looks',
    given: { domain: seen(domainOf('Shutoff')), memory: memory({ askedAgainMs: nowMs - 10 }) },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'shutoff-believed',
    when: 'the launcher says so again',
    given: { domain: answered(domainOf('Shutoff')), memory: memory({ askedAgainMs: nowMs - 10 }) },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'domain-lost',
    when: 'the launcher says that a running VMI has no domain',
    given: { domain: { ...domainNone, askedMs: nowMs }, memory: memory({ askedAgainMs: nowMs }) },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'domain-lost',
    when: 'the domain was seen before the launcher said that there is none',
    given: { domain: { ...domainNone, lastDomain: domainOf() } },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'domain-none-unconfirmed',
    when: 'the launcher says once that a running VMI has no domain',
    given: { domain: domainNone },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 1_000 },
  },
  {
    rule: 'domain-none-unconfirmed',
    when: 'this agent saw the domain only before its start: another one may have started the guest since',
    given: { domain: { ...domainNone, lastDomain: domainOf('Shutoff') } },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 1_000 },
  },
  {
    rule: 'ended-before-seen-running',
    when: 'the guest shut itself down while the API server was away, and then its launcher ended',
    given: {
      vmi: presentVmi(vmiOf('Scheduled')),
      domain: { ...launcherDead, lastDomain: domainOf('Shutoff', 'Shutdown') },
      launcher: { kind: 'dead', reason: 'ended' },
    },
    expect: { phase: 'Succeeded' },
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
    expect: { steps: [], phase: 'Running', requeueAfterMs: undefined },
  },
  {
    rule: 'domain-running',
    when: 'the VMI has changed since its launcher was given it',
    given: { vmi: scheduled, syncFingerprint: 'newer' },
    expect: { steps: [], phase: 'Running', requeueAfterMs: 0 },
  },
  {
    rule: 'domain-running',
    when: 'its pod began to end while the guest was started: what follows from that is the next pass',
    given: { vmi: scheduled, domain: seen(askedToEnd) },
    expect: { phase: 'Running', requeueAfterMs: 0 },
  },
  {
    rule: 'domain-running',
    when: 'the guest starts paused',
    given: { vmi: scheduled, domain: seen(domainOf('Paused', 'User')) },
    expect: { phase: 'Running', requeueAfterMs: 0 },
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
    rule: 'start-backing-off',
    when: 'this very start has just failed for the third time',
    given: {
      vmi: scheduled,
      domain: domainNone,
      memory: remembered({ startTries: { fingerprint: 'same', count: 3, lastMs: nowMs - 400 } }),
    },
    expect: { steps: [], requeueAfterMs: 600 },
  },
  {
    rule: 'start-due',
    when: 'the pause after a failed start is over',
    given: {
      vmi: scheduled,
      domain: domainNone,
      memory: remembered({ startTries: { fingerprint: 'same', count: 3, lastMs: nowMs - 1_000 } }),
    },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'start-due',
    when: 'another start had failed: the VMI has changed since',
    given: {
      vmi: scheduled,
      domain: domainNone,
      memory: remembered({ startTries: { fingerprint: 'other', count: 9, lastMs: nowMs } }),
    },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'start-due',
    when: 'the launcher is ready and has no domain',
    given: { vmi: scheduled, domain: domainNone, memory: remembered() },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'start-due',
    when: 'the domain is defined and not started (fault 2)',
    given: { vmi: scheduled, domain: seen(domainOf('Shutoff')), memory: remembered() },
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
  {
    rule: 'steady',
    when: 'it shares its CPUs',
    given: { domain: seen(domainOf()), hostFacts: { limits: { isPlaced: false } } },
    expect: { steps: [] },
  },
  {
    rule: 'guest-paused',
    when: 'its watchdog paused it',
    given: { domain: seen(domainOf('Paused', 'Watchdog')) },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'guest-paused',
    when: 'it is paused in a way only its launcher can tell, and the sync since has failed',
    given: { domain: seen(domainOf('Paused', 'User')), memory: memory({ pausedSinceMs: nowMs - 10 }) },
    expect: { steps: ['adjustHost', 'syncVirtualMachine'] },
  },
  {
    rule: 'steady',
    when: 'the launcher left it paused: a user did it',
    given: { domain: seen(domainOf('Paused', 'User')), memory: memory({ pausedSinceMs: nowMs - 90_000 }) },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'sev-session-awaited',
    when: 'SEV attestation is asked for and there is no certificate yet',
    given: {
      vmi: scheduledWithSev({ attestation: {}, session: 'c2Vzc2lvbg==' }),
      domain: domainNone,
      memory: remembered(),
    },
    expect: { steps: [] },
  },
  {
    rule: 'start-due',
    when: 'session and certificate of a guest with SEV attestation are there',
    given: {
      vmi: scheduledWithSev({ attestation: {}, session: 'c2Vzc2lvbg==', dhCert: 'Y2VydA==' }),
      domain: domainNone,
      memory: remembered(),
    },
    expect: { steps: ['ensureLauncherConnection', 'prepareHost', 'syncVirtualMachine'] },
  },
  { rule: 'steady', when: 'all is as it should be', given: {}, expect: { steps: [], healthy: true } },
];
