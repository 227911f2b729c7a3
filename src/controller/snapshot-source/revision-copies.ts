import { controllerOf, type KubeObject, type OwnerReference, resources } from '../../api/index.ts';
import { memberAt, sameJson } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

const type = resources.controllerRevisions;

/**
 * A copy of a ControllerRevision under the first of these names that is free, or has a copy already: it says the same, and nobody but `owner` has it,
 * with whom it would go. Gives its name. `owner` undefined: it gets one later. Rejects with KubeError, and where each name is taken.
 */
export async function copyRevision(
  source: KubeObject,
  names: readonly string[],
  owner: OwnerReference | undefined,
  client: Pick<KubeClient, 'get' | 'create'>,
  signal: AbortSignal,
): Promise<string> {
  const { namespace, labels } = source.metadata;
  const more = { ...(namespace && { namespace }), ...(labels && { labels }) };
  for (const name of names) {
    const metadata = { name, ...more, ...(owner && { ownerReferences: [owner] }) };
    try {
      await client.create(type, { ...source, metadata }, { signal });
      return name;
    } catch (error) {
      if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
      if (isCopy(await client.get<KubeObject>(type, metadata, { signal }), source, owner)) return name;
    }
  }
  const taken = names.join(', ');
  throw new Error(
    `no copy of ControllerRevision ${source.metadata.name} can be made: ${taken} are others' or say something else; delete those that nobody needs`,
  );
}

function isCopy(existing: KubeObject, source: KubeObject, owner: OwnerReference | undefined): boolean {
  const controller = controllerOf(existing);
  const isFree = controller === undefined || controller.uid === owner?.uid;
  return isFree && sameJson(memberAt(existing, 'data'), memberAt(source, 'data'));
}
