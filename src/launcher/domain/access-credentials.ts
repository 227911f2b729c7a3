import type { VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { invalid } from './errors.ts';
import { fileNamePart } from './names.ts';

/** How SSH keys come into a guest by the data of its cloud-init, which it reads at its first boot. */
export type CloudInitKind = 'noCloud' | 'configDrive';

/** One of `spec.accessCredentials`: what a secret that is mounted in the pod is for. */
export type AccessCredential =
  | { readonly kind: 'cloud-init-keys'; readonly secretName: string; readonly by: CloudInitKind }
  | { readonly kind: 'agent-keys'; readonly secretName: string; readonly users: readonly string[] }
  /** Keys of the secret are names of users, values their passwords. The guest agent sets them. */
  | { readonly kind: 'agent-passwords'; readonly secretName: string };

/** Throws `ConvertError` INVALID_FIELD for one that would do nothing (`validateAccessCredentials` of upstream's webhook). */
export function accessCredentialsOf({ spec }: VirtualMachineInstance): AccessCredential[] {
  return listOf(spec.accessCredentials).map((value, at) => credentialOf(value, `spec.accessCredentials[${at}]`));
}

/** Where the pod has the secret of a credential. */
export function credentialDirName(secretName: string): string {
  return `${secretName}-access-cred`;
}

/** Throws `ConvertError` INVALID_FIELD also for keys that would travel by a cloud-init that the VMI does not have. */
export function checkAccessCredentials(vmi: VirtualMachineInstance): void {
  for (const [at, credential] of accessCredentialsOf(vmi).entries()) {
    if (credential.kind !== 'cloud-init-keys') continue;
    const volume = credential.by === 'noCloud' ? 'cloudInitNoCloud' : 'cloudInitConfigDrive';
    if (vmi.spec.volumes?.some((each) => each[volume])) continue;
    throw invalid(
      `spec.accessCredentials[${at}].sshPublicKey.propagationMethod.${credential.by}`,
      `needs a volume of kind ${volume}: add one with its disk`,
    );
  }
}

function credentialOf(value: unknown, field: string): AccessCredential {
  const kind = onlyMember(value, ['sshPublicKey', 'userPassword'], field);
  const path = `${field}.${kind}`;
  const secretName = secretNameOf(memberAt(value, kind), path);
  const methods = kind === 'sshPublicKey' ? ['noCloud', 'configDrive', 'qemuGuestAgent'] : ['qemuGuestAgent'];
  const method = onlyMember(memberAt(value, kind, 'propagationMethod'), methods, `${path}.propagationMethod`);
  if (kind === 'userPassword') return { kind: 'agent-passwords', secretName };
  if (method !== 'qemuGuestAgent') return { kind: 'cloud-init-keys', secretName, by: method as CloudInitKind };
  const users = usersOf(
    memberAt(value, kind, 'propagationMethod', method, 'users'),
    `${path}.propagationMethod.${method}`,
  );
  return { kind: 'agent-keys', secretName, users };
}

function onlyMember(value: unknown, names: readonly string[], field: string): string {
  const given = isRecord(value) ? names.filter((name) => (value[name] ?? undefined) !== undefined) : [];
  const [name] = given;
  if (name !== undefined && given.length === 1) return name;
  throw invalid(field, `needs ${names.length > 1 ? 'one, and only one, of ' : ''}${names.join(', ')}`);
}

function secretNameOf(value: unknown, field: string): string {
  const name = memberAt(value, 'source', 'secret', 'secretName');
  const path = `${field}.source.secret.secretName`;
  if (typeof name !== 'string' || name === '') throw invalid(path, 'must name a secret');
  return fileNamePart(path, name);
}

function usersOf(value: unknown, field: string): string[] {
  const users = listOf(value);
  if (users.length > 0 && users.every((user): user is string => typeof user === 'string' && user !== ''))
    return [...users];
  throw invalid(`${field}.users`, 'must name at least one user of the guest');
}
