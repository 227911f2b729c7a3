import type { DomainSpecInput, VmiSpec } from '../api/index.ts';
import { isRecord, memberAt } from '../base/index.ts';
import { applyDevices } from './apply-devices.ts';
import type { PreferenceSpec } from './types.ts';

type Copied = readonly (readonly [preference: string, vmi: string])[];

const autoattach: Copied = ['GraphicsDevice', 'MemBalloon', 'PodInterface', 'SerialConsole', 'InputDevice'].map(
  (name) => [`devices.preferredAutoattach${name}`, `domain.devices.autoattach${name}`] as const,
);

/** What a template gets that does not say it itself. */
const filled: Copied = [
  ...autoattach,
  ['devices.preferredUseVirtioTransitional', 'domain.devices.useVirtioTransitional'],
  ['devices.preferredBlockMultiQueue', 'domain.devices.blockMultiQueue'],
  ['devices.preferredNetworkInterfaceMultiQueue', 'domain.devices.networkInterfaceMultiqueue'],
  ['devices.preferredRng', 'domain.devices.rng'],
  ['devices.preferredTPM', 'domain.devices.tpm'],
  ['devices.preferredVideoType', 'domain.devices.video.type'],
  ['features.preferredApic', 'domain.features.apic'],
  ['features.preferredKvm', 'domain.features.kvm'],
  ['features.preferredPvspinlock', 'domain.features.pvspinlock'],
  ['features.preferredSmm', 'domain.features.smm'],
  ['machine.preferredMachineType', 'domain.machine.type'],
  ['clock.preferredTimer', 'domain.clock.timer'],
  ['preferredSubdomain', 'subdomain'],
  ['preferredTerminationGracePeriodSeconds', 'terminationGracePeriodSeconds'],
  ['preferredArchitecture', 'architecture'],
  ['preferredLaunchSecurity', 'domain.launchSecurity'],
];

/** What a template gets whatever it says: upstream cannot tell there what was said. */
const overwritten: Copied = [
  ['devices.preferredDisableHotplug', 'domain.devices.disableHotplug'],
  ['features.preferredAcpi', 'domain.features.acpi'],
];

/** Devices that a machine gets by itself; before those are added. Changes `spec`. */
export function applyAutoattach(preference: PreferenceSpec, spec: VmiSpec): void {
  fill(preference, spec, autoattach);
}

/** What a preference says, put into a template's spec and annotations (upstream: pkg/instancetype/preference/apply). Changes both. */
export function applyPreference(preference: PreferenceSpec, spec: VmiSpec, annotations: Record<string, string>): void {
  const { domain } = spec;
  applyCpuFeatures(preference, domain);
  fill(preference, spec, filled);
  for (const [from, to] of overwritten) {
    const value = memberAt(preference, ...from.split('.'));
    if (value !== undefined) set(spec, to.split('.'), structuredClone(value));
  }
  if (preference.devices) applyDevices(preference.devices, spec);
  applyHyperv(preference, domain);
  applyFirmware(preference, domain);
  applyClock(preference, domain);
  for (const [name, value] of Object.entries(preference.annotations ?? {})) {
    if (!Object.hasOwn(annotations, name)) annotations[name] = value;
  }
}

function fill(preference: PreferenceSpec, spec: VmiSpec, copied: Copied): void {
  for (const [from, to] of copied) {
    const value = memberAt(preference, ...from.split('.'));
    const path = to.split('.');
    if (!isNothing(value) && isNothing(memberAt(spec, ...path))) set(spec, path, structuredClone(value));
  }
}

const isNothing = (value: unknown) => value === undefined || value === '';

/** Makes the objects on the way. */
function set(holder: Record<string, unknown>, [name = '', ...below]: readonly string[], value: unknown): void {
  if (below.length === 0) {
    holder[name] = value;
    return;
  }
  const old = holder[name];
  const next: Record<string, unknown> = isRecord(old) ? old : {};
  holder[name] = next;
  set(next, below, value);
}

function applyCpuFeatures({ cpu }: PreferenceSpec, domain: DomainSpecInput): void {
  const preferred = cpu?.preferredCPUFeatures ?? [];
  if (preferred.length === 0) return;
  const features = domain.cpu?.features ?? [];
  const known = new Set(features.map(({ name }) => name));
  domain.cpu = { ...domain.cpu, features: [...features, ...preferred.filter(({ name }) => !known.has(name))] };
}

/** Each of them for itself. */
function applyHyperv({ features }: PreferenceSpec, domain: DomainSpecInput): void {
  if (!features?.preferredHyperv) return;
  const said = domain.features?.hyperv;
  const hyperv = { ...structuredClone(features.preferredHyperv), ...(isRecord(said) ? said : {}) };
  domain.features = { ...domain.features, hyperv };
}

function applyFirmware({ firmware: preferred }: PreferenceSpec, domain: DomainSpecInput): void {
  if (!preferred) return;
  const said = domain.firmware?.bootloader;
  const isFree = !said?.bios && !said?.efi;
  const bios = said?.bios ?? (isFree && preferred.preferredUseBios ? {} : undefined);
  const wantsEfi = isFree && !bios;
  const efi = wantsEfi ? efiOf(preferred) : said?.efi && withSecureBoot(said.efi, preferred);
  const useSerial = bios?.useSerial ?? preferred.preferredUseBiosSerial;
  const bootloader = {
    ...said,
    ...(bios && { bios: { ...bios, ...(useSerial !== undefined && { useSerial }) } }),
    ...(efi && { efi }),
  };
  domain.firmware = { ...domain.firmware, bootloader };
}

type Firmware = NonNullable<PreferenceSpec['firmware']>;
type Efi = NonNullable<Firmware['preferredEfi']>;

/** The fields of old preferences count only without the present one. */
function efiOf(preferred: Firmware): Efi | undefined {
  if (preferred.preferredEfi) return structuredClone(preferred.preferredEfi);
  return preferred.preferredUseEfi ? withSecureBoot({}, preferred) : undefined;
}

function withSecureBoot(efi: Efi, { preferredUseSecureBoot: preferred }: Firmware): Efi {
  const secureBoot = efi.secureBoot ?? preferred;
  return { ...efi, ...(secureBoot !== undefined && { secureBoot }) };
}

/** Zone and offset exclude each other, so they are taken together or not at all. */
function applyClock({ clock }: PreferenceSpec, domain: DomainSpecInput): void {
  const offset = clock?.preferredClockOffset;
  if (!offset || domain.clock?.utc || domain.clock?.timezone !== undefined) return;
  domain.clock = { ...domain.clock, ...structuredClone(offset) };
}
