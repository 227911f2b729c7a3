import { batch, computed, signal } from '@preact/signals';
import type { NodeRow, VmChange, VmList, VmRow } from '../rows.ts';
import { schedule } from './backoff.ts';
import { moveEnd } from './move-model.ts';
import type { PageRoute } from './route.ts';
import type { Rights } from './row-model.ts';
import { byOrder, type RowOrder, usualOrder } from './row-order.ts';

/** How the page stands with its server. */
export type Link =
  | { readonly kind: 'connecting' }
  /** `problem`: why the rows may be old all the same. */
  | { readonly kind: 'live'; readonly problem: string | undefined }
  | { readonly kind: 'lost' }
  /** It has no session, or one of before; `reason` says what to do. */
  | { readonly kind: 'denied'; readonly reason: string };

/** What is asked before something is done. */
export interface Question {
  readonly text: string;
  /** Line by line: what is lost by it, what stays. */
  readonly details?: readonly string[];
  /** On the button that agrees. */
  readonly yes: string;
  /** The guest does not get to save anything. */
  readonly isHarsh: boolean;
  /** To choose one of, the first one unless another is chosen. */
  readonly choices?: Choices;
  /** To be written, in place of a choice. */
  readonly input?: Input;
  readonly answer: (isYes: boolean, choice: string) => void;
}

export interface Choices {
  readonly label: string;
  readonly options: readonly { readonly value: string; readonly text: string }[];
}

/** What is written to a question; no answer but one that fits is taken. */
export interface Input {
  readonly label: string;
  readonly value: string;
  /** What fits, in words. */
  readonly hint: string;
  /** As an input element has it. */
  readonly pattern: string;
}

/** What is done with several VMs. */
export interface BulkRun {
  readonly title: string;
  readonly total: number;
  readonly done: number;
  readonly isOver: boolean;
  readonly failures: readonly { readonly key: string; readonly text: string }[];
}

/** The value of the choice, or what was written; empty where neither was asked for. */
export type Answer = { readonly isYes: false } | { readonly isYes: true; readonly choice: string };

export interface Message {
  readonly id: number;
  readonly text: string;
}

const shownMs = 6_000;
const maxFailures = 3;

/** All that the page shows but for the streams of one VM: each component draws itself anew when what it read has changed. */
export class PageState {
  /** Undefined until the token of the address has become a session. */
  readonly route = signal<PageRoute | undefined>(undefined);
  readonly link = signal<Link>({ kind: 'connecting' });
  readonly node = signal('');
  /** The server offers start and stop. */
  readonly canStart = signal(false);
  /** The server passes on requests to the Kubernetes API. */
  readonly hasApi = signal(false);
  readonly hasImages = signal(false);
  readonly hasFigures = signal(false);
  readonly hasTimeline = signal(false);
  /** Who looks may change nothing. */
  readonly isLookOnly = signal(false);
  readonly rights = computed<Rights>(() => ({
    canStart: this.canStart.value && !this.isLookOnly.value,
    canWrite: this.hasApi.value && !this.isLookOnly.value,
    isLookOnly: this.isLookOnly.value,
  }));
  /** What does not work although the rows are as they are now. */
  readonly notice = signal<string | undefined>(undefined);
  /** Empty: the page is about one alone. */
  readonly nodes = signal<readonly NodeRow[]>([]);
  readonly hasNodes = computed(() => this.nodes.value.length > 1);
  readonly rows = signal<ReadonlyMap<string, VmRow>>(new Map());
  /** The rows were there once. */
  readonly isLoaded = signal(false);
  /** Nothing keeps what is shown from being true. */
  readonly isCurrent = computed(() => this.link.value.kind === 'live' && this.link.value.problem === undefined);
  readonly order = signal<RowOrder>(usualOrder);
  readonly sortedRows = computed(() => byOrder([...this.rows.value.values()], this.order.value));
  /** Keys of VMs that were chosen for what is done with several. */
  readonly selected = signal<ReadonlySet<string>>(new Set());
  readonly bulk = signal<BulkRun | undefined>(undefined);
  /** What is looked for in the list. */
  readonly filter = signal('');
  /** Keys of VMs that something is done with right now. */
  readonly busy = signal<ReadonlySet<string>>(new Set());
  /** Moves on from time to time: ages are written anew. */
  readonly nowMs = signal(Date.now());
  readonly question = signal<Question | undefined>(undefined);
  readonly isHelpOpen = signal(false);
  /** Seen for a while. */
  readonly message = signal<Message | undefined>(undefined);
  /** Until they are put away. */
  readonly failures = signal<readonly Message[]>([]);
  #messages = 0;

  row(key: string): VmRow | undefined {
    return this.rows.value.get(key);
  }

  replace({ node, actions, nodes = [], problem, rows, ...more }: VmList): void {
    batch(() => {
      this.hasApi.value = more.kube === true;
      this.hasImages.value = more.images === true;
      this.hasFigures.value = more.figures === true;
      this.hasTimeline.value = more.timeline === true;
      this.isLookOnly.value = more.lookOnly === true;
      this.notice.value = more.notice;
      this.nodes.value = nodes;
      this.#sayWhatMoved(rows);
      this.node.value = node;
      this.canStart.value = actions;
      this.rows.value = new Map(rows.map((row) => [keyOfRow(row), row]));
      this.#forgetGone();
      this.isLoaded.value = true;
      this.link.value = { kind: 'live', problem };
    });
  }

  change({ nodes, problem, notice, rows, gone }: VmChange): void {
    const changed = new Map(this.rows.value);
    for (const key of gone) changed.delete(key);
    for (const row of rows) changed.set(keyOfRow(row), row);
    batch(() => {
      if (nodes) this.nodes.value = nodes;
      this.#sayWhatMoved(rows);
      this.notice.value = notice;
      this.rows.value = changed;
      if (gone.length > 0) this.#forgetGone();
      this.link.value = { kind: 'live', problem };
    });
  }

  select(keys: readonly string[], isSelected: boolean): void {
    const selected = new Set(this.selected.value);
    for (const key of keys) {
      if (isSelected) selected.add(key);
      else selected.delete(key);
    }
    this.selected.value = selected;
  }

  setBusy(key: string, isBusy: boolean): void {
    const busy = new Set(this.busy.value);
    if (isBusy) busy.add(key);
    else busy.delete(key);
    this.busy.value = busy;
  }

  say(text: string): void {
    const message = { id: this.#messages++, text };
    this.message.value = message;
    schedule(shownMs, () => {
      if (this.message.value === message) this.message.value = undefined;
    });
  }

  fail(text: string): void {
    this.failures.value = [...this.failures.value, { id: this.#messages++, text }].slice(-maxFailures);
  }

  putAway(failure: Message): void {
    this.failures.value = this.failures.value.filter((each) => each !== failure);
  }

  /** No also when the question is put away, and when another one takes its place. */
  ask(question: Omit<Question, 'answer'>): Promise<Answer> {
    this.question.value?.answer(false, '');
    return new Promise((resolve) => {
      const asked: Question = {
        ...question,
        answer: (isYes, choice) => {
          // A dialog tells that it is closed some time after it is, when the next question may be there.
          if (this.question.value === asked) this.question.value = undefined;
          resolve(isYes ? { isYes, choice } : { isYes });
        },
      };
      this.question.value = asked;
    });
  }

  /** What was chosen and is no more is not done anything with. */
  #forgetGone(): void {
    const rows = this.rows.value;
    const left = [...this.selected.value].filter((key) => rows.has(key));
    if (left.length < this.selected.value.size) this.selected.value = new Set(left);
  }

  /** Of moves that were seen under way: who waits for one need not look at the line. */
  #sayWhatMoved(rows: readonly VmRow[]): void {
    for (const row of rows) {
      const end = moveEnd(this.rows.value.get(keyOfRow(row)), row);
      if (end?.kind === 'arrived') this.say(end.text);
      else if (end?.kind === 'failed') this.fail(end.text);
    }
  }
}

export function keyOfRow({ namespace, name }: Pick<VmRow, 'namespace' | 'name'>): string {
  return `${namespace}/${name}`;
}
