import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from '../../../base/index.ts';
import { containerLabeller } from '../../../host/index.ts';
import type { DeviceSettings } from './device-settings.ts';
import type { DeviceRoots, DeviceSource } from './device-source.ts';
import { MediatedSource } from './mediated-source.ts';
import { PciSource } from './pci-source.ts';
import { SocketSource } from './socket-source.ts';
import { TokenSource } from './token-source.ts';
import { type DeviceOwner, UsbInventory, UsbSource } from './usb-source.ts';

export interface DevicePlanOptions {
  readonly roots: DeviceRoots;
  /** Ids per resource that any number of pods share: `--max-devices`. */
  readonly maxDevices: number;
  /** Upstream's share directory, at the same place on the host. */
  readonly shareDir: string;
  /** The launcher's user. */
  readonly owner: DeviceOwner;
}

/** One resource that the kubelet is to know of. */
export interface PlannedPlugin {
  readonly resource: string;
  readonly socketName: string;
  /** Without it the node takes no VMIs; what people call it. */
  readonly essential?: string;
  /** The same text: the same devices, the source that runs stays. */
  readonly version: string;
  readonly source: () => DeviceSource;
}

export interface DevicePlan {
  readonly plugins: readonly PlannedPlugin[];
  readonly usb: UsbInventory;
}

interface PlanDeps {
  readonly log: Logger;
  /** Units of `TDX` keys that the machine has; 0: none. */
  readonly tdxCapacity: number;
  readonly usbBefore?: UsbInventory | undefined;
}

const ownDomain = 'devices.kubevirt.io';
/** The kubelet takes messages of up to 4 MiB: more ids would not fit into a list. */
const mostDevices = 100_000;

/** Which plugins the configuration asks for, as pkg/virt-handler/device-manager/device_controller.go has it. */
export function planPlugins(settings: DeviceSettings, options: DevicePlanOptions, deps: PlanDeps): DevicePlan {
  const { usbBefore } = deps;
  const isSameUsb = usbBefore && isDeepStrictEqual(usbBefore.resources, settings.hostDevices.usb);
  const usb = isSameUsb ? usbBefore : new UsbInventory(settings.hostDevices.usb, options.roots, usbBefore);
  const plugins = [
    ...tokenPlugins(settings, options),
    ...socketPlugins(settings, options, deps),
    ...hostPlugins(settings, options, usb),
  ];
  return { plugins: withOwnSockets(plugins), usb };
}

function tokenPlugins(settings: DeviceSettings, { roots, maxDevices }: DevicePlanOptions): PlannedPlugin[] {
  const { hypervisorDevice, useEmulation, sev, vsock } = settings;
  const token = (name: string, device: string, { essential = false, loadsModule = true } = {}): PlannedPlugin => ({
    resource: `${ownDomain}/${name}`,
    socketName: `kubevirt-${name}.sock`,
    ...(essential && { essential: name }),
    version: 'token',
    source: () => new TokenSource({ name, device, count: Math.min(maxDevices, mostDevices), loadsModule }, roots),
  });
  return [
    token(hypervisorDevice, hypervisorDevice, { essential: !useEmulation, loadsModule: false }),
    token('tun', 'net/tun', { essential: true }),
    // A launcher asks for it under the same condition (pkg/virt-controller/services/renderresources.go).
    token('vhost-net', 'vhost-net', { essential: !useEmulation }),
    ...(sev ? [token('sev', 'sev')] : []),
    ...(vsock ? [token('vhost-vsock', 'vhost-vsock')] : []),
  ];
}

function socketPlugins(
  settings: DeviceSettings,
  options: DevicePlanOptions,
  { log, tdxCapacity }: PlanDeps,
): PlannedPlugin[] {
  const { persistentReservation, tdx } = settings;
  const { roots, maxDevices, shareDir, owner } = options;
  const reservation = {
    name: 'pr-helper',
    count: Math.min(maxDevices, mostDevices),
    directory: path.join(shareDir, 'daemons/pr'),
    socketName: 'pr-helper.sock',
    owner,
    isRequired: true,
  };
  const quotes = tdx && {
    name: 'tdx',
    count: tdxCapacity,
    directory: path.dirname(tdx.qgsSocketPath),
    socketName: path.basename(tdx.qgsSocketPath),
    hostRoot: roots.hostRoot,
    isRequired: tdx.enforced,
  };
  const wanted = [persistentReservation ? reservation : undefined, quotes && tdxCapacity > 0 ? quotes : undefined];
  return wanted
    .filter((each) => each !== undefined)
    .map((each) => ({
      resource: `${ownDomain}/${each.name}`,
      socketName: `kubevirt-${each.name}.sock`,
      version: JSON.stringify(each),
      source: () => new SocketSource(each, { log, label: () => containerLabeller(roots.hostRoot, log) }),
    }));
}

function hostPlugins(
  settings: DeviceSettings,
  { roots, owner }: DevicePlanOptions,
  usb: UsbInventory,
): PlannedPlugin[] {
  const { hostDevices } = settings;
  const allUsb = JSON.stringify(hostDevices.usb);
  return [
    ...hostDevices.pci.map((each) => hostPlugin(each.resource, JSON.stringify(each), () => new PciSource(each, roots))),
    ...hostDevices.mediated.map((each) =>
      hostPlugin(each.resource, JSON.stringify(each), () => new MediatedSource(each, roots)),
    ),
    ...hostDevices.usb.map(({ resource }) =>
      hostPlugin(resource, allUsb, () => new UsbSource(resource, usb, { roots, owner }), 'kubevirt-usb'),
    ),
  ];
}

function hostPlugin(resource: string, version: string, source: () => DeviceSource, prefix = 'kubevirt'): PlannedPlugin {
  return { resource, socketName: `${prefix}-${resource.replaceAll('/', '-')}.sock`, version, source };
}

/** `a/b-c` and `a-b/c` would have one name. */
function withOwnSockets(plugins: readonly PlannedPlugin[]): PlannedPlugin[] {
  const taken = new Set<string>();
  return plugins.map((plugin) => {
    let { socketName } = plugin;
    while (taken.has(socketName)) socketName = socketName.replace(/\.sock$/, '-.sock');
    taken.add(socketName);
    return { ...plugin, socketName };
  });
}
