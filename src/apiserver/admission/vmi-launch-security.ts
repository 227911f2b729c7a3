import { isSwitchedOn } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import type { ClusterDefaults } from '../api-type.ts';
import { type FieldError, refusedField } from '../errors.ts';
import { type ApiObject, at, objectsAt, stringAt } from '../object.ts';
import type { SpecRules } from './spec-rules.ts';

const gateOf = {
  sev: 'WorkloadEncryptionSEV',
  snp: 'WorkloadEncryptionSEV',
  tdx: 'WorkloadEncryptionTDX',
} as const;
type Kind = keyof typeof gateOf;

/** What KubeVirt's webhook says of guests with encrypted memory (upstream: amd64.go). Secure Execution, on s390x, has no rules. */
export function checkLaunchSecurity(rules: SpecRules): FieldError[] {
  const { spec, field, cluster } = rules;
  const asked = at(spec, 'domain', 'launchSecurity');
  const architecture = stringAt(spec, 'architecture') ?? cluster.architecture;
  if (!isRecord(asked) || architecture === 's390x') return [];
  if (architecture !== 'amd64') {
    return [refusedField(`${field}.architecture`, `No launchSecurity support for architecture: ${architecture}`)];
  }
  const path = `${field}.launchSecurity`;
  const kinds = (Object.keys(gateOf) as Kind[]).filter((kind) => isRecord(asked[kind]));
  const [kind] = kinds;
  if (!kind || kinds.length > 1) {
    return [
      { ...refusedField(path, 'One and only one launchSecurity type can be set'), reason: 'FieldValueForbidden' },
    ];
  }
  const gate = gateOf[kind];
  if (!cluster.gates[gate]) return [refusedField(path, `${gate} feature gate is not enabled in kubevirt-config`)];
  const bootable = objectsAt(spec, 'domain', 'devices', 'interfaces').filter(({ bootOrder }) => Boolean(bootOrder));
  const words = [
    ...firmwareProblems(rules, kind),
    ...attestationProblems(asked, stringAt(spec, 'startStrategy')),
    ...bootable.map(({ name }) => `${kind.toUpperCase()} does not work with bootable NICs: ${name}`),
  ];
  return words.map((each) => refusedField(path, each));
}

function firmwareProblems({ spec, isWhole }: SpecRules, kind: Kind): string[] {
  const name = kind.toUpperCase();
  const smm = at(spec, 'domain', 'features', 'smm');
  const found = kind === 'tdx' && isRecord(smm) && isSwitchedOn(smm) ? ['TDX does not work along with SMM'] : [];
  const efi = at(spec, 'domain', 'firmware', 'bootloader', 'efi');
  // A preference may bring it.
  if (!isRecord(efi)) return isWhole ? [...found, `${name} requires OVMF (UEFI)`] : found;
  const isSecure = efi.secureBoot === true || (isWhole && efi.secureBoot !== false);
  if (kind !== 'tdx' && isSecure) found.push(`${name} does not work along with SecureBoot`);
  if (kind !== 'sev' && efi.persistent === true) {
    found.push(`${name} does not work along with Persistent EFI variables`);
  }
  return found;
}

function attestationProblems(asked: Record<string, unknown>, startStrategy: string | undefined): string[] {
  const isAsked = isRecord(at(asked, 'sev', 'attestation'));
  return isAsked && startStrategy !== 'Paused' ? ["SEV attestation requires VMI StartStrategy 'Paused'"] : [];
}

/** Where launchers find who signs the quotes of guests with TDX. */
export function nameQuoteSocket(vmi: ApiObject, { qgsSocketPath }: ClusterDefaults): void {
  if (!isRecord(at(vmi.spec, 'domain', 'launchSecurity', 'tdx'))) return;
  vmi.metadata.annotations = { ...vmi.metadata.annotations, 'kubevirt.io/qgs-socket-path': qgsSocketPath };
}
