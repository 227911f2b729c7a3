/** What ours does differently on purpose. Everything else that differs is a finding. */
export interface Intended {
  /** All of them unless given. */
  readonly scenario?: RegExp;
  readonly at?: RegExp;
  /** `path: ours | other`. */
  readonly line: RegExp;
  /** "Fault", "loop", "status", "launchers", "domains": rows of docs/better-than-upstream.md. */
  readonly why: string;
}

const noStreams = 'this agent cannot carry the streams of a migration yet, and says so (Migration, 11)';

export const intended: readonly Intended[] = [
  { line: /› vmi › (apiVersion|kind): "[^"]+" \| -$/, why: 'launchers get the whole object, with its type' },
  { line: /› (Storage)?LiveMigratable › .*: .*NodeAgentNotLiveMigratable.* \| -$/, why: noStreams },
  { line: /› (Storage)?LiveMigratable › (message|reason): .*cannot carry the streams.* \| -$/, why: noStreams },
  { line: /› (Storage)?LiveMigratable › status: "False" \| "True"$/, why: noStreams },
  { line: /› StorageLiveMigratable › reason: "NotMigratable" \| -$/, why: noStreams },
  {
    line: /^ghosts › \d+ › (pid|startTime|version): .* \| -$/,
    why: 'a record keeps the process, so that its death can be proven (Launchers: a pid is compared with its start time)',
  },
  {
    line: /^events › Normal Deleted: Signaled Deletion › count: 1 \| /,
    why: 'a domain is deleted once, and told once (loop, 16)',
  },
  {
    line: /^requests › deleteVirtualMachine › vmi › status › phase: "(Succeeded|Failed)" \| "\w+"$/,
    why: 'the final phase is written before the domain is deleted (Fault 1)',
  },
  {
    line: /^requests › deleteVirtualMachine › vmi › status › phaseTransitionTimestamps › \d+: "(Succeeded|Failed)" \| -$/,
    why: 'the final phase is written before the domain is deleted (Fault 1)',
  },
  {
    line: /^events › Normal Created: VirtualMachineInstance defined\. › count: 1 \| /,
    why: 'a start is one sync, and told once',
  },
  {
    line: /^events › Warning SyncFailed: .* › count: 1 \| /,
    why: 'a problem is told once, not with each try (Status; Faults, 8)',
  },
  {
    line: /LiveMigratable › message: "[^"]+" \| "[^"]+"$/,
    why: 'texts are our own; reasons are compared',
  },
  {
    line: /^vmi › status › conditions › Synchronized › message: "[^"]+" \| "[^"]+"$/,
    why: 'texts are our own; no program reads this one',
  },
  {
    line: /^events › Warning SyncFailed: disk of volume .* \| -$/,
    why: 'texts are our own; no program reads this one',
  },
  {
    line: /^events › Warning SyncFailed: preparing host-disks failed: .*: - \| /,
    why: 'texts are our own; no program reads this one',
  },
  {
    line: /^events › Warning Migrated: EvictionStrategy is set but vmi is not migratable; /,
    why: 'texts are our own; type and reason are compared',
  },
  {
    scenario: /^guest-agent-unsupported$/,
    line: /AgentVersionNotSupported/,
    why: 'texts are our own; an agent is asked once per connection and every five minutes (Status)',
  },
  {
    line: /^(requests › \w+ › )?vmi › spec › domain › features › acpi: - \| {}$/,
    why: 'nothing is written into the spec; the API server fills in defaults',
  },
  {
    line: /^(calls|requests)(: | › syncVirtualMachine: )("none"|{}|-) \| ("syncVirtualMachine"$|{"(syncVirtualMachine|vmi)":)/,
    why: 'a running guest is synced when its VMI changed or it is paused, not with each word of its domain',
  },
  {
    scenario: /^start-efi-rom-missing$/,
    line: /deleteVirtualMachine|Signaled Deletion/,
    why: 'a launcher that has no domain is not told to delete it',
  },
  {
    scenario: /^start-deleted-before$/,
    line: /./,
    why: 'a VMI that is deleted before its guest ran is ended without any word to its launcher (loop, beyond the list)',
  },
  {
    scenario: /^start-bridge/,
    line: /./,
    why: 'upstream makes a bridge with a dummy link, which not every machine has; pod networks: not built',
  },
  {
    line: /^(requests › \w+ › )?vmi › status › interfaces › 0 › ipAddress(es( › \d+)?)?: ("10.0.2.2"|-) \| ("10.0.2.5"|\["10.0.2.5"\])$/,
    why: "the pod's own address comes with the pod network: not built",
  },
  {
    scenario: /^start-dedicated-cpus$/,
    line: /^events › Warning SyncFailed: no QEMU process found/,
    why: 'these launchers have no QEMU whose threads could be set apart; housekeeping: not built',
  },
  {
    scenario:
      /^(start-no-launcher-yet|end-launcher-killed|end-launcher-killed-while-scheduled|end-pod-gone|restart-launcher-died-meanwhile)$/,
    line: /(Synchronized|SyncFailed: the launcher of)/,
    why: 'a launcher that died is told in words (loop, beyond the list)',
  },
  {
    scenario: /^(end-launcher-killed-while-scheduled|end-pod-gone)$/,
    at: /^ended$/,
    line: /^(vmi › status › phase|events › Warning (Stopped|SyncFailed)|ghosts)/,
    why: 'a launcher that died is noticed at once, also before its guest ran (Fault 7)',
  },
  {
    scenario: /^end-forced-removal$/,
    line: /^(requests › \w+ › vmi › (spec|status)|events › Normal)/,
    why: 'nothing is told to an object that is gone',
  },
  {
    scenario: /^start-sev-attestation$/,
    line: /^vmi › status › (conditions|migrationMethod|selinuxContext): ({}|-) \| /,
    why: 'before a guest runs only a problem is worth a write (figures: one PUT per start)',
  },
  {
    scenario: /^end-forced-removal$/,
    line: /^calls: "shutdownVirtualMachine, deleteVirtualMachine" \| "syncVirtualMachine, /,
    why: 'a running guest is synced when its VMI changed or it is paused, not with each word of its domain',
  },
  {
    scenario: /^restart-object-gone-meanwhile$/,
    at: /^ended$/,
    line: /./,
    why: 'an orphan is reached through its ghost record, and ended (Fault 9)',
  },
  {
    scenario: /^(end-failed|end-unexplained|end-post-copy-failed)$/,
    line: /(Synchronized|SyncFailed: (libvirt shows|the post-copy|VMI is irrecoverable))/,
    why: 'why a VMI failed is told in words of our own',
  },
  {
    line: /^requests › (kill|delete)VirtualMachine › vmi › status › (phase|phaseTransitionTimestamps › \d+|conditions › Paused): /,
    why: 'the final phase is written before the domain is ended (Fault 1)',
  },
  {
    scenario: /^end-deleted-while-failing-to-start$/,
    at: /^ended$/,
    line: /^(calls|requests|vmi › status › conditions › Synchronized|events › Normal Deleted)/,
    why: 'a launcher that has no domain is not told to delete it; what was wrong stays readable',
  },
  {
    scenario: /^hot-plugged-volume-attached$/,
    line: /^requests › syncVirtualMachine › vmi › status › volumeStatus: /,
    why: 'a running guest is synced when its VMI changed or it is paused, not with each word of its domain',
  },
  {
    scenario: /^(end-launcher-killed|restart-launcher-died-meanwhile)$/,
    line: /^(vmi › status › phase(TransitionTimestamps › 1)?: "Failed" \| ("Running"|-)$|events › Warning Stopped: .* \| -$|events › Warning SyncFailed: unknown error .*Ping|ghosts: \[\] )/,
    why: 'upstream does not always notice within the 70 s that are waited for (Fault 7)',
  },
];
