import type { ComponentChildren, Ref } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { durationText } from '../duration.ts';
import type { VmRow } from '../rows.ts';
import { run } from './action-buttons.tsx';
import { Badge, Checkbox, icon, LeaveHint } from './elements.tsx';
import type { PageState } from './page-state.ts';
import { absenceOf, offersOf } from './row-model.ts';
import type { Stream, StreamState } from './stream.ts';
import { capitalised, count } from './words.ts';

interface StreamPanelProps {
  readonly state: PageState;
  readonly class: string;
  readonly stream: Stream;
  readonly row: VmRow | undefined;
  /** What is said of the one who has the keyboard. */
  readonly words: { readonly you: string; readonly another: string };
  readonly draws: 'terminal' | 'screen';
  /** Beside those that all streams have. */
  readonly controls: ComponentChildren;
  /** `parent`: the element that belongs to what draws the guest. */
  readonly children: (parent: Ref<HTMLDivElement>, leave: () => void) => ComponentChildren;
}

/** Who has keyboard and mouse, who watches, and the guest. */
export function StreamPanel({ state: page, stream, row, ...more }: StreamPanelProps) {
  const { words, draws, controls, children, class: name } = more;
  const newest = useRef(row);
  newest.current = row;
  const parent = useRef<HTMLDivElement>(null);
  const readOnlyBox = useRef<HTMLInputElement>(null);
  const leave = () => readOnlyBox.current?.focus();
  useLayoutEffect(() => {
    const hasNothing = () => newest.current !== undefined && absenceOf(newest.current) !== undefined;
    if (page.isLookOnly.value) stream.isReadOnly.value = true;
    if (parent.current) void stream.start(parent.current, leave, hasNothing);
  }, [page, stream]);
  useLayoutEffect(() => stream.follow(row), [stream, row]);
  const state = stream.state.value;
  const isReadOnly = stream.isReadOnly.value;
  const absence = row && stream.role === undefined ? absenceOf(row) : undefined;
  const notice = absence ?? noticeText(state, isReadOnly, words.another);
  const hasShown = stream.hasShown.value;
  const setReadOnly = (isChecked: boolean) => stream.setReadOnly(isChecked);
  return (
    <div class={name} data-state={stream.role ?? state.kind}>
      <div class="bar">
        <Badge {...(absence !== undefined && !hasShown ? absent : badgeOf(state, words.you))} />
        {state.kind === 'connecting' && absence === undefined && (
          <span class="viewers late">There is no answer yet; it is waited for.</span>
        )}
        {draws === 'terminal' && <span class="viewers">{watching(state)}</span>}
        <Checkbox
          id="read-only"
          label="Read only"
          is={isReadOnly}
          onChange={(isChecked) => setReadOnly(isChecked || page.isLookOnly.value)}
          inputRef={readOnlyBox}
        />
        {controls}
        <LeaveHint of={draws} />
      </div>
      <div class="notice" role="status" hidden={notice === ''}>
        <span>{notice}</span>
        {absence !== undefined && row && <StartButton state={page} row={row} />}
        {stream.role === 'viewer' && !page.isLookOnly.value && (
          <button type="button" class="primary" onClick={() => stream.take()}>
            Take over
          </button>
        )}
        {stream.isOver && absence === undefined && (
          <button type="button" onClick={() => stream.connect()}>
            Connect again
          </button>
        )}
      </div>
      <div class="guest" hidden={absence !== undefined && !hasShown}>
        {children(parent, leave)}
      </div>
    </div>
  );
}

const absent = { text: 'Not running', tone: 'off' } as const;

/** Where it can be started; else the words beside it say why not. */
function StartButton({ state, row }: { readonly state: PageState; readonly row: VmRow }) {
  const offer = offersOf(row, state.rights.value).find(({ action }) => action === 'start');
  if (!offer) return null;
  return (
    <button type="button" class="primary" onClick={() => void run(state, row, offer)}>
      {icon('start')}
      Start {row.name}
    </button>
  );
}

function badgeOf(state: StreamState, you: string): Parameters<typeof Badge>[0] {
  switch (state.kind) {
    case 'connecting':
      return { text: 'Connecting', tone: 'busy' };
    case 'attached':
      return state.role === 'writer' ? { text: you, tone: 'good' } : { text: 'Watching', tone: 'paused' };
    case 'following':
      return { text: 'Following', tone: 'busy' };
    case 'waiting':
      return { text: 'Reconnecting', tone: 'busy' };
    case 'ended':
      return { text: 'Ended', tone: 'off' };
  }
}

/** The writer is not counted. */
function watching(state: StreamState): string {
  if (state.kind !== 'attached') return '';
  const others = state.role === 'writer' ? state.viewers : state.viewers - 1;
  return others > 0 ? `${count(others, 'other')} ${others === 1 ? 'watches' : 'watch'}` : '';
}

function noticeText(state: StreamState, isReadOnly: boolean, another: string): string {
  switch (state.kind) {
    case 'connecting':
      return '';
    case 'attached':
      return state.role === 'writer' || isReadOnly ? '' : `${capitalised(state.reason || another)}: you watch.`;
    case 'following':
      return `${capitalised(state.reason)}: followed there.`;
    case 'waiting':
      return `${capitalised(state.reason)}: tried again in ${durationText(state.inMs)}.`;
    case 'ended':
      return `${capitalised(state.reason)}.`;
  }
}
