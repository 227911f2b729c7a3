import type { Domain, DomainView, LauncherTarget, VirtualMachineInstance, Volume } from '../../../api/index.ts';
import type { AgentPorts, HostSeen } from '../ports.ts';
import type { LauncherFacts } from './memory.ts';

/** Images that are made for a start and never change, so their sizes are read once per start (pkg/virt-handler/vm.go). */
export function isoPath(volume: Volume, vmi: VirtualMachineInstance): string | undefined {
  const { namespace = '', name } = vmi.metadata;
  const cloudInit = `/var/run/kubevirt-ephemeral-disks/cloud-init-data/${namespace}/${name}`;
  const priv = '/var/run/kubevirt-private';
  if (volume.cloudInitNoCloud) return `${cloudInit}/noCloud.iso`;
  if (volume.cloudInitConfigDrive) return `${cloudInit}/configdrive.iso`;
  if (volume.configMap) return `${priv}/config-map-disks/${volume.name}.iso`;
  if (volume.secret) return `${priv}/secret-disks/${volume.name}.iso`;
  if (volume.downwardAPI) return `${priv}/downwardapi-disks/${volume.name}.iso`;
  if (volume.sysprep) return `${priv}/sysprep-disks/${volume.name}.iso`;
  if (volume.serviceAccount) return `${priv}/service-account-disk/service-account.iso`;
  return undefined;
}

/** The guest was started: all that its launcher makes for a start is there. */
export function hasBegun(domain: DomainView): boolean {
  return domain.kind === 'present' && !['', 'NoState', 'Shutoff', 'Crashed'].includes(domain.domain.Status.Status);
}

export type LauncherFactsPorts = Pick<AgentPorts, 'host' | 'launchers'>;

/**
 * Undefined: not now, try again in a later reconcile. Costs nothing where SELinux is off and there is no such image. The
 * launcher must be connected: then its pid is known without a call.
 */
export async function readLauncherFacts(
  target: LauncherTarget,
  vmi: VirtualMachineInstance,
  { host, launchers }: LauncherFactsPorts,
  signal: AbortSignal,
): Promise<LauncherFacts | undefined> {
  const paths = (vmi.spec?.volumes ?? []).flatMap((volume) => {
    const path = isoPath(volume, vmi);
    return path === undefined ? [] : [[volume.name, path] as const];
  });
  const label = host.selinuxContext(undefined);
  const wantsSizes = paths.length > 0 && host.fileSizes !== undefined;
  if (label !== '' && !wantsSizes) return { selinuxContext: label, isoSizes: {} };
  let pid: number;
  try {
    pid = await launchers.launcherPid(target, signal);
  } catch {
    return undefined;
  }
  const sizes = wantsSizes ? (host.fileSizes?.(pid, [...new Set(paths.map(([, path]) => path))]) ?? {}) : {};
  const found = paths.flatMap(([name, path]) => (sizes[path] === undefined ? [] : [[name, sizes[path]] as const]));
  return { selinuxContext: host.selinuxContext(pid), isoSizes: Object.fromEntries(found) };
}

/** Of a launcher whose guest waits for volumes: the pods that bring them need it. Undefined: not now. */
export async function readLabel(
  target: LauncherTarget,
  { host, launchers }: LauncherFactsPorts,
  signal: AbortSignal,
): Promise<string | undefined> {
  const label = host.selinuxContext(undefined);
  if (label !== '') return label;
  try {
    return host.selinuxContext(await launchers.launcherPid(target, signal));
  } catch {
    return undefined;
  }
}

/** What hooks see inside a launcher; nothing where its process cannot be determined. */
export async function readHostSeen(
  target: LauncherTarget,
  vmi: VirtualMachineInstance,
  { hostWork, launchers }: Pick<AgentPorts, 'hostWork' | 'launchers'>,
  signal: AbortSignal,
): Promise<HostSeen> {
  if (!hostWork.mayObserve({ uid: target.uid, vmi })) return {};
  try {
    const launcherPid = await launchers.launcherPid(target, signal);
    return await hostWork.observe({ uid: target.uid, vmi, launcherPid, signal });
  } catch {
    return {};
  }
}

const agentChannel = 'org.qemu.guest_agent.0';

export function isGuestAgentConnected(domain: Domain | undefined): boolean {
  const channels = domain?.Spec?.Devices?.Channels ?? [];
  return channels.some((channel) => channel?.Target?.Name === agentChannel && channel.Target.State === 'connected');
}
