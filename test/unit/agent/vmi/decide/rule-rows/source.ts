import { domainOf, node, nowMs, seen, uid } from '../../../../../fixtures/agent/builders.ts';
import { asSource } from '../../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../../fixtures/no-migration.ts';
import { deleting, leaving, migration, migrationProxies, open, over, published, reported, started } from './leaving.ts';
import { memory, type Row } from './row.ts';

const broken = reported({ Mode: 'PostCopy' }, 'Paused', 'PostcopyFailed');
const resumable = { ...open, sourceMigration: 'm1', resumeMs: 60_000, stallMs: 30_000 };
const inPostCopy = { Mode: 'PostCopy', Resumable: true } as const;
const silent = { ...resumable, sourceStalledSeconds: 45 };
const sinceLong = migration({ postCopySinceMs: nowMs - 30_000 });

/** Rules of a VMI that is to leave this node. */
export const sourceRows: readonly Row[] = [
  {
    rule: 'source-proxies-left',
    when: 'the migration is over in the API server',
    given: {
      vmi: leaving({ endTimestamp: '2026-01-02T03:05:00Z', failed: true }),
      migrationProxies: open,
      memory: migration(),
    },
    expect: { steps: ['closeSourceProxies'], requeueAfterMs: 0, route: 'migration-source' },
  },
  {
    rule: 'source-proxies-left',
    when: 'they were opened for an earlier migration',
    given: {
      vmi: leaving(published),
      migrationProxies: open,
      memory: memory({ migration: asSource({ sentMs: nowMs }, 'm0') }),
    },
    expect: { steps: ['closeSourceProxies'] },
  },
  {
    rule: 'migration-running',
    when: 'an earlier agent opened the streams of this very migration, of which this one remembers nothing',
    given: {
      vmi: leaving({ ...published, ...started }),
      domain: reported(),
      migrationProxies: { ...open, sourceMigration: 'm1' },
    },
    expect: { steps: [] },
  },
  {
    rule: 'source-proxies-left',
    when: 'an earlier agent opened them for another migration',
    given: { vmi: leaving(published), migrationProxies: { ...open, sourceMigration: 'm0' } },
    expect: { steps: ['closeSourceProxies'] },
  },
  {
    rule: 'source-proxies-left',
    when: 'the VMI is deleted while its guest is copied',
    given: {
      vmi: deleting({ ...published, ...started }),
      domain: reported(),
      migrationProxies: open,
      memory: migration(),
    },
    expect: { steps: ['closeSourceProxies'] },
  },
  {
    rule: 'ending-arrival-awaited',
    when: 'the VMI is deleted in post-copy: its streams stay, half of the guest is on the other side',
    given: {
      vmi: deleting({ ...published, ...started }),
      domain: reported({ Mode: 'PostCopy' }, 'Paused', 'Postcopy'),
      migrationProxies: open,
      memory: migration({ postCopySinceMs: nowMs }),
    },
    expect: { steps: [], route: 'migration-source' },
  },
  {
    rule: 'ending-arrival-awaited',
    when: 'the VMI is deleted, and the target has said already that the guest runs there',
    given: {
      vmi: deleting({ ...published, ...started, targetNodeDomainReadyTimestamp: '2026-01-02T03:04:05Z' }),
      domain: reported(),
      migrationProxies: open,
      memory: migration(),
    },
    expect: { steps: [], route: 'migration-source' },
  },
  {
    rule: 'source-proxies-left',
    when: 'the launcher says that it is over',
    given: {
      vmi: leaving(started),
      domain: reported(over, 'Shutoff', 'Migrated'),
      migrationProxies: open,
      memory: migration(),
    },
    expect: { steps: ['closeSourceProxies'] },
  },
  {
    rule: 'migration-failed',
    when: 'the launcher gave up',
    given: { vmi: leaving(started), domain: reported({ ...over, Failed: true, FailureReason: 'no route' }) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'migration-progress',
    when: 'the launcher has begun',
    given: { vmi: leaving(published), domain: reported() },
    expect: { steps: [] },
  },
  {
    rule: 'migration-progress',
    when: 'the guest has left before anybody wrote that it began',
    given: { vmi: leaving(published), domain: reported(over, 'Shutoff', 'Migrated') },
    expect: { steps: [] },
  },
  {
    rule: 'migration-aborted-before-start',
    when: 'it is cancelled while the target prepares',
    given: { vmi: leaving({ abortRequested: true }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-refused-here',
    when: 'this build has no migrationProxies',
    given: {
      vmi: leaving(published),
      migrationProxies: { ...migrationProxies, supported: false, unavailable: 'there are none' },
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-refused-here',
    when: 'this agent is leaving and nothing was begun',
    given: { vmi: leaving(published), migrationProxies: { ...migrationProxies, unavailable: 'it is leaving' } },
    expect: { steps: [] },
  },
  {
    rule: 'migration-running',
    when: 'the agent is leaving while the guest is copied',
    given: {
      vmi: leaving(started),
      domain: reported(),
      migrationProxies: { ...open, unavailable: 'leaving' },
      memory: migration(),
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-refused-by-launcher',
    when: 'the launcher said no',
    given: { vmi: leaving(published), memory: migration({ refusal: 'not supported' }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-ports-unusable',
    when: 'a port is none',
    given: { vmi: leaving({ ...published, targetDirectMigrationNodePorts: { '70000': 0, '1': 49_152 } }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-start-given-up',
    when: 'every try failed for five minutes',
    given: { vmi: leaving(published), memory: migration({ firstTryMs: nowMs - 300_000 }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-start-due',
    when: 'the ports are published',
    given: { vmi: leaving(published) },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'] },
  },
  {
    rule: 'migration-start-due',
    when: 'the launcher still tells of an earlier migration that failed',
    given: { vmi: leaving(published), domain: reported({ ...over, UID: 'm0', Failed: true }) },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'] },
  },
  {
    rule: 'migration-ports-awaited',
    when: 'the target prepares',
    given: { vmi: leaving() },
    expect: { steps: [], requeueAfterMs: 30_000, healthy: true },
  },
  {
    rule: 'vmi-changed',
    when: 'the target prepares and the VMI has changed meanwhile',
    given: { vmi: leaving(), syncFingerprint: 'other' },
    expect: { route: 'migration-source' },
  },
  {
    rule: 'migration-lost',
    when: 'the launcher was asked for a minute and knows of none',
    given: { vmi: leaving(started), memory: migration({ unheardSinceMs: nowMs - 60_000 }) },
    expect: { steps: [] },
  },
  {
    rule: 'post-copy-resume-due',
    when: 'its streams have just broken in post-copy: the order goes on where they broke',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: broken,
      migrationProxies: resumable,
    },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'], requeueAfterMs: 3_000 },
  },
  {
    rule: 'post-copy-resume-awaited',
    when: 'they were opened anew a moment ago',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: broken,
      migrationProxies: resumable,
      memory: migration({ broken: { sinceMs: nowMs - 20_000, lastTryMs: nowMs - 1_000 } }),
    },
    expect: { steps: [], requeueAfterMs: 3_000 },
  },
  {
    rule: 'post-copy-given-up',
    when: 'the time for it is over',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: broken,
      migrationProxies: resumable,
      memory: migration({ broken: { sinceMs: nowMs - 60_000, lastTryMs: nowMs - 4_000 } }),
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'post-copy-given-up',
    when: 'there is no time for it',
    given: { vmi: leaving({ ...published, ...started, mode: 'PostCopy' }), domain: broken, memory: migration() },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'post-copy-seen',
    when: 'libvirt says for the first time that QEMU is in post-copy',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy, 'Paused', 'Postcopy'),
      migrationProxies: silent,
      memory: migration(),
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'post-copy-silent',
    when: 'its streams have been silent for long, but most of it before the switch',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy, 'Paused', 'Postcopy'),
      migrationProxies: silent,
      memory: migration({ postCopySinceMs: nowMs - 29_000 }),
    },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'post-copy-stalled',
    when: 'nothing of its memory has come for longer than is allowed',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy, 'Paused', 'Postcopy'),
      migrationProxies: silent,
      memory: sinceLong,
    },
    expect: { steps: ['closeSourceProxies'], requeueAfterMs: 3_000 },
  },
  {
    rule: 'post-copy-stalled',
    when: 'nothing comes any more of a VMI that is deleted: its guest would never arrive to be shut down',
    given: {
      vmi: deleting({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy, 'Paused', 'Postcopy'),
      migrationProxies: silent,
      memory: sinceLong,
    },
    expect: { steps: ['closeSourceProxies'], requeueAfterMs: 3_000 },
  },
  {
    rule: 'post-copy-stands',
    when: 'its launcher does not say that it can resume, as upstream’s, which cannot',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported({ Mode: 'PostCopy' }, 'Paused', 'Postcopy'),
      migrationProxies: silent,
      memory: sinceLong,
    },
    expect: { steps: [], requeueAfterMs: 3_000 },
  },
  {
    rule: 'post-copy-stands',
    when: 'no time is set for resuming it',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy, 'Paused', 'Postcopy'),
      migrationProxies: { ...silent, resumeMs: 0 },
      memory: sinceLong,
    },
    expect: { steps: [], requeueAfterMs: 3_000 },
  },
  {
    rule: 'migration-running',
    when: 'libvirt took the order to switch, and QEMU has not switched yet',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy, 'Paused', 'Migration'),
      migrationProxies: silent,
      memory: sinceLong,
    },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'migration-running',
    when: 'libvirt took the order to switch, and the guest runs here',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported(inPostCopy),
      migrationProxies: silent,
      memory: sinceLong,
    },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'post-copy-given-up',
    when: 'it stood before, and has used up its time in all',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: broken,
      migrationProxies: resumable,
      memory: migration({
        spentMs: 50_000,
        resumedMs: nowMs - 20_000,
        broken: { sinceMs: nowMs - 10_000, lastTryMs: nowMs - 4_000 },
      }),
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'post-copy-resume-due',
    when: 'it used up its time before, and then moved for as long',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: broken,
      migrationProxies: resumable,
      memory: migration({ spentMs: 60_000, resumedMs: nowMs - 61_000 }),
    },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'], requeueAfterMs: 3_000 },
  },
  {
    rule: 'migration-running',
    when: 'nothing moves any more, and only the target has said that the guest runs there: libvirt is at its last words',
    given: {
      vmi: leaving({ ...published, ...started, targetNodeDomainReadyTimestamp: '2026-01-02T03:04:05Z' }),
      domain: reported(),
      migrationProxies: { ...resumable, sourceStalledSeconds: 21 },
    },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'migration-running',
    when: 'nothing moves before the switch: that is the launcher’s to judge',
    given: {
      vmi: leaving({ ...published, ...started }),
      domain: reported(),
      migrationProxies: { ...resumable, sourceStalledSeconds: 21 },
    },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'post-copy-resumed',
    when: 'the guest moves again',
    given: {
      vmi: leaving({ ...published, ...started, mode: 'PostCopy' }),
      domain: reported({ Mode: 'PostCopy' }, 'Paused', 'Postcopy'),
      migrationProxies: resumable,
      memory: migration({ postCopySinceMs: nowMs, broken: { sinceMs: nowMs - 20_000, lastTryMs: nowMs - 1_000 } }),
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'migration-unheard',
    when: 'the launcher took the order this moment',
    given: { vmi: leaving(published), memory: migration({ sentMs: nowMs }) },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'migration-unheard',
    when: 'it began under an earlier agent and the launcher does not tell of it',
    given: {
      vmi: leaving(started),
      domain: seen(domainOf(), uid, nowMs - 2_000),
      memory: migration({ unheardSinceMs: nowMs - 1_000 }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-unheard',
    when: 'the launcher was asked this moment',
    given: { vmi: leaving(started), memory: migration({ unheardSinceMs: nowMs - 20_000 }) },
    expect: { steps: [], requeueAfterMs: 10_000 },
  },
  {
    rule: 'migration-unheard',
    when: 'the launcher tells of a domain with nothing inside for long: that says nothing',
    given: {
      vmi: leaving(started),
      domain: seen(domainOf('Running', 'Unknown', { UID: '' }), uid, nowMs - 10_000),
      memory: migration({ unheardSinceMs: nowMs - 600_000 }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-running',
    when: 'its pod is to end: the guest has a better place to go to',
    given: {
      vmi: leaving({ ...published, ...started }),
      domain: seen(
        domainOf('Running', 'Unknown', {
          GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: true },
          Migration: { ...noMigration, UID: 'm1', StartTimestamp: started.startTimestamp, Mode: 'PreCopy' },
        }),
      ),
      memory: migration({ sentMs: nowMs - 5_000 }),
      migrationProxies: open,
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-abort-due',
    when: 'the migration is cancelled',
    given: { vmi: leaving({ ...started, abortRequested: true }), domain: reported() },
    expect: { steps: ['cancelMigration'] },
  },
  {
    rule: 'migration-abort-due',
    when: 'an abort failed and its time is over',
    given: {
      vmi: leaving({ ...started, abortRequested: true, abortStatus: 'Failed' }),
      domain: reported({ AbortStatus: 'Failed' }),
      memory: migration({ cancelledMs: nowMs - 5_000 }),
    },
    expect: { steps: ['cancelMigration'] },
  },
  {
    rule: 'migration-abort-awaited',
    when: 'the abort was sent and nothing is told of it yet',
    given: {
      vmi: leaving({ ...started, abortRequested: true }),
      domain: reported(),
      memory: migration({ cancelledMs: nowMs - 1_000 }),
    },
    expect: { steps: [], requeueAfterMs: 4_000 },
  },
  ...(['Aborting', 'Succeeded'] as const).flatMap((AbortStatus): Row[] => [
    {
      rule: 'migration-running',
      when: `the launcher says that the abort is ${AbortStatus}`,
      given: { vmi: leaving({ ...started, abortRequested: true }), domain: reported({ AbortStatus }) },
      expect: { steps: [] },
    },
    {
      rule: 'migration-running',
      when: `the VMI says that the abort is ${AbortStatus}`,
      given: { vmi: leaving({ ...started, abortRequested: true, abortStatus: AbortStatus }), domain: reported() },
      expect: { steps: [] },
    },
  ]),
  {
    rule: 'migration-running',
    when: 'the migration is cancelled in post-copy, which nothing can abort',
    given: {
      vmi: leaving({ ...started, mode: 'PostCopy', abortRequested: true }),
      domain: reported({ Mode: 'PostCopy' }, 'Paused', 'Postcopy'),
      memory: migration({ postCopySinceMs: nowMs }),
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-running',
    when: 'the VMI has changed meanwhile: nothing is synced',
    given: { vmi: leaving(started), domain: reported(), syncFingerprint: 'other' },
    expect: { steps: [] },
  },
  {
    rule: 'guest-stopped',
    when: 'a guest ends while it is copied',
    given: { vmi: leaving(started), domain: reported({}, 'Shutoff', 'Shutdown') },
    expect: { phase: 'Succeeded', route: 'migration-source' },
  },
  {
    rule: 'domain-unknown',
    when: 'the launcher of a guest that is copied cannot be asked',
    given: {
      vmi: leaving(started),
      domain: { kind: 'unknown', uid, reason: 'no answer', sinceMs: nowMs, seenMs: nowMs },
      migrationProxies: open,
      memory: migration(),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-over-unexplained',
    when: 'the launcher says it is done and shows the guest running',
    given: { vmi: leaving(started), domain: reported(over, 'Running', 'Unknown', nowMs - 10_000) },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-over-unexplained',
    when: 'it was asked again this moment',
    given: { vmi: leaving(started), domain: reported(over) },
    expect: { steps: [], requeueAfterMs: 10_000 },
  },
  {
    rule: 'migration-over-denied',
    when: 'the launcher says it is done and shows the guest running a minute later',
    given: { vmi: leaving(started), domain: reported(over), memory: migration({ overSeenMs: nowMs - 61_000 }) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'migration-over-unexplained',
    when: 'the same, and no answer is younger than that',
    given: {
      vmi: leaving(started),
      domain: reported(over, 'Running', 'Unknown', nowMs - 60_000),
      memory: migration({ overSeenMs: nowMs - 61_000 }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-over-unexplained',
    when: 'the guest stands still: it may be about to leave',
    given: {
      vmi: leaving(started),
      domain: reported(over, 'Paused', 'Migration'),
      memory: migration({ overSeenMs: nowMs - 290_000 }),
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-in-progress',
    when: 'another node is the source of the migration that the VMI shows',
    given: { vmi: leaving({ sourceNode: `${node}-not` }), domain: reported() },
    expect: { route: 'default' },
  },
  {
    rule: 'migration-in-progress',
    when: 'the agent was started again, and nobody can tell yet whether the launcher of the guest lives',
    given: { vmi: leaving(started), domain: { kind: 'absent' }, launcher: { kind: 'not-ready', forMs: 100 } },
    expect: { steps: [], requeueAfterMs: 10_000 },
  },
];
