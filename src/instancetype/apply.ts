import type { Devices, VirtualMachine, VmiSpec } from '../api/index.ts';
import { isRecord } from '../base/index.ts';
import { applyInstancetype } from './apply-instancetype.ts';
import { applyAutoattach, applyPreference } from './apply-preference.ts';
import { checkRequirements } from './requirements.ts';
import { readTemplate } from './shapes.ts';
import type { InstancetypeAndPreference } from './types.ts';

/** What the cluster says of machines that say nothing. */
export interface MachineDefaults {
  readonly architecture: string;
  readonly defaultInterfaceBinding: string;
}

type Template = VirtualMachine['spec']['template'];

/**
 * A VM's template that says itself what its instance type and preference say. Disks, input device and network that the machine gets by
 * itself are there before a preference says what they are like. Throws InstancetypeError, also where less is there than the
 * preference requires.
 */
export function appliedTemplate(
  { spec: { template } }: Pick<VirtualMachine, 'spec'>,
  found: InstancetypeAndPreference,
  defaults: MachineDefaults,
): Template {
  const { instancetype, preference } = found;
  const spec = readTemplate(template?.spec ?? {});
  const metadata = isRecord(template?.metadata) ? template.metadata : {};
  const annotations = { ...metadata.annotations };
  if (preference) applyAutoattach(preference, spec);
  addDevices(spec, defaults);
  if (instancetype) applyInstancetype(instancetype, preference, spec, annotations);
  if (preference) applyPreference(preference, spec, annotations);
  const { devices } = spec.domain;
  if (devices?.inputs) devices.inputs = devices.inputs.map((input) => ({ ...input, ...knownInput(input) }));
  checkRequirements(found, spec, defaults.architecture);
  return { ...template, metadata: { ...metadata, annotations }, spec };
}

/** As upstream's SetDefaultVolumeDisk, AutoAttachInputDevice and SetDefaultNetworkInterface. Changes `spec`. */
function addDevices(spec: VmiSpec, { defaultInterfaceBinding }: MachineDefaults): void {
  const devices: Devices = { ...spec.domain.devices };
  const { disks = [], filesystems = [], interfaces = [], inputs = [] } = devices;
  const used = new Set([...disks, ...filesystems].map(({ name }) => name));
  const missing = (spec.volumes ?? []).filter(({ name }) => !used.has(name));
  if (missing.length > 0) devices.disks = [...disks, ...missing.map(({ name }) => ({ name }))];
  if (devices.autoattachInputDevice && inputs.length === 0) devices.inputs = [{ name: 'default-0', type: '' }];
  const hasNetwork = (spec.networks?.length ?? 0) > 0 || interfaces.length > 0;
  if (!hasNetwork && devices.autoattachPodInterface !== false) {
    devices.interfaces = [{ name: 'default', [defaultInterfaceBinding]: {} }];
    spec.networks = [{ name: 'default', pod: {} }];
  }
  spec.domain.devices = devices;
}

type Input = NonNullable<Devices['inputs']>[number];

function knownInput({ type, bus }: Input): Partial<Input> {
  return { type: type || 'tablet', bus: bus || 'usb' };
}
