import type { ComponentChildren } from 'preact';
import { useLayoutEffect } from 'preact/hooks';
import type { VmRow } from '../rows.ts';
import { Badge, Card, icon, Nothing, Row, Table } from './elements.tsx';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { Poll, Polled } from './polled.tsx';
import { vmHref } from './route.ts';
import { isLive } from './row-model.ts';
import type { Vm } from './server-calls.ts';
import { SnapshotActions } from './snapshot-actions.ts';
import { type SnapshotFacts, snapshotsOf } from './snapshot-calls.ts';
import { type SnapshotLine, type State, snapshotLines, type UseLine, useLines } from './snapshots-model.ts';
import { ago, capitalised, messageOf } from './words.ts';

interface SnapshotsPanelProps {
  readonly state: PageState;
  readonly vm: Vm;
  readonly row: VmRow | undefined;
}

/** Snapshots of a VM, and what was made of them. */
export function SnapshotsPanel({ state, vm, row }: SnapshotsPanelProps) {
  const poll = useOwned(() => new Poll((signal) => snapshotsOf(vm, signal)));
  useLayoutEffect(() => void poll.now(), [poll, row]);
  const actions = new SnapshotActions(state, vm, row, () => void poll.again());
  return (
    <div class="why">
      <Polled poll={poll} failureText={(error) => `Its snapshots cannot be shown: ${messageOf(error)}`}>
        {(facts) => <Snapshots state={state} facts={facts} actions={actions} row={row} nowMs={Date.now()} />}
      </Polled>
    </div>
  );
}

interface SnapshotsProps {
  readonly state: PageState;
  readonly facts: SnapshotFacts;
  readonly actions: SnapshotActions;
  readonly row: VmRow | undefined;
  readonly nowMs: number;
}

const head = ['Snapshot', 'Taken', 'State', 'Disks', 'How it was'];

export function Snapshots({ state, facts, actions, row, nowMs }: SnapshotsProps) {
  const { vm } = facts;
  if (!vm && !row) return <Nothing>There is no such virtual machine.</Nothing>;
  if (!vm) return <Nothing>It is an instance without a VirtualMachine: there are no snapshots of it.</Nothing>;
  const lines = snapshotLines(facts);
  const uses = useLines(facts);
  const mayWrite = state.rights.value.canWrite;
  return (
    <>
      <Card title="Snapshots">
        {mayWrite && (
          <div class="card-buttons">
            <Act state={state} actions={actions} class="primary" label="Take snapshot…" on={() => actions.take(facts)}>
              {icon('snapshots')}
            </Act>
            <Act state={state} actions={actions} label="Clone with its disks…" on={() => actions.clone(facts)}>
              {icon('clone')}
            </Act>
          </div>
        )}
        {lines.length === 0 ? (
          <Nothing>There is none yet. One keeps what the machine is like, and its disks on claims.</Nothing>
        ) : (
          <Table head={mayWrite ? [...head, 'What to do'] : head} stacks>
            {lines.map((line) => (
              <Row
                key={line.name}
                head={[...head, '']}
                cells={[...cellsOf(line, nowMs), ...(mayWrite ? [buttonsOf(line)] : [])]}
              />
            ))}
          </Table>
        )}
      </Card>
      {uses.length > 0 && <Uses state={state} uses={uses} actions={actions} row={row} nowMs={nowMs} />}
    </>
  );

  function buttonsOf(line: SnapshotLine) {
    const { name, isReady } = line;
    return (
      <div class="row-buttons">
        {isReady && row && (
          <Act
            state={state}
            actions={actions}
            label="Restore…"
            of={name}
            on={() => actions.restore(line, isLive(row))}
          />
        )}
        {isReady && (
          <Act state={state} actions={actions} label="Clone…" of={name} on={() => actions.clone(facts, name)} />
        )}
        <Act state={state} actions={actions} label="Delete…" of={name} on={() => actions.deleteSnapshot(name)} />
      </div>
    );
  }
}

function cellsOf({ name, at, state, problem, disks, missing, how }: SnapshotLine, nowMs: number) {
  return [
    name,
    at === undefined ? '' : <When at={at} nowMs={nowMs} />,
    <StateCell key="state" state={state} problem={problem} />,
    <>
      {disks.join(', ') || 'none'}
      {missing.length > 0 && <span class="note">without {missing.join(', ')}</span>}
    </>,
    capitalised(how),
  ];
}

function When({ at, nowMs }: { readonly at: string; readonly nowMs: number }) {
  return (
    <time class="when" datetime={at} title={at}>
      {ago(at, nowMs)}
    </time>
  );
}

function StateCell({ state, problem }: { readonly state: State; readonly problem: string }) {
  return (
    <>
      <Badge {...state} />
      {problem !== '' && <span class={`note ${state.tone === 'bad' ? 'is-bad' : ''}`}>{capitalised(problem)}</span>}
    </>
  );
}

const useHead = ['What', 'Of', 'Begun', 'State'];

interface UsesProps extends Omit<SnapshotsProps, 'facts'> {
  readonly uses: readonly UseLine[];
}

function Uses({ state, uses, actions, nowMs }: UsesProps) {
  const mayWrite = state.rights.value.canWrite;
  return (
    <Card title="Restores and clones">
      <Table head={mayWrite ? [...useHead, 'What to do'] : useHead} stacks>
        {uses.map((use) => {
          const { kind, name, snapshot, at, isOver } = use;
          const button = (
            <Act
              state={state}
              actions={actions}
              label={isOver ? 'Forget' : 'Give up…'}
              of={name}
              on={() => actions.drop(use)}
            />
          );
          const cells = [
            <UseName key="what" use={use} namespace={actions.namespace} />,
            snapshot === '' ? 'the machine itself' : `snapshot ${snapshot}`,
            <When key="begun" at={at} nowMs={nowMs} />,
            <StateCell key="state" {...use} />,
            ...(mayWrite ? [button] : []),
          ];
          return <Row key={`${kind} ${name}`} head={[...useHead, '']} cells={cells} />;
        })}
      </Table>
    </Card>
  );
}

function UseName({ use: { kind, makes }, namespace }: { readonly use: UseLine; readonly namespace: string }) {
  if (kind === 'restores') return <>Restore</>;
  return makes === undefined ? (
    <>Clone</>
  ) : (
    <>
      Clone <a href={vmHref({ namespace, name: makes }, 'overview')}>{makes}</a>
    </>
  );
}

interface ActProps {
  readonly state: PageState;
  readonly actions: SnapshotActions;
  readonly label: string;
  /** What it is done with; the label alone says it unless given. */
  readonly of?: string;
  readonly class?: string;
  readonly on: () => void;
  readonly children?: ComponentChildren;
}

function Act({ state, actions, label, of, on, children, class: name }: ActProps) {
  const isBlocked = state.busy.value.has(actions.busyKey) || !state.isCurrent.value;
  return (
    <button
      type="button"
      class={name}
      aria-label={of === undefined ? undefined : `${label} ${of}`}
      // Not `disabled`, which would lose the focus.
      aria-disabled={isBlocked}
      onClick={() => {
        if (!isBlocked) on();
      }}>
      {children}
      {label}
    </button>
  );
}
