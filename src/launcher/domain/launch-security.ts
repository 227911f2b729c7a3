import { isSwitchedOn, type LaunchSecurity, type VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { invalid, unsupported } from './errors.ts';
import type { XmlContent } from './xml.ts';

/** How a guest's memory is kept from the machine that it runs on. Secure Execution is that of s390x. */
export type LaunchSecurityKind = 'sev' | 'snp' | 'tdx' | 'secure-execution';

const field = 'spec.domain.launchSecurity';
const kinds = ['sev', 'snp', 'tdx'] as const;
/** Of SEV's policy (AMD's "Secure Encrypted Virtualization API", 2.4): no debugging, which no user may change; registers are encrypted, too. */
const [noDebug, encryptedState] = [1 << 0, 1 << 2];
/** Of SNP's (AMD's "SEV Secure Nested Paging Firmware ABI", 4.3): threads of one core may run beside each other; a bit that must be set. */
const snpPolicy = (1 << 16) | (1 << 17);
const quoteSocketAnnotation = 'kubevirt.io/qgs-socket-path';

/** What a node needs for each, in words. */
export const launchSecurityNeeds: Readonly<Record<LaunchSecurityKind, string>> = {
  sev: needs('SEV', 'an AMD EPYC processor with SEV switched on in its firmware, kvm_amd with sev=1, and /dev/sev'),
  snp: needs(
    'SEV-SNP',
    'an AMD EPYC processor of the third generation or later with SNP switched on in its firmware, kvm_amd with sev_snp=1 (Linux 6.11), libvirt 10.5, QEMU 9.1, and /dev/sev',
  ),
  tdx: needs(
    'TDX',
    'an Intel processor with TDX switched on in its firmware, kvm_intel with tdx=1 (Linux 6.16), libvirt 11.6, and QEMU 10.1',
  ),
  'secure-execution': needs('Secure Execution', 'an IBM z15 or later whose kernel was started with prot_virt=1'),
};

function needs(what: string, parts: string): string {
  return `this node cannot start guests with ${what}: it needs ${parts}`;
}

/** Undefined: the guest asks for none. */
export function launchSecurityKind({ spec }: Pick<VirtualMachineInstance, 'spec'>): LaunchSecurityKind | undefined {
  const asked = spec.domain.launchSecurity;
  if (!asked) return undefined;
  if (spec.architecture === 's390x') return 'secure-execution';
  return kinds.find((kind) => asked[kind]);
}

/** TDX shares what it must by itself. */
export function sharesItsMemory(vmi: Pick<VirtualMachineInstance, 'spec'>): boolean {
  const kind = launchSecurityKind(vmi);
  return kind !== undefined && kind !== 'tdx';
}

/** Throws `ConvertError` for what cannot be together, in words of the field. */
export function checkLaunchSecurity(vmi: VirtualMachineInstance, { hypervisor }: Pick<ConverterContext, 'hypervisor'>) {
  const asked = vmi.spec.domain.launchSecurity;
  if (!asked) return;
  const { architecture } = vmi.spec;
  if (architecture === 'arm64') throw unsupported(field, 'guests of arm64 have none: remove it');
  const kind = launchSecurityKind(vmi);
  if (kind === undefined) {
    throw invalid(field, 'names none of sev, snp, tdx; Secure Execution, which has no name, exists on s390x only');
  }
  if (hypervisor !== 'kvm') {
    const cure = 'remove it, or use a node whose processor and KVM have it';
    throw unsupported(`${field} (${kind}) of an emulated guest`, cure);
  }
  if (kind === 'secure-execution') return;
  const given = kinds.filter((each) => asked[each]);
  if (given.length > 1) throw invalid(field, `has ${given.join(' and ')}; exactly one is possible`);
  checkFirmware(vmi, kind);
  if (asked.sev) checkSev(asked.sev);
}

function checkFirmware({ spec }: VirtualMachineInstance, kind: 'sev' | 'snp' | 'tdx'): void {
  const efi = spec.domain.firmware?.bootloader?.efi;
  if (!efi) throw invalid(`${field}.${kind}`, 'needs EFI: set spec.domain.firmware.bootloader.efi');
  if (kind !== 'tdx' && efi.secureBoot !== false) {
    throw invalid(`${field}.${kind}`, 'Secure Boot needs SMM, which it excludes: set efi.secureBoot to false');
  }
  const { smm } = spec.domain.features ?? {};
  if (kind === 'tdx' && smm && isSwitchedOn(smm)) {
    throw invalid(`${field}.tdx`, 'excludes spec.domain.features.smm: remove that');
  }
  if (kind !== 'sev' && efi.persistent) {
    throw invalid(`${field}.${kind}`, 'its firmware keeps no variables: remove efi.persistent');
  }
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

function checkSev(sev: NonNullable<LaunchSecurity['sev']>): void {
  for (const name of ['session', 'dhCert'] as const) {
    if (!base64.test(sev[name] ?? '')) throw invalid(`${field}.sev.${name}`, 'is not base64');
  }
}

/** Nothing on s390x: where libvirt is told of it, it wants rights that a pod has not. */
export function launchSecurityElement(vmi: VirtualMachineInstance): XmlContent {
  const { sev } = vmi.spec.domain.launchSecurity ?? {};
  switch (launchSecurityKind(vmi)) {
    case 'sev':
      return { launchSecurity: sevElement(sev ?? {}) };
    case 'snp':
      return { launchSecurity: { '@type': 'sev-snp', policy: hex(snpPolicy) } };
    case 'tdx':
      return { launchSecurity: { '@type': 'tdx', quoteGenerationService: quoteService(vmi) } };
    default:
      return {};
  }
}

function sevElement({ policy, dhCert, session }: NonNullable<LaunchSecurity['sev']>): XmlContent {
  const bits = policy?.encryptedState ? noDebug | encryptedState : noDebug;
  return { '@type': 'sev', policy: hex(bits), ...(dhCert && { dhCert }), ...(session && { session }) };
}

/** Where the guest's quotes are signed; without a path where libvirt looks for it. */
function quoteService({ metadata }: VirtualMachineInstance): XmlContent {
  const path = metadata.annotations?.[quoteSocketAnnotation];
  return path ? { '@path': path } : {};
}

const hex = (bits: number) => `0x${bits.toString(16)}`;
