import { useLayoutEffect, useRef } from 'preact/hooks';
import type { AgentState, ExplainItem, ExplainList } from '../../api/index.ts';
import { durationText } from '../duration.ts';
import { fileSize } from '../file-size.ts';
import { nextTryText } from '../next-try.ts';
import { Card, type Fact, Facts, Row, Table } from './elements.tsx';
import { useOwned } from './owned.ts';
import type { PageState } from './page-state.ts';
import { Poll, Polled } from './polled.tsx';
import { type AgentRoute, agentHref, vmHref } from './route.ts';
import { agentState, explainAll } from './server-calls.ts';
import { ago, messageOf } from './words.ts';

interface AgentAnswer {
  readonly state: AgentState;
  readonly list: ExplainList;
}

const columns = ['Virtual machine', 'Phase', 'Guest', 'Because', 'Since', 'Next'];

interface AgentViewProps {
  readonly state: PageState;
  readonly route: AgentRoute;
}

/** What the agent of a node does, and its last decision about each VM. To be drawn anew for another node. */
export function AgentView({ state, route: { node } }: AgentViewProps) {
  const body = useRef<HTMLDivElement>(null);
  // A link that is under the finger or in focus is not moved away.
  const mayAsk = () => !body.current?.querySelector(':focus, :active');
  const poll = useOwned(() => new Poll((signal) => askAgent(node, signal), mayAsk));
  useLayoutEffect(() => void poll.now(), [poll]);
  return (
    <section>
      <div class="view-head">
        <h1 tabindex={-1}>{node === undefined ? 'Agent' : `Agent of ${node}`}</h1>
      </div>
      <AgentChoice state={state} node={node} />
      <div class="overview" ref={body}>
        <Polled poll={poll} failureText={(error) => `Nothing can be told now: ${messageOf(error)}`}>
          {(answer) => <AgentCards {...answer} />}
        </Polled>
      </div>
    </section>
  );
}

/** Where there are several. */
export function AgentChoice({ state, node }: { readonly state: PageState; readonly node: string | undefined }) {
  if (!state.hasNodes.value) return null;
  const shown = node ?? state.node.value;
  return (
    <nav class="tabs" aria-label="Nodes">
      {state.nodes.value.map(({ name }) => (
        <a key={name} href={agentHref(name)} aria-current={name === shown ? 'page' : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}

async function askAgent(node: string | undefined, signal: AbortSignal): Promise<AgentAnswer> {
  const [state, list] = await Promise.all([agentState(node, signal), explainAll(node, signal)]);
  return { state, list };
}

export function AgentCards({ state, list }: AgentAnswer) {
  return (
    <>
      <Card title="State" class="is-wide">
        <Facts facts={factsOf(state)} />
      </Card>
      <Decisions list={list} />
    </>
  );
}

function factsOf(state: AgentState): readonly Fact[] {
  const { heartbeat, queue, memory, cpuSeconds, eventLoopDelayMs, relays } = state;
  const beat = heartbeat.lastSuccessSecondsAgo;
  return [
    { term: 'Node', text: state.node },
    { term: 'Phase', text: `${state.phase}, for ${durationText(state.upSeconds * 1_000)}` },
    { term: 'Process', text: String(state.pid) },
    { term: 'Heartbeat', text: beat === undefined ? 'none yet' : `${durationText(beat * 1_000)} ago` },
    { term: 'Work', text: `${queue.running} running, ${queue.queued} queued, ${queue.waiting} waiting` },
    { term: 'Memory', text: `${fileSize(memory.rssBytes)}, heap ${fileSize(memory.heapUsedBytes)}` },
    { term: 'CPU time', text: durationText((cpuSeconds.user + cpuSeconds.system) * 1_000) },
    { term: 'Event loop', text: `99 of 100 within ${Math.ceil(eventLoopDelayMs.p99)} ms` },
    { term: 'Migration proxies', text: relays.unavailable ?? `${relays.open} open` },
    { term: 'Watches', text: state.informers.map(watchText).join(' · ') },
  ];
}

function watchText({ name, synced, connected, objects, lastError }: AgentState['informers'][number]): string {
  const state = [synced ? String(objects) : 'not synced', !connected && 'not connected', lastError];
  return `${name}: ${state.filter(Boolean).join(', ')}`;
}

function Decisions({ list: { items, at } }: { readonly list: ExplainList }) {
  if (items.length === 0) {
    return <Card title="Last decisions">None since the agent started: no virtual machine is here.</Card>;
  }
  return (
    <Card title="Last decisions" class="is-wide">
      <Table head={columns} stacks>
        {[...items].sort(byTrouble).map((item) => (
          <Decision key={item.uid} item={item} now={Date.parse(at)} />
        ))}
      </Table>
    </Card>
  );
}

function Decision({ item, now }: { readonly item: ExplainItem; readonly now: number }) {
  const { name, namespace, goneAt, moved, phase, domain, why, problem, since, nextTry, quarantined } = item;
  return (
    <Row
      head={columns}
      cells={[
        <>
          <a href={vmHref(item, 'why')}>{name}</a> <span class="namespace">{namespace}</span>
        </>,
        goneAt === undefined ? phase || '–' : `${moved ? `moved to ${moved.node}` : 'gone'} ${ago(goneAt, now)}`,
        domain,
        <div key="because">
          {why}
          {problem !== undefined && <span class="because">{problem}</span>}
        </div>,
        <span key="since" class="when">
          {ago(since, now)}
        </span>,
        `${nextTryText(nextTry)}${quarantined ? ' (quarantine)' : ''}`,
      ]}
    />
  );
}

const byName = new Intl.Collator('en', { numeric: true });

function byTrouble(one: ExplainItem, other: ExplainItem): number {
  const rank = ({ problem, goneAt }: ExplainItem) => (problem !== undefined ? 0 : goneAt === undefined ? 1 : 2);
  return rank(one) - rank(other) || byName.compare(one.name, other.name);
}
