import { domainName, type VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, listOf } from '../../base/index.ts';
import { PodRenderError } from './errors.ts';

type Probe = Readonly<Record<string, unknown>>;

/** A guest takes longer to begin than a container. */
const addedDelaySeconds = 10;
/** What the program that asks the guest agent needs for itself. */
const addedTimeoutSeconds = 1;
const program = 'virt-probe';

/**
 * Probes of the guest as probes of `compute` (upstream: copyProbe in pkg/virt-controller/services/template.go): ports are asked by the kubelet,
 * commands and the guest agent by a program in the container. Throws PodRenderError.
 */
export function probes(vmi: VirtualMachineInstance): Record<string, Probe> {
  const entries = ['readinessProbe', 'livenessProbe'].flatMap((name) => {
    const given = vmi.spec[name];
    return given === undefined ? [] : [[name, probeOf(name, given, vmi)] as const];
  });
  return Object.fromEntries(entries);
}

function probeOf(name: string, given: unknown, vmi: VirtualMachineInstance): Probe {
  if (!isRecord(given)) throw new PodRenderError('BAD_PROBE', `spec.${name} must be an object`);
  const { exec, guestAgentPing, httpGet, tcpSocket, initialDelaySeconds, ...times } = given;
  const timeoutSeconds = secondsOf(times.timeoutSeconds, 1);
  const common = {
    initialDelaySeconds: secondsOf(initialDelaySeconds, 0) + addedDelaySeconds,
    periodSeconds: secondsOf(times.periodSeconds, 10),
    successThreshold: secondsOf(times.successThreshold, 1),
    failureThreshold: secondsOf(times.failureThreshold, 3),
  };
  if (httpGet) return { httpGet, timeoutSeconds, ...common };
  if (tcpSocket) return { tcpSocket, timeoutSeconds, ...common };
  const question = exec ? commandOf(name, exec) : guestAgentPing ? ['--guestAgentPing'] : undefined;
  if (!question) {
    const choices = 'httpGet, tcpSocket, exec, guestAgentPing';
    throw new PodRenderError('BAD_PROBE', `spec.${name} says nothing to ask for: give it one of ${choices}`);
  }
  const { namespace = 'default', name: vmiName } = vmi.metadata;
  const asked = ['--domainName', domainName(namespace, vmiName), '--timeoutSeconds', String(timeoutSeconds)];
  const command = [program, ...asked, ...question];
  return { exec: { command }, timeoutSeconds: timeoutSeconds + addedTimeoutSeconds, ...common };
}

function commandOf(name: string, exec: unknown): string[] {
  const [command, ...args] = isRecord(exec) ? listOf(exec.command) : [];
  if (typeof command !== 'string') throw new PodRenderError('BAD_PROBE', `spec.${name}.exec.command is empty`);
  return ['--command', command, '--', ...args.map(String)];
}

/** As Kubernetes fills them in: 0 counts as not given. */
function secondsOf(value: unknown, fallback: number): number {
  return typeof value === 'number' && value > 0 ? value : fallback;
}
