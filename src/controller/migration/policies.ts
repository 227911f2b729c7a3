import { type KubeObject, resources, type VirtualMachineInstance } from '../../api/index.ts';
import { isRecord, memberAt } from '../../base/index.ts';
import { type MigrationLimits, withPolicy } from '../../cluster-config/index.ts';
import { getIfThere, type KubeClient, orMissing } from '../../kube/index.ts';

type Labels = Readonly<Record<string, string>>;

export interface EffectiveOptions {
  readonly options: MigrationLimits['options'];
  readonly policyName?: string;
}

export interface PolicyDeps {
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly signal: AbortSignal;
}

/** How this VMI migrates: as the cluster says, overruled by the policy that fits it best. Policies are read once per migration. */
export async function effectiveOptions(
  vmi: VirtualMachineInstance,
  { options }: MigrationLimits,
  { client, signal }: PolicyDeps,
): Promise<EffectiveOptions> {
  // A cluster need not have the definition of policies.
  const found = await orMissing(client.list<KubeObject>(resources.migrationPolicies, { signal }));
  if (!found || found.items.length === 0) return { options };
  const { namespace: name = '' } = vmi.metadata;
  const namespace = await getIfThere<KubeObject>(client, resources.namespaces, { name }, { signal });
  const policy = matchingPolicy(found.items, vmi.metadata.labels, namespace?.metadata.labels ?? {});
  if (!policy) return { options };
  return { options: withPolicy(options, memberAt(policy, 'spec')), policyName: policy.metadata.name };
}

/**
 * The policy with most labels that fit; of those the one with more of the VMI's, then the first by name (upstream: matchPolicy in
 * pkg/virt-controller/watch/migration/migrationpolicy.go). One without selectors fits nothing; to a VMI without labels no selector applies.
 */
export function matchingPolicy(
  policies: readonly KubeObject[],
  vmiLabels: Labels | undefined,
  namespaceLabels: Labels,
): KubeObject | undefined {
  const scored = policies.flatMap((policy) => {
    const selectors = memberAt(policy, 'spec', 'selectors');
    if (!isRecord(selectors)) return [];
    const own = score(vmiLabels && selectors.virtualMachineInstanceSelector, vmiLabels ?? {});
    const around = score(vmiLabels && selectors.namespaceSelector, namespaceLabels);
    return own === undefined || around === undefined ? [] : [{ policy, own, total: own + around }];
  });
  scored.sort(
    (a, b) => b.total - a.total || b.own - a.own || (a.policy.metadata.name < b.policy.metadata.name ? -1 : 1),
  );
  return scored[0]?.policy;
}

/** How many labels a selector asks for; undefined: one of them is not there, or it is no map. */
function score(selector: unknown, labels: Labels): number | undefined {
  if (selector !== undefined && selector !== null && !isRecord(selector)) return undefined;
  const wanted = Object.entries(selector ?? {});
  return wanted.every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value)
    ? wanted.length
    : undefined;
}
