import type { AgentState, ExplainItem, ExplainList } from '../../api/index.ts';
import { durationText } from '../duration.ts';
import { nextTryText } from '../next-try.ts';
import { el } from './dom.ts';
import { card, type Fact, factList } from './facts.ts';
import { vmHref } from './route.ts';
import { agentState, explainAll } from './server-calls.ts';
import type { View } from './view.ts';
import { ago, fileSize } from './words.ts';

const everyMs = 3_000;

/** What the agent of the node does, and its last decision about each VM. */
export class AgentView implements View {
  readonly title = 'Agent';
  readonly element: HTMLElement;
  readonly #body = el('div', { class: 'overview' }, el('p', { class: 'nothing' }, 'Asking the agent…'));
  readonly #ending = new AbortController();
  #timer: number | undefined;

  constructor() {
    this.element = el(
      'section',
      {},
      el('div', { class: 'view-head' }, el('h1', { tabindex: -1 }, this.title)),
      this.#body,
    );
    void this.#ask();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#ending.abort();
  }

  async #ask(): Promise<void> {
    const { signal } = this.#ending;
    try {
      // A link that is under the finger or in focus is not taken away.
      if (!document.hidden && !this.#body.querySelector(':focus, :active')) {
        const [state, list] = await Promise.all([agentState(signal), explainAll(signal)]);
        this.#body.replaceChildren(stateCard(state), decisionsCard(list));
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (!signal.aborted)
        this.#body.replaceChildren(el('p', { class: 'nothing' }, `Nothing can be told now: ${reason}`));
    }
    if (!signal.aborted) this.#timer = setTimeout(() => void this.#ask(), everyMs);
  }
}

function stateCard(state: AgentState): HTMLElement {
  const { heartbeat, queue, memory, cpuSeconds, eventLoopDelayMs, relays } = state;
  const beat = heartbeat.lastSuccessSecondsAgo;
  const facts: Fact[] = [
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
  const element = card('State', factList(facts));
  element.classList.add('is-wide');
  return element;
}

function watchText({ name, synced, connected, objects, lastError }: AgentState['informers'][number]): string {
  const state = [synced ? String(objects) : 'not synced', !connected && 'not connected', lastError];
  return `${name}: ${state.filter(Boolean).join(', ')}`;
}

function decisionsCard({ items, at }: ExplainList): HTMLElement {
  if (items.length === 0) return card('Last decisions', 'None since the agent started: no virtual machine is here.');
  const now = Date.parse(at);
  const titles = ['Virtual machine', 'Phase', 'Guest', 'Because', 'Since', 'Next'];
  const head = el('tr', {}, ...titles.map((text) => el('th', { scope: 'col' }, text)));
  const rows = [...items].sort(byTrouble).map((item) => decisionRow(item, now));
  const table = el('table', {}, el('thead', {}, head), el('tbody', {}, ...rows));
  const element = card('Last decisions', el('div', { class: 'scrolls' }, table));
  element.classList.add('is-wide');
  return element;
}

function decisionRow(item: ExplainItem, now: number): HTMLElement {
  const { name, namespace, goneAt, phase, domain, why, problem, since, nextTry, quarantined } = item;
  return el(
    'tr',
    {},
    el(
      'th',
      { scope: 'row' },
      el('a', { href: vmHref(item, 'why') }, name),
      ' ',
      el('span', { class: 'namespace' }, namespace),
    ),
    el('td', {}, goneAt === undefined ? phase || '–' : `gone ${ago(goneAt, now)}`),
    el('td', {}, domain),
    el('td', {}, why, problem !== undefined && el('span', { class: 'because' }, problem)),
    el('td', { class: 'when' }, ago(since, now)),
    el('td', {}, nextTryText(nextTry), quarantined && ' (quarantine)'),
  );
}

function byTrouble(one: ExplainItem, other: ExplainItem): number {
  const rank = ({ problem, goneAt }: ExplainItem) => (problem !== undefined ? 0 : goneAt === undefined ? 1 : 2);
  return rank(one) - rank(other) || one.name.localeCompare(other.name, 'en', { numeric: true });
}
