import { findCondition, type VirtualMachineInstance } from '../../api/index.ts';
import { memberAt } from '../../base/index.ts';
import type { Gates } from '../../cluster-config/index.ts';

/** Group and version that virt-api serves through an APIService (`pkg/virt-api/rest/subresource.go`). */
export const vmSubresourceGroup = { group: 'subresources.kubevirt.io', version: 'v1' } as const;

/** What must be true of a VMI before its agent is asked; gives what is not, in virt-api's words. */
type Check = (vmi: VirtualMachineInstance) => string | undefined;

export interface VmSubresource {
  /** As in the URL: `vnc/screenshot`. */
  readonly name: string;
  readonly method: 'GET' | 'PUT';
  readonly kind: 'stream' | 'call';
  readonly checks: readonly Check[];
  /** Only with it. */
  readonly gate?: keyof Gates;
}

const isTrue = (vmi: VirtualMachineInstance, type: string) =>
  findCondition(vmi.status?.conditions, type)?.status === 'True';

const runs: Check = ({ status }) => (status?.phase === 'Running' ? undefined : 'VMI is not running');
const isNotPaused: Check = (vmi) => (isTrue(vmi, 'Paused') ? 'VMI is already paused' : undefined);
const isPaused: Check = (vmi) => (isTrue(vmi, 'Paused') ? undefined : 'VMI is not paused');
const hasGuestAgent: Check = (vmi) =>
  isTrue(vmi, 'AgentConnected') ? undefined : 'VMI does not have guest agent connected';
const hasSerial: Check = ({ spec }) =>
  spec.domain.devices?.autoattachSerialConsole === false ? 'No serial consoles are present.' : undefined;
const hasScreen: Check = ({ spec }) =>
  spec.domain.devices?.autoattachGraphicsDevice === false ? 'No graphics devices are present.' : undefined;

const isPlaced: Check = ({ status }) =>
  ['Scheduled', 'Running'].includes(status?.phase ?? '') ? undefined : 'VMI is not assigned to a node yet';
const isScheduled: Check = ({ status }) =>
  status?.phase === 'Scheduled' ? undefined : 'VMI is not in Scheduled phase';
const isAttested: Check = ({ spec }) => {
  const { sev, snp } = spec.domain.launchSecurity ?? {};
  return sev?.attestation && !snp ? undefined : 'Attestation not requested for VMI';
};
const isTracked: Check = ({ status }) =>
  memberAt(status, 'changedBlockTracking', 'state') === 'Enabled' ? undefined : 'ChangedBlockTracking is not enabled';
const hasNoSession: Check = ({ spec }) => {
  const { session, dhCert } = spec.domain.launchSecurity?.sev ?? {};
  return session || dhCert ? 'Session already defined' : undefined;
};

function stream(name: string, ...checks: readonly Check[]): VmSubresource {
  return { name, method: 'GET', kind: 'stream', checks: [runs, ...checks] };
}

function call(method: 'GET' | 'PUT', name: string, ...checks: readonly Check[]): VmSubresource {
  return { name, method, kind: 'call', checks: [runs, ...checks] };
}

const sevGate = 'WorkloadEncryptionSEV';

/** Of `virtualmachineinstances`. */
export const vmiSubresources: readonly VmSubresource[] = [
  stream('console', hasSerial),
  stream('vnc', hasScreen),
  stream('usbredir'),
  call('GET', 'vnc/screenshot', hasScreen),
  call('GET', 'guestosinfo', hasGuestAgent),
  call('GET', 'userlist', hasGuestAgent),
  call('GET', 'filesystemlist', hasGuestAgent),
  call('PUT', 'pause', isNotPaused),
  call('PUT', 'unpause', isPaused),
  call('PUT', 'freeze'),
  call('PUT', 'unfreeze'),
  call('PUT', 'softreboot', isNotPaused),
  call('PUT', 'reset'),
  call('PUT', 'backup'),
  call('PUT', 'redefine-checkpoint', isTracked),
  { name: 'sev/fetchcertchain', method: 'GET', kind: 'call', checks: [isPlaced, isAttested], gate: sevGate },
  { ...call('GET', 'sev/querylaunchmeasurement', isAttested, isPaused), gate: sevGate },
  { ...call('PUT', 'sev/injectlaunchsecret', isAttested, isPaused), gate: sevGate },
];

/** Of VMIs; it changes the object, and asks no agent. */
export const sevSession = 'sev/setupsession';
export const sevSessionRules = { gate: sevGate, checks: [isScheduled, isAttested, hasNoSession] } as const;

/** Of `virtualmachines`. */
export const vmSubresources = ['start', 'stop', 'restart'] as const;

/** Of both; they change the object, and ask no agent. */
export const volumeSubresources: readonly string[] = ['addvolume', 'removevolume'];

/** Of VMs; they change its status, and ask no agent. */
export const memoryDumpSubresources: readonly string[] = ['memorydump', 'removememorydump'];

/** Of VMs; the second one of VMIs, too. They change objects, and ask no agent. */
export const migrationSubresources: readonly string[] = ['migrate', 'evacuate/cancel'];

/** Of VMs: the VM with what its instance type and preference say; the second one is of a VM that is not stored. They change nothing. */
export const expandSpec = 'expand-spec';
export const expandVmSpec = 'expand-vm-spec';

/** Of both: a stream that does not pass the agent. Below it: `/PORT` and, unless it is TCP, `/PROTOCOL`. */
export const portForward = 'portforward';

/** What must be true of a VMI whose ports are asked for. */
export const portForwardChecks: readonly Check[] = [runs];

/** Streams that need what is not here. */
export const knownVmSubresources: readonly string[] = ['vsock'];
