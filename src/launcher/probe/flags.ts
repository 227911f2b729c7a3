import { FlagError, type FlagTable, flagUsage, parseGoFlags } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';
import type { ProbeQuestion } from './probe.ts';

/** In the order of upstream's `cmd/virt-probe/virt-probe.go`. */
const flags = {
  socket: {
    kind: 'string',
    fallback: '/var/run/kubevirt/sockets/launcher-sock',
    help: "the launcher's command socket",
  },
  domainName: { kind: 'string', fallback: '', help: 'name of the domain, <namespace>_<name of the VMI>' },
  command: { kind: 'string', fallback: '', help: 'program to run in the guest; its arguments follow after --' },
  timeoutSeconds: { kind: 'int', fallback: 1, help: 'time that the guest has to answer, in seconds' },
  guestAgentPing: { kind: 'bool', fallback: false, help: 'ask the guest agent whether it is there' },
} as const satisfies FlagTable;

/** Undefined: help is wanted. Throws LauncherError BAD_FLAG. */
export function parseProbeFlags(argv: readonly string[]): ProbeQuestion | undefined {
  const end = argv.indexOf('--');
  const values = parsed(end < 0 ? argv : argv.slice(0, end));
  if (!values) return undefined;
  const { socket, domainName, command, timeoutSeconds, guestAgentPing } = values;
  const args = end < 0 ? [] : argv.slice(end + 1);
  if (domainName === '') throw new LauncherError('BAD_FLAG', '--domainName says which guest is asked');
  if ((command === '') === !guestAgentPing) {
    throw new LauncherError('BAD_FLAG', 'say what to ask for: either --command PROGRAM or --guestAgentPing');
  }
  if (timeoutSeconds < 1) throw new LauncherError('BAD_FLAG', '--timeoutSeconds must be at least 1');
  return {
    socket,
    domainName,
    timeoutSeconds,
    ...(guestAgentPing ? { kind: 'ping' } : { kind: 'exec', command, args }),
  };
}

function parsed(argv: readonly string[]) {
  try {
    return parseGoFlags(flags, argv);
  } catch (error) {
    if (error instanceof FlagError) throw new LauncherError('BAD_FLAG', error.message, { cause: error });
    throw error;
  }
}

export function probeUsage(): string {
  return flagUsage('virt-probe', flags);
}
