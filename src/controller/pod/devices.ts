import type { Quantity, VirtualMachineInstance } from '../../api/index.ts';
import { vfioDevices } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { PodRenderError } from './errors.ts';

type Amounts = Record<string, Quantity>;
interface Resources {
  readonly requests: Amounts;
  readonly limits: Amounts;
}

const own = (name: string) => `devices.kubevirt.io/${name}`;

/** What `compute` gets of device plug-ins (upstream: pkg/virt-controller/services/renderresources.go). Throws PodRenderError NOT_PERMITTED. */
export function addDevices(vmi: VirtualMachineInstance, config: ControllerConfig, resources: Resources): void {
  const { limits } = resources;
  const { interfaces = [], autoattachPodInterface, autoattachVSOCK, disks = [] } = vmi.spec.domain.devices ?? {};
  if (interfaces.length > 0 || autoattachPodInterface !== false) limits[own('tun')] = '1';
  if (autoattachVSOCK) limits[own('vhost-vsock')] = '1';
  const { sev, snp, tdx } = vmi.spec.domain.launchSecurity ?? {};
  if (sev || snp) addOne(resources, own('sev'));
  if (tdx) addOne(resources, own('tdx'));
  if (disks.some(({ lun }) => lun?.reservation)) addOne(resources, own('pr-helper'));
  if (config.launcherPods.iommufd && vfioDevices(vmi) > 0) addOne(resources, own('iommufd'));
  for (const name of machineDevices(vmi, config)) addOne(resources, name);
  if (config.useEmulation) return;
  limits[own('kvm')] = '1';
  const isVirtio = ({ model }: { model?: string }) => model === undefined || model === '' || model === 'virtio';
  if (interfaces.some(isVirtio)) limits[own('vhost-net')] = '1';
}

/** Resource names of GPUs and host devices that a device plug-in gives out. */
function machineDevices({ spec }: VirtualMachineInstance, { launcherPods }: ControllerConfig): string[] {
  const { gpus = [], hostDevices = [] } = spec.domain.devices ?? {};
  return [...gpus, ...hostDevices].flatMap(({ name, deviceName = '', claimName }) => {
    if (claimName) return [];
    if (deviceName === '') throw notPermitted(`device ${name} needs a deviceName, or a claimName`);
    if (launcherPods.permittedDevices?.has(deviceName) === false) {
      throw notPermitted(
        `device ${name}: ${deviceName} is not in spec.configuration.permittedHostDevices of the KubeVirt object`,
      );
    }
    return [deviceName];
  });
}

const claimGates = {
  gpus: 'GPUsWithDRA',
  hostDevices: 'HostDevicesWithDRA',
  networks: 'NetworkDevicesWithDRA',
} as const;

/** Requests for devices that a driver gives out by claims (dynamic resource allocation). Throws PodRenderError NOT_PERMITTED. */
export function deviceClaims(
  { spec }: VirtualMachineInstance,
  { launcherPods }: ControllerConfig,
): { name: string; request?: string }[] {
  const { gpus = [], hostDevices = [] } = spec.domain.devices ?? {};
  const networks = (spec.networks ?? []).map(({ name, resourceClaim }) => ({ ...resourceClaim, name }));
  return Object.entries({ gpus, hostDevices, networks }).flatMap(([list, devices]) =>
    devices.flatMap(({ name, claimName, requestName }) => {
      if (!claimName) return [];
      if (!launcherPods.claims[list as keyof typeof claimGates]) {
        const gate = claimGates[list as keyof typeof claimGates];
        throw notPermitted(`${name} of ${list}: a claim needs the feature gate ${gate} of the KubeVirt object`);
      }
      return [{ name: claimName, ...(requestName && { request: requestName }) }];
    }),
  );
}

function addOne({ requests, limits }: Resources, name: string): void {
  for (const amounts of [requests, limits]) amounts[name] = String(Number(amounts[name] ?? 0) + 1);
}

function notPermitted(problem: string): PodRenderError {
  return new PodRenderError('NOT_PERMITTED', problem);
}
