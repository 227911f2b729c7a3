import type { ComponentChildren, Ref } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { durationText } from '../duration.ts';
import type { VmRow } from '../rows.ts';
import { Badge, Checkbox, LeaveHint } from './elements.tsx';
import type { Stream, StreamState } from './stream.ts';
import { capitalised, count } from './words.ts';

interface StreamPanelProps {
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
export function StreamPanel({ stream, row, words, draws, controls, children, class: name }: StreamPanelProps) {
  const parent = useRef<HTMLDivElement>(null);
  const readOnlyBox = useRef<HTMLInputElement>(null);
  const leave = () => readOnlyBox.current?.focus();
  useLayoutEffect(() => {
    if (parent.current) void stream.start(parent.current, leave);
  }, [stream]);
  useLayoutEffect(() => stream.follow(row), [stream, row]);
  const state = stream.state.value;
  const isReadOnly = stream.isReadOnly.value;
  const notice = noticeText(state, isReadOnly, words.another);
  const setReadOnly = (isChecked: boolean) => stream.setReadOnly(isChecked);
  return (
    <div class={name} data-state={stream.role ?? state.kind}>
      <div class="bar">
        <Badge {...badgeOf(state, words.you)} />
        {draws === 'terminal' && <span class="viewers">{watching(state)}</span>}
        <Checkbox id="read-only" label="Read only" is={isReadOnly} onChange={setReadOnly} inputRef={readOnlyBox} />
        {controls}
        <LeaveHint of={draws} />
      </div>
      <div class="notice" role="status" hidden={notice === ''}>
        <span>{notice}</span>
        {stream.role === 'viewer' && (
          <button type="button" class="primary" onClick={() => stream.take()}>
            Take over
          </button>
        )}
        {stream.isOver && (
          <button type="button" onClick={() => stream.connect()}>
            Connect again
          </button>
        )}
      </div>
      {children(parent, leave)}
    </div>
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
