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
];
