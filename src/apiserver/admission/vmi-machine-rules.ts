import { hypervNeeds, isSwitchedOn } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { type FieldError, refusedField } from '../errors.ts';
import { at, type JsonObject, objectsAt, stringAt } from '../object.ts';
import { matchesPattern } from './file-pattern.ts';
import type { SpecRules } from './spec-rules.ts';
import { checkPath } from './vmi-disk-rules.ts';

/** What KubeVirt's webhook says of firmware, machine, features and small devices (upstream: vmi-create-admitter.go, amd64.go and hyperv.go). */
export function checkMachine(rules: SpecRules): FieldError[] {
  return [
    ...checkFirmware(rules),
    ...checkMachineType(rules),
    ...checkHyperv(rules),
    ...checkDisplay(rules),
    ...checkInputs(rules),
    ...checkOtherDevices(rules),
  ];
}

function checkFirmware({ spec, field, isWhole }: SpecRules): FieldError[] {
  const path = `${field}.domain.firmware`;
  const firmware = at(spec, 'domain', 'firmware');
  const efi = at(firmware, 'bootloader', 'efi');
  const found: FieldError[] = [];
  if (isRecord(efi) && isRecord(at(firmware, 'bootloader', 'bios'))) {
    const where = `${path}.bootloader`;
    found.push(refusedField(where, `${where} has both EFI and BIOS configured, but they are mutually exclusive.`));
  }
  const isSecure = isRecord(efi) && efi.secureBoot !== false;
  const hasSmm = isSwitchedOn(at(spec, 'domain', 'features', 'smm'));
  const isTdx = isRecord(at(spec, 'domain', 'launchSecurity', 'tdx'));
  if (isWhole && isSecure && !hasSmm && !isTdx) {
    const where = `${field}.domain`;
    const words = `${where} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.`;
    found.push(refusedField(where, words));
  }
  return [...found, ...checkAcpi(spec, field), ...checkKernelBoot(at(firmware, 'kernelBoot'), `${path}.kernelBoot`)];
}

/** Tables for a guest's licence come from Secrets. */
function checkAcpi(spec: JsonObject, field: string): FieldError[] {
  const acpi = at(spec, 'domain', 'firmware', 'acpi');
  if (!isRecord(acpi)) return [];
  const path = `${field}.acpi`;
  const given = ['slicNameRef', 'msdmNameRef'].flatMap((member) => {
    const name = stringAt(acpi, member);
    return name ? [{ member, name }] : [];
  });
  if (given.length === 0) {
    return [refusedField(path, 'ACPI was set but no SLIC nor MSDM volume reference was set')];
  }
  return given.flatMap(({ member, name }) => {
    const volume = objectsAt(spec, 'volumes').find((each) => each.name === name);
    if (!volume) return [refusedField(`${path}.${member}`, `${path} does not have a matching Volume.`)];
    const isSecret = isRecord(volume.secret);
    return isSecret ? [] : [refusedField(`${path}.${member}`, `${path} refers to Volume of unsupported type.`)];
  });
}

function checkKernelBoot(kernelBoot: unknown, path: string): FieldError[] {
  if (!isRecord(kernelBoot)) return [];
  const { container, kernelArgs } = kernelBoot;
  if (!isRecord(container)) {
    const words = 'kernel arguments cannot be provided without an external kernel';
    return kernelArgs ? [refusedField(`${path}.kernelArgs`, words)] : [];
  }
  const members = ['kernelPath', 'initrdPath'] as const;
  const given = members.filter((member) => stringAt(container, member));
  const where = `${path}.container`;
  if (given.length === 0) {
    const words = `${where} must be defined with at least one of the following: kernelPath, initrdPath`;
    return [{ ...refusedField(where, words), reason: 'FieldValueRequired' }];
  }
  return given.flatMap((member) => checkPath(String(container[member]), `${where}.${member}`));
}

function checkMachineType({ spec, field, cluster }: SpecRules): FieldError[] {
  const type = stringAt(spec, 'domain', 'machine', 'type');
  if (!type) return [];
  const allowed = cluster.emulatedMachines(stringAt(spec, 'architecture') ?? cluster.architecture);
  const isAllowed = allowed.some((pattern) => matchesPattern(pattern, type));
  if (isAllowed) return [];
  const path = `${field}.domain.machine.type`;
  return [refusedField(path, `${path} is not supported: ${type} (allowed values: [${allowed.join(' ')}])`)];
}

/** What a feature needs is switched on where nothing was said of it: only what says no is in the way. */
function checkHyperv({ spec, field }: SpecRules): FieldError[] {
  const hyperv = at(spec, 'domain', 'features', 'hyperv');
  if (!isRecord(hyperv)) return [];
  const path = `${field}.domain.features.hyperv`;
  const found = hypervNeeds.flatMap(([feature, needed]) => {
    if (at(hyperv, feature, 'enabled') !== true || at(hyperv, needed, 'enabled') !== false) return [];
    return [
      refusedField(`${path}.${feature}`, `'${path}.${feature}' requires '${path}.${needed}', which was disabled.`),
    ];
  });
  if (!isRecord(at(spec, 'domain', 'features', 'hypervPassthrough'))) return found;
  const words =
    'Cannot explicitly set hyperV features if HypervPassthrough is being used. Please use either HyperV or HypervPassthrough.';
  return [...found, refusedField(path, words)];
}

const videoTypes = ['vga', 'cirrus', 'virtio', 'ramfb', 'bochs'];

function checkDisplay({ spec, field, cluster, isWhole }: SpecRules): FieldError[] {
  const devices = at(spec, 'domain', 'devices');
  const video = at(devices, 'video');
  if (!isRecord(video)) return [];
  const found: FieldError[] = [];
  if (at(devices, 'autoattachGraphicsDevice') === false) {
    const words = 'Video configuration is not allowed when autoattachGraphicsDevice is set to false';
    found.push(refusedField(`${field}.video`, words));
  }
  const isPc = (stringAt(spec, 'architecture') ?? cluster.architecture) === 'amd64';
  const type = stringAt(video, 'type') ?? '';
  const mayFollow = type === '' && !isWhole;
  if (isPc && !mayFollow && !videoTypes.includes(type)) {
    const words = `video model '${type}' is not supported on amd64 architecture`;
    found.push({
      ...refusedField(`${field}.domain.devices.video.type`, words),
      reason: 'FieldValueNotSupported',
    });
  }
  return found;
}

function checkInputs({ spec, field }: SpecRules): FieldError[] {
  return objectsAt(spec, 'domain', 'devices', 'inputs').flatMap(({ type, bus }, index) => {
    const path = `${field}.domain.devices.inputs[${index}]`;
    const isKnown = bus === undefined || bus === '' || bus === 'virtio' || bus === 'usb';
    return [
      ...(isKnown ? [] : [refusedField(`${path}.bus`, 'Input device can have only virtio or usb bus.')]),
      ...(type === 'tablet' ? [] : [refusedField(`${path}.type`, 'Input device can have only tablet type.')]),
    ];
  });
}

const panicModels = ['hyperv', 'isa', 'pvpanic'];

function checkOtherDevices({ spec, field, cluster }: SpecRules): FieldError[] {
  const devices = at(spec, 'domain', 'devices');
  const found: FieldError[] = [];
  const refuse = (path: string, words: string) => found.push(refusedField(`${field}.${path}`, words));
  const watchdog = at(devices, 'watchdog');
  const isPc = (stringAt(spec, 'architecture') ?? cluster.architecture) === 'amd64';
  if (isPc && isRecord(watchdog) && !(isRecord(watchdog.i6300esb) && !isRecord(watchdog.diag288))) {
    refuse('domain.devices.watchdog', 'amd64 only supports I6300ESB watchdog device');
  }
  const sound = at(devices, 'sound');
  if (isRecord(sound)) {
    const model = stringAt(sound, 'model') ?? '';
    const isKnown = model === '' || model === 'ich9' || model === 'ac97';
    if (!isKnown) refuse('Sound', "Sound device type is not supported. Options: 'ich9' or 'ac97'");
    if (!stringAt(sound, 'name')) refuse('Sound', 'Sound device requires a name field.');
  }
  for (const [index, { model }] of objectsAt(devices, 'panicDevices').entries()) {
    if (model === undefined || model === null || panicModels.includes(String(model))) continue;
    refuse(`domain.devices.panicDevices[${index}].model`, `invalid PanicDeviceModel(${model})`);
  }
  if (at(devices, 'autoattachVSOCK') === true && !cluster.gates.VSOCK) {
    refuse('domain.devices.autoattachVSOCK', 'VSOCK feature gate is not enabled in kubevirt-config');
  }
  const policy = at(spec, 'domain', 'ioThreadsPolicy');
  if (policy !== undefined && !['shared', 'auto', 'supplementalPool'].includes(String(policy))) {
    refuse('domain.ioThreadsPolicy', `Invalid IOThreadsPolicy (${policy})`);
  }
  const threads = Number(at(spec, 'domain', 'ioThreads', 'supplementalPoolThreadCount') ?? 0);
  if (policy === 'supplementalPool' && threads < 1) {
    refuse('domain.ioThreads.count', 'the number of iothreads needs to be set and positive for the dedicated policy');
  }
  return found;
}
