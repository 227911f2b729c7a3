import { type ConditionState, type Pod, type VirtualMachineExport, withCondition } from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import { linksOf } from './links.ts';
import { namesOf } from './names.ts';
import type { PresentExport } from './observation.ts';

type Status = NonNullable<VirtualMachineExport['status']>;

/** What is said of an export, when the steps went well. */
export interface Said {
  readonly phase: NonNullable<Status['phase']>;
  readonly ready: { readonly status: 'True' | 'False'; readonly reason: string; readonly message?: string };
  /** Whose servings are shown as links. */
  readonly serving?: Pod;
}

/** The name of the secret with the token: the user's, the one that is told already, or the one that is made. */
export function tokenSecretOf(vmExport: VirtualMachineExport): string {
  const { spec, status } = vmExport;
  return spec.tokenSecretRef || status?.tokenSecretRef || namesOf(vmExport).tokenSecret;
}

/** The status as it shall be stored now. Pure. */
export function exportStatusOf(seen: PresentExport, { phase, ready, serving }: Said): Status {
  const { vmExport, source, now, expiresAt, access, service } = seen;
  const { status: old, spec } = vmExport;
  const time = rfc3339(now);
  const states: ConditionState[] = [{ type: 'Ready', ...ready }, ...(source.condition ? [source.condition] : [])];
  const isTold = Boolean(
    spec.tokenSecretRef || old?.tokenSecretRef || seen.pod || (!source.problem && source.volumes.length > 0),
  );
  const known = Array.isArray(old?.conditions) ? old.conditions : [];
  return {
    ...old,
    phase,
    links: serving ? linksOf(vmExport, serving, access) : {},
    ttlExpirationTime: rfc3339(expiresAt),
    ...(isTold && { tokenSecretRef: tokenSecretOf(vmExport) }),
    ...(service && { serviceName: service.metadata.name }),
    ...(source.vmName !== undefined && { virtualMachineName: source.vmName }),
    conditions: states.reduce((all, state) => withCondition(all, state, time), known),
  };
}
