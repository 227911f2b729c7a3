import type { VirtualMachineInstance } from '../../api/index.ts';
import type { EfiFirmware, EfiPair } from '../../host/index.ts';
import { acpiElement, acpiTables } from './acpi-tables.ts';
import { architectureOf } from './architecture.ts';
import type { ConverterContext } from './context.ts';
import { ConvertError, invalid } from './errors.ts';
import { launchSecurityKind } from './launch-security.ts';
import { fileNamePart } from './names.ts';
import { child, childText, parseXml, type XmlContent } from './xml.ts';

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** `firmware.uuid`, else the VMI's UID: a domain without a UUID gets a new one at each define. */
export function domainUuid(vmi: VirtualMachineInstance): string | undefined {
  const asked = vmi.spec.domain.firmware?.uuid;
  if (asked) {
    if (uuidPattern.test(asked)) return asked.toLowerCase();
    throw invalid('spec.domain.firmware.uuid', `${JSON.stringify(asked)} is not a UUID`);
  }
  const uid = vmi.metadata.uid ?? '';
  return uuidPattern.test(uid) ? uid.toLowerCase() : undefined;
}

export function isEfi(vmi: VirtualMachineInstance): boolean {
  return Boolean(vmi.spec.domain.firmware?.bootloader?.efi);
}

export function isSecureBoot(vmi: VirtualMachineInstance): boolean {
  return isEfi(vmi) && vmi.spec.domain.firmware?.bootloader?.efi?.secureBoot !== false;
}

export function osElement(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  const { machine, firmware } = vmi.spec.domain;
  const { osArch, machineType, hasSmbios } = architectureOf(vmi);
  return {
    type: { '@arch': osArch, '@machine': machine?.type || machineType, '#text': 'hvm' },
    ...efiElements(vmi, context),
    ...kernelElements(vmi, context),
    ...acpiElement(acpiTables(vmi, context.paths)),
    ...(vmi.spec.startStrategy === 'Paused' && { bootmenu: { '@enable': 'yes', '@timeout': 10000 } }),
    ...(hasSmbios && { smbios: { '@mode': 'sysinfo' } }),
    ...(firmware?.bootloader?.bios?.useSerial && { bios: { '@useserial': 'yes' } }),
  };
}

function efiElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  if (!isEfi(vmi)) return {};
  const secure = isSecureBoot(vmi);
  const kind = launchSecurityKind(vmi);
  const found = efiFiles(context.efi, architectureOf(vmi).isPc ? kind : undefined, secure);
  if (!found) throw missingFirmware(context.efi, kind, secure);
  // Firmware without variables is no flash memory: the processor measures all of it.
  if (typeof found === 'string') {
    return { loader: { '@readonly': 'yes', '@secure': 'no', '@type': 'rom', '#text': found } };
  }
  const nvram = `${context.paths.nvramDir}/${fileNamePart('metadata.name', vmi.metadata.name)}_VARS.fd`;
  return {
    loader: { '@readonly': 'yes', '@secure': secure ? 'yes' : 'no', '@type': 'pflash', '#text': found.code },
    nvram: { '@template': found.vars, '#text': nvram },
  };
}

function efiFiles(
  efi: EfiFirmware | undefined,
  kind: ReturnType<typeof launchSecurityKind>,
  secure: boolean,
): EfiPair | string | undefined {
  if (kind === 'snp') return efi?.snp;
  if (kind === 'tdx') return secure ? efi?.tdxSecureBoot : efi?.tdx;
  if (kind === 'sev') return efi?.sev;
  return secure ? efi?.secureBoot : efi?.plain;
}

const packages: Readonly<Record<string, string>> = { snp: 'ovmf-amdsev', tdx: 'ovmf-inteltdx' };

function missingFirmware(efi: EfiFirmware | undefined, kind: string | undefined, secure: boolean): ConvertError {
  const where = efi?.searched.join(', ') || 'any firmware directory';
  const advice = secure ? 'install it, or set spec.domain.firmware.bootloader.efi.secureBoot to false' : 'install it';
  const which = kind ? `OVMF rom for spec.domain.launchSecurity.${kind}` : 'OVMF rom';
  // The first words are what the agent looks for (`pkg/virt-handler/cmd-client/errors.go`).
  const text = `EFI ${which} missing in ${where}: package ${packages[kind ?? ''] ?? 'ovmf'} has it; ${advice}`;
  return new ConvertError('MISSING_FIRMWARE', text);
}

function kernelElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  const boot = vmi.spec.domain.firmware?.kernelBoot;
  if (!boot) return {};
  const field = 'spec.domain.firmware.kernelBoot';
  const files = context.kernelBoot;
  if (boot.container?.kernelPath && !files?.kernelPath) {
    throw new ConvertError('MISSING_VOLUME', `${field}.container.kernelPath: the kernel was not prepared`);
  }
  if (boot.container?.initrdPath && !files?.initrdPath) {
    throw new ConvertError('MISSING_VOLUME', `${field}.container.initrdPath: the initrd was not prepared`);
  }
  if (boot.kernelArgs && !files?.kernelPath) {
    throw invalid(`${field}.kernelArgs`, 'needs a kernel: set kernelBoot.container.kernelPath');
  }
  return {
    ...(files?.kernelPath && { kernel: files.kernelPath }),
    ...(files?.initrdPath && { initrd: files.initrdPath }),
    ...(boot.kernelArgs && { cmdline: boot.kernelArgs }),
  };
}

/** The firmware that a domain was started from; undefined: QEMU's own. Throws `ConvertError` BAD_XML. */
export function loaderIn(xml: string): string | undefined {
  const os = child(parseXml(xml, 'domain'), 'os');
  return (os && childText(os, 'loader')) || undefined;
}

/** What the guest sees in SMBIOS: its identity first, then the cluster's product names . */
export function sysinfoElement(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent {
  const { firmware, chassis } = vmi.spec.domain;
  const smbios = context.options?.smbios;
  const system = entries([
    ['uuid', domainUuid(vmi)],
    ['serial', firmware?.serial],
    ['manufacturer', smbios?.manufacturer],
    ['family', smbios?.family],
    ['product', smbios?.product],
    ['sku', smbios?.sku],
    ['version', smbios?.version],
  ]);
  const chassisEntries = entries([
    ['manufacturer', chassis?.manufacturer],
    ['version', chassis?.version],
    ['serial', chassis?.serial],
    ['asset', chassis?.asset],
    ['sku', chassis?.sku],
  ]);
  return {
    '@type': 'smbios',
    ...(system.length > 0 && { system: { entry: system } }),
    ...(chassisEntries.length > 0 && { chassis: { entry: chassisEntries } }),
  };
}

function entries(values: readonly (readonly [string, string | undefined])[]): XmlContent[] {
  return values.flatMap(([name, value]) => (value ? [{ '@name': name, '#text': value }] : []));
}
