/** What ours does differently on purpose. Everything else that differs is a finding. */
export interface Intended {
  /** All of them unless given. */
  readonly scenario?: RegExp;
  readonly at?: RegExp;
  /** `path: ours | other`, as narrow as it can be: the values, too, where they are always the same. */
  readonly line: RegExp;
  /** "Fault", "loop", "status", "launchers", "domains": rows of docs/better-than-upstream.md. */
  readonly why: string;
  /** Not in every run: it is a matter of time what the other agent has done when both are looked at. */
  readonly sometimes?: true;
}

const noStreams = 'this agent cannot carry the streams of a migration yet, and says so (Migration, 11)';
const reportedOnce = 'a problem is told once, not with each try (Status; Faults, 8)';
const finalFirst = 'the final phase is written before the domain is ended or deleted (Fault 1)';
const notEachWord = 'a running guest is synced when its VMI changed or it is paused, not with each word of its domain';
const noDomain = 'a launcher that has no domain is not told to delete it';
const ownWords = 'texts are our own; no program reads this one';
const deadInWords = 'a launcher that died is told in words (loop, beyond the list)';

export const intended: readonly Intended[] = [
  {
    line: /^requests › \w+ › vmi › (apiVersion: "kubevirt.io\/v1"|kind: "VirtualMachineInstance") \| -$/,
    why: 'launchers get the whole object, with its type',
  },
  {
    line: /^(requests › \w+ › )?vmi › status › conditions › LiveMigratable › (status: "False" \| "True"|reason: "NodeAgentNotLiveMigratable" \| -|message: "this node agent cannot carry the streams of a live migration yet" \| -)$/,
    why: noStreams,
  },
  {
    line: /^(requests › \w+ › )?vmi › status › conditions › StorageLiveMigratable › (status: "False" \| "True"|reason: "NotMigratable" \| -|message: "NodeAgentNotLiveMigratable: this node agent cannot carry the streams of a live migration yet" \| -)$/,
    why: noStreams,
  },
  {
    line: /^ghosts › 0 › (pid: \d+|startTime: "\d+"|version: 1) \| -$/,
    why: 'a record keeps the process, so that its death can be proven (Launchers: a pid is compared with its start time)',
  },
  {
    line: /^events › Normal Deleted: Signaled Deletion › count: 1 \| \d+$/,
    why: 'a domain is deleted once, and told once (loop, 16)',
  },
  {
    line: /^requests › (kill|delete)VirtualMachine › vmi › status › (phase: "(Succeeded|Failed)" \| "(Running|Scheduled)"|phaseTransitionTimestamps › \d: "(Succeeded|Failed)" \| -)$/,
    why: finalFirst,
  },
  {
    scenario: /^end-deleted-while-paused$/,
    line: /^requests › deleteVirtualMachine › vmi › status › conditions › Paused: - \| /,
    why: finalFirst,
  },
  {
    line: /^events › Normal Created: VirtualMachineInstance defined\. › count: 1 \| \d+$/,
    why: 'a start is one sync, and told once',
    sometimes: true,
  },
  {
    scenario:
      /^(start-sync-fails|end-launcher-killed-while-scheduled|end-deleted-while-failing-to-start|restart-while-scheduled)$/,
    line: /^events › Warning SyncFailed: server error\. command SyncVMI failed: "(not yet|something \\"quoted\\" is wrong)" › count: 1 \| \d+$/,
    why: reportedOnce,
  },
  {
    scenario: /^start-eviction-not-migratable$/,
    line: /^events › Warning Migrated: EvictionStrategy is set but vmi is not migratable; VMI uses SEV › count: 1 \| \d+$/,
    why: reportedOnce,
  },
  {
    scenario: /^start-(bridge|pvc-rwo|host-disk|hyperv-reenlightenment|eviction-if-possible)$/,
    line: /^(requests › \w+ › )?vmi › status › conditions › LiveMigratable › message: "[^"]+" \| "[^"]+"$/,
    why: 'texts are our own; reasons are compared',
  },
  {
    scenario: /^start-(bridge|hyperv-reenlightenment)$/,
    // The reason before the text is the same on both sides.
    line: /^(requests › \w+ › )?vmi › status › conditions › StorageLiveMigratable › message: "(\w+): [^"]+" \| "\2: [^"]+"$/,
    why: 'texts are our own; reasons are compared',
  },
  {
    scenario: /^end-post-copy-failed$/,
    line: /^(requests › deleteVirtualMachine › )?vmi › status › conditions › Synchronized › message: "the post-copy migration failed and the guest cannot be recovered" \| "VMI is irrecoverable due to failed post-copy migration"$/,
    why: ownWords,
  },
  {
    scenario: /^guest-agent-unsupported$/,
    at: /^connected$/,
    line: /^vmi › status › conditions › AgentVersionNotSupported › reason: "This guest agent lacks basic commands: guest-ping" \| "This guest agent doesn't support required basic commands"$/,
    why: ownWords,
  },
  {
    scenario: /^guest-agent-unsupported$/,
    at: /^told more$/,
    line: /^vmi › status › conditions › AgentVersionNotSupported: {.*} \| -$/,
    why: 'an agent is asked once per connection and every five minutes (Status)',
  },
  {
    scenario: /^start-hyperv-(reenlightenment|passthrough)$/,
    line: /^(requests › \w+ › )?vmi › spec › domain › features › acpi: - \| {}$/,
    why: 'nothing is written into the spec; the API server fills in defaults',
  },
  {
    scenario:
      /^(guest-agent|guest-agent-old|guest-agent-unsupported|state-(pmsuspended|blocked|nostate|shuttingdown)|memory-balloon|freeze|access-credentials)$/,
    line: /^(calls: "none" \| "syncVirtualMachine"$|requests: {} \| {"syncVirtualMachine":)/,
    why: notEachWord,
  },
  {
    scenario: /^pause-by-(user|io-error)$/,
    at: /^runs again$/,
    line: /^(calls: "none" \| "syncVirtualMachine"$|requests: {} \| {"syncVirtualMachine":)/,
    why: notEachWord,
  },
  {
    scenario: /^end-forced-removal$/,
    at: /^gone$/,
    line: /^(calls: "shutdownVirtualMachine, deleteVirtualMachine" \| "syncVirtualMachine, shutdownVirtualMachine, deleteVirtualMachine"$|requests › syncVirtualMachine: - \| )/,
    why: notEachWord,
  },
  {
    scenario: /^hot-plugged-volume-attached$/,
    at: /^attached$/,
    line: /^requests › syncVirtualMachine › vmi › status › volumeStatus: \[.*\] \| -$/,
    why: notEachWord,
  },
  {
    scenario: /^start-efi-rom-missing$/,
    at: /^failed$/,
    line: /^(calls: "syncVirtualMachine" \| "syncVirtualMachine, deleteVirtualMachine"$|requests › deleteVirtualMachine: - \| |events › Normal Deleted: Signaled Deletion: - \| )/,
    why: noDomain,
  },
  {
    scenario: /^start-deleted-before$/,
    at: /^ended$/,
    line: /^(calls: "none" \| "deleteVirtualMachine"$|requests: {} \| {"deleteVirtualMachine":|events: {} \| {"Normal Deleted: Signaled Deletion":|vmi › status › (conditions: {}|migrationMethod: -|selinuxContext: -) \| )/,
    why: 'a VMI that is deleted before its guest ran is ended without any word to its launcher (loop, beyond the list)',
  },
  {
    scenario: /^end-deleted-while-failing-to-start$/,
    at: /^ended$/,
    line: /^(calls: "none" \| "deleteVirtualMachine"$|requests: {} \| {"deleteVirtualMachine":|events › Normal Deleted: Signaled Deletion: - \| )/,
    why: noDomain,
  },
  {
    scenario: /^end-deleted-while-failing-to-start$/,
    at: /^ended$/,
    line: /^vmi › status › conditions › Synchronized: {.*command SyncVMI failed.*} \| -$/,
    why: 'what was wrong stays readable',
  },
  {
    scenario: /^start-dedicated-cpus$/,
    line: /^(events › Warning SyncFailed: (no QEMU process found under process \d+ child processes: - \| |threads of the guest [^:]*: no QEMU of this guest runs in its launcher\. [^:]*: {.*} \| -$)|vmi › status › conditions › Synchronized(: {.*"message":"threads of the guest .*} \| -$| › message: "threads of the guest [^"]*" \| "no QEMU process))/,
    why: 'these launchers have no QEMU whose threads could be placed: each agent says so in its own words',
  },
  {
    scenario:
      /^(start-no-launcher-yet|end-launcher-killed|end-launcher-killed-while-scheduled|end-pod-gone|restart-launcher-died-meanwhile)$/,
    line: /^(vmi › status › conditions › Synchronized: {.*"message":"the launcher of .*} \| -$|events › Warning SyncFailed: the launcher of .*: {.*} \| -$)/,
    why: deadInWords,
  },
  {
    scenario: /^(end-launcher-killed-while-scheduled|end-pod-gone)$/,
    at: /^ended$/,
    line: /^(vmi › status › (phase(TransitionTimestamps › \d)?: "Failed"|phaseTransitionTimestamps: \["Failed"\]|conditions › Synchronized › message: "the launcher of [^"]*") \| |events › Warning (Stopped: .* \| -$|SyncFailed: cannot detect vm .*: - \| )|ghosts: \[\] \| )/,
    why: 'a launcher that died is noticed at once, also before its guest ran (Fault 7)',
    sometimes: true,
  },
  {
    scenario: /^(end-launcher-killed|restart-launcher-died-meanwhile)$/,
    line: /^(vmi › status › phase(TransitionTimestamps › 1)?: "Failed" \| ("Running"|-)$|events › Warning Stopped: .* \| -$|events › Warning SyncFailed: unknown error .*Ping.*: - \| |ghosts: \[\] \| )/,
    why: 'upstream does not always notice within the 70 s that are waited for (Fault 7)',
    sometimes: true,
  },
  {
    scenario: /^end-forced-removal$/,
    at: /^gone$/,
    line: /^(requests › \w+ › vmi › (spec › domain: {}|status: -) \| |events › Normal (Deleted: Signaled Deletion|ShuttingDown: Signaled Graceful Shutdown): - \| )/,
    why: 'nothing is told to an object that is gone',
  },
  {
    scenario: /^start-sev-attestation$/,
    at: /^started$/,
    line: /^vmi › status › (conditions: {}|migrationMethod: -|selinuxContext: -) \| /,
    why: 'before a guest runs only a problem is worth a write (figures: one PUT per start)',
  },
  {
    scenario: /^restart-object-gone-meanwhile$/,
    at: /^ended$/,
    line: /^(calls: "shutdownVirtualMachine, deleteVirtualMachine" \| "none"$|requests: {"shutdownVirtualMachine":.*} \| {}$|events › Warning SyncFailed: No command socket found for vmi <uid 1>: - \| |ghosts: \[\] \| \[{)/,
    why: 'an orphan is reached through its ghost record, and ended (Fault 9)',
  },
  {
    scenario: /^(end-failed|end-unexplained)$/,
    line: /^((requests › deleteVirtualMachine › )?vmi › status › conditions › Synchronized: {.*"message":"libvirt shows the domain shut off and gives no reason".*} \| -|events › Warning SyncFailed: libvirt shows the domain shut off and gives no reason: {.*} \| -)$/,
    why: 'why a VMI failed is told',
  },
  {
    scenario: /^end-post-copy-failed$/,
    line: /^(requests › killVirtualMachine › vmi › status › conditions › Synchronized: {.*"message":"the post-copy migration failed.*} \| -$|events › Warning SyncFailed: (the post-copy migration failed and the guest cannot be recovered: {.*} \| -$|VMI is irrecoverable due to failed post-copy migration: - \| ))/,
    why: ownWords,
  },
];
