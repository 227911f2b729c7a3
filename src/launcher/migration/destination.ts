import type { VirtualMachineInstance } from '../../api/index.ts';
import type { DomainOwner } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';

/** A DNS name, as the API server takes names of objects; a UID is one, too. */
const name = /^[a-z\d](?:[a-z\d.-]{0,251}[a-z\d])?$/;

/**
 * The other VMI object, maybe of another cluster, whose guest this one becomes; undefined: it stays this VMI's. What the other side says of
 * itself becomes a part of paths. Throws INVALID_REQUEST.
 */
export function destinationOf(vmi: VirtualMachineInstance): DomainOwner | undefined {
  const target = vmi.status?.migrationState?.targetState;
  const uid = target?.virtualMachineInstanceUID;
  if (!uid || uid === vmi.metadata.uid) return undefined;
  const own = ownerOf(vmi);
  const names = [uid, target.domainNamespace || own.namespace, target.domainName || own.name] as const;
  const bad = names.find((each: unknown) => typeof each !== 'string' || !name.test(each));
  if (bad === undefined) return { uid: names[0], namespace: names[1], name: names[2] };
  throw new LauncherError(
    'INVALID_REQUEST',
    `the VMI that the guest is to move to is called ${JSON.stringify(bad)}, which is no name: look at targetState of its migrationState`,
  );
}

export function ownerOf({ metadata: { uid = '', namespace = '', name } }: VirtualMachineInstance): DomainOwner {
  return { uid, namespace, name };
}
