import { useLayoutEffect } from 'preact/hooks';
import type { KubeObject } from '../../api/index.ts';
import { Card, Nothing, Row, Table } from './elements.tsx';
import { instancetypes, list } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { Poll, Polled } from './polled.tsx';
import { instancetypeSize } from './vm-form.ts';
import { count, messageOf } from './words.ts';

/** What machines can be made with: as kubectl get virtualmachineinstancetype and its three siblings show it. */
interface KnownTypes {
  readonly instancetypes: readonly KubeObject[];
  readonly preferences: readonly KubeObject[];
}

async function allTypes(signal: AbortSignal): Promise<KnownTypes> {
  const both = async (kind: string) => {
    const [cluster, own] = await Promise.all(
      [`virtualmachinecluster${kind}`, `virtualmachine${kind}`].map((resource) =>
        list<KubeObject>(`${instancetypes}/${resource}`, signal),
      ),
    );
    return [...(cluster ?? []), ...(own ?? [])].sort((one, other) => (placed(one) < placed(other) ? -1 : 1));
  };
  const [found, preferences] = await Promise.all([both('instancetypes'), both('preferences')]);
  return { instancetypes: found, preferences };
}

const placed = ({ metadata: { namespace = '', name } }: KubeObject) => `${namespace}/${name}`;

export function TypesView({ state }: { readonly state: PageState }) {
  const poll = useOwned(() => new Poll(allTypes));
  useLayoutEffect(() => void poll.now(), [poll]);
  return (
    <section class="images-view">
      <div class="view-head">
        <h1 tabindex={-1}>Instance types</h1>
      </div>
      <div class="why">
        <Polled poll={poll} failureText={(error) => `The instance types cannot be listed: ${messageOf(error)}`}>
          {(types) => <Types state={state} types={types} />}
        </Polled>
      </div>
    </section>
  );
}

const typeHead = ['Instance type', 'Namespace', 'Gives', 'Machines'];
const preferenceHead = ['Preference', 'Namespace', 'Machines'];

export function Types({ state, types }: { readonly state: PageState; readonly types: KnownTypes }) {
  const rows = [...state.rows.value.values()];
  // Two kinds may have the same name, and so may two namespaces.
  const users = (kind: 'instancetype' | 'preference', { metadata: { name, namespace } }: KubeObject) =>
    rows.filter((row) => {
      const named = row[kind];
      return named?.name === name && (named.isCluster ? undefined : row.namespace) === namespace;
    }).length;
  const shownUsers = (many: number) => (many === 0 ? 'none' : count(many, 'machine'));
  return (
    <>
      <Card title="CPUs and memory">
        {types.instancetypes.length === 0 ? (
          <Nothing>There is none: kubectl apply a VirtualMachineClusterInstancetype, or say CPUs and memory.</Nothing>
        ) : (
          <Table head={typeHead} stacks>
            {types.instancetypes.map((type) => (
              <Row
                key={placed(type)}
                head={typeHead}
                cells={[
                  type.metadata.name,
                  type.metadata.namespace ?? 'all',
                  instancetypeSize(type),
                  shownUsers(users('instancetype', type)),
                ]}
              />
            ))}
          </Table>
        )}
      </Card>
      {types.preferences.length > 0 && (
        <Card title="Preferences">
          <Table head={preferenceHead} stacks>
            {types.preferences.map((preference) => (
              <Row
                key={placed(preference)}
                head={preferenceHead}
                cells={[
                  preference.metadata.name,
                  preference.metadata.namespace ?? 'all',
                  shownUsers(users('preference', preference)),
                ]}
              />
            ))}
          </Table>
        </Card>
      )}
    </>
  );
}
