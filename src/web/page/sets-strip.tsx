import { useLayoutEffect } from 'preact/hooks';
import type { KubeObject } from '../../api/index.ts';
import type { VmRow } from '../rows.ts';
import { Badge } from './elements.tsx';
import { list, replace } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { Poll } from './polled.tsx';
import { keyOfSet, type MachineSet, type SetKind, setOf, setStatus, setText, whatScalingDoes } from './sets-model.ts';
import { count, messageOf } from './words.ts';

const groups: Readonly<Record<SetKind, { readonly api: string; readonly resource: string }>> = {
  pool: { api: '/apis/pool.kubevirt.io/v1beta1', resource: 'virtualmachinepools' },
  'replica set': { api: '/apis/kubevirt.io/v1', resource: 'virtualmachineinstancereplicasets' },
};

/** Pools and replica sets, where there are any. */
export function SetsStrip({ state }: { readonly state: PageState }) {
  return state.hasApi.value ? <Asked state={state} /> : null;
}

function Asked({ state }: { readonly state: PageState }) {
  const poll = useOwned(() => new Poll(allSets));
  const members = membersOf([...state.rows.value.values()]);
  useLayoutEffect(() => void poll.now(), [poll, members]);
  const answer = poll.answer.value;
  if (answer.kind === 'none') return null;
  // Of what is away a banner tells, too; of what is refused nobody else does.
  if (answer.kind === 'failed')
    return <p class="note is-bad">Pools and replica sets cannot be shown: {messageOf(answer.error)}</p>;
  return <Sets state={state} sets={answer.value} onScaled={() => void poll.again()} />;
}

/** How the machines of sets are, as a text to compare: a change of any other machine is none of a set. */
export function membersOf(rows: readonly VmRow[]): string {
  const members = rows.filter(({ owner }) => owner !== undefined);
  return members
    .map(({ namespace, name, owner, status }) => [namespace, name, owner?.name, status].join('/'))
    .join(' ');
}

async function allSets(signal: AbortSignal): Promise<readonly MachineSet[]> {
  const kinds = Object.entries(groups) as [SetKind, (typeof groups)[SetKind]][];
  const found = await Promise.all(
    kinds.map(async ([kind, { api, resource }]) => {
      const objects = await list<KubeObject>(`${api}/${resource}`, signal);
      return objects.map((object) => setOf(kind, object));
    }),
  );
  return found.flat().sort((one, other) => (keyOfSet(one) < keyOfSet(other) ? -1 : 1));
}

interface SetsProps {
  readonly state: PageState;
  readonly sets: readonly MachineSet[];
  readonly onScaled: () => void;
}

export function Sets({ state, sets, onScaled }: SetsProps) {
  if (sets.length === 0) return null;
  return (
    <ul class="nodes" aria-label="Pools and replica sets">
      {sets.map((set) => (
        <li key={keyOfSet(set)} class="card node-card" data-set={`${set.namespace}/${set.name}`}>
          <div class="node-head">
            <h2>
              {set.name}{' '}
              <span class="namespace">
                {set.namespace} · {set.kind}
              </span>
            </h2>
            <Badge {...setStatus(set)} />
          </div>
          <p class="node-load">{setText(set)}</p>
          <div class="node-buttons">
            <SetButtons state={state} set={set} onScaled={onScaled} />
          </div>
        </li>
      ))}
    </ul>
  );
}

function SetButtons({ state, set, onScaled }: Omit<SetsProps, 'sets'> & { readonly set: MachineSet }) {
  const { name, kind } = set;
  const isBlocked = state.busy.value.has(keyOfSet(set)) || !state.isCurrent.value;
  return (
    <>
      <button
        type="button"
        aria-label={`Find the machines of ${kind} ${name}`}
        onClick={() => {
          state.filter.value = `${kind} ${name}`;
        }}>
        Find
      </button>
      {state.rights.value.canWrite && (
        <button
          type="button"
          aria-label={`Scale ${kind} ${name}`}
          // Not `disabled`, which would lose the focus.
          aria-disabled={isBlocked}
          onClick={() => {
            if (!isBlocked) void scale(state, set).then(onScaled);
          }}>
          Scale…
        </button>
      )}
    </>
  );
}

async function scale(state: PageState, set: MachineSet): Promise<void> {
  const { kind, namespace, name, wanted } = set;
  const answer = await state.ask({
    text: `How many machines shall the ${kind} ${name} have?`,
    details: whatScalingDoes(set),
    ...{ yes: 'Scale', isHarsh: false },
    input: { label: 'Machines', value: String(wanted), hint: 'A whole number, from 0 on.', pattern: '\\d{1,5}' },
  });
  if (!answer.isYes || Number(answer.choice) === wanted) return;
  const { api, resource } = groups[kind];
  const replicas = Number(answer.choice);
  state.setBusy(keyOfSet(set), true);
  try {
    await replace(`${api}/namespaces/${namespace}/${resource}/${name}/scale`, {
      ...{ apiVersion: 'autoscaling/v1', kind: 'Scale', metadata: { namespace, name }, spec: { replicas } },
    });
    state.say(`${name} gets ${count(replicas, 'machine')}.`);
  } catch (error) {
    state.fail(`Scale ${name}: ${messageOf(error)}`);
  } finally {
    state.setBusy(keyOfSet(set), false);
  }
}
