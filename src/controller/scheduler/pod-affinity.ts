import { type KubeObject, type LabelSelector, type Pod, readLabelSelector, selects } from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';

type Kind = 'podAffinity' | 'podAntiAffinity';

interface Term {
  readonly topologyKey: string;
  /** Undefined: it cannot be read, and selects nothing. */
  readonly selector: LabelSelector | undefined;
  readonly namespaces: readonly unknown[];
}

const hostname = 'kubernetes.io/hostname';

/**
 * Says of a node why the pods that are there keep a pod away, in the words of kube-scheduler; required terms only. Both sides count:
 * a target pod of a migration avoids its source, and a pod that wants to be alone stays so. `namespaceSelector` is not read:
 * no pod of KubeVirt's has one.
 */
export function podAffinity(
  pod: Pod,
  nodes: readonly KubeObject[],
  neighbours: readonly Pod[],
): (node: KubeObject) => string | undefined {
  const byName = new Map(nodes.map((node) => [node.metadata.name, node]));
  const isBeside = (node: KubeObject, other: Pod, { topologyKey }: Term) => {
    const place = topology(byName.get(other.spec.nodeName ?? ''), topologyKey);
    return place !== undefined && place === topology(node, topologyKey);
  };
  const avoided = termsOf(pod, 'podAntiAffinity');
  const wanted = termsOf(pod, 'podAffinity').filter((term) => !isFirstOfItsKind(pod, term, neighbours));
  const unwelcome = neighbours.flatMap((other) => {
    const terms = termsOf(other, 'podAntiAffinity').filter((term) => isMeant(other, term, pod));
    return terms.map((term) => ({ other, term }));
  });
  return (node) => {
    const meets = (term: Term) => neighbours.some((other) => isBeside(node, other, term) && isMeant(pod, term, other));
    if (!wanted.every(meets)) return "node(s) didn't match pod affinity rules";
    if (avoided.some(meets)) return "node(s) didn't match pod anti-affinity rules";
    return unwelcome.some(({ other, term }) => isBeside(node, other, term))
      ? "node(s) didn't satisfy existing pods anti-affinity rules"
      : undefined;
  };
}

function termsOf(pod: Pod, kind: Kind): Term[] {
  const terms = listOf(memberAt(pod.spec.affinity, kind, 'requiredDuringSchedulingIgnoredDuringExecution'));
  return terms.map((term) => ({
    topologyKey: String(memberAt(term, 'topologyKey') ?? ''),
    selector: readLabelSelector(memberAt(term, 'labelSelector')),
    namespaces: listOf(memberAt(term, 'namespaces')),
  }));
}

/** Without namespaces a term is about those of its own pod. */
function isMeant(owner: Pod, { selector, namespaces }: Term, other: Pod): boolean {
  const { namespace, labels = {} } = other.metadata;
  const isThere = namespaces.length > 0 ? namespaces.includes(namespace) : namespace === owner.metadata.namespace;
  return selector !== undefined && isThere && selects(selector, labels);
}

/** A pod that wants to be with its like may begin where none is. */
function isFirstOfItsKind(pod: Pod, term: Term, neighbours: readonly Pod[]): boolean {
  return isMeant(pod, term, pod) && !neighbours.some((other) => isMeant(pod, term, other));
}

/** A node without the label of its host name is told apart by its name. */
function topology(node: KubeObject | undefined, key: string): string | undefined {
  return node?.metadata.labels?.[key] ?? (key === hostname ? node?.metadata.name : undefined);
}
