import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { VmRow } from '../rows.ts';
import { saveFile } from './download.ts';
import { icon, Nothing } from './elements.tsx';
import { logOf, type PodObject, podsOf } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import type { Vm } from './server-calls.ts';
import { messageOf } from './words.ts';

interface LogSource {
  readonly pod: string;
  readonly container: string;
  readonly label: string;
}

interface LogAnswer {
  readonly sources: readonly LogSource[];
  readonly shown: LogSource | undefined;
  readonly text: string;
}

/** What containers wrote, by what a person calls it; others are shown under their own names. */
const labels: Readonly<Record<string, string>> = {
  compute: 'Launcher',
  'guest-console-log': 'Serial console since boot',
};

/** Those of the youngest pod first, with init containers that stay. Containers of images have nothing to say. */
export function logSources(pods: readonly PodObject[]): readonly LogSource[] {
  return pods.flatMap(({ metadata, spec }, at) =>
    [
      ...(spec?.containers ?? []),
      ...(spec?.initContainers ?? []).filter(({ restartPolicy }) => restartPolicy === 'Always'),
    ]
      .filter(({ name }) => !name.startsWith('volume'))
      .map(({ name }) => ({
        pod: metadata.name,
        container: name,
        label: `${labels[name] ?? name}${at === 0 ? '' : ` (${metadata.name})`}`,
      })),
  );
}

/** The last lines of what launcher and guest wrote. */
export function LogsPanel({ vm, row }: { readonly vm: Vm; readonly row: VmRow | undefined }) {
  const chosen = useRef('');
  const [, redraw] = useState(0);
  const poll = useOwned(() => new Poll((signal) => ask(vm, chosen.current, signal)));
  useLayoutEffect(() => void poll.now(), [poll, row]);
  const choose = (key: string) => {
    chosen.current = key;
    redraw((times) => times + 1);
    void poll.again();
  };
  return (
    <div class="logs">
      <Polled poll={poll} failureText={(error) => `Its logs cannot be shown: ${messageOf(error)}`}>
        {(answer) => <Log name={vm.name} answer={answer} onChoose={choose} />}
      </Polled>
    </div>
  );
}

const keyOf = ({ pod, container }: LogSource) => `${pod}/${container}`;

async function ask(vm: Vm, key: string, signal: AbortSignal): Promise<LogAnswer> {
  const sources = logSources(await podsOf(vm, signal));
  const shown = sources.find((source) => keyOf(source) === key) ?? sources[0];
  const text = shown ? await logOf(vm.namespace, shown.pod, shown.container, signal) : '';
  return { sources, shown, text };
}

interface LogProps {
  readonly name: string;
  readonly answer: LogAnswer;
  readonly onChoose: (key: string) => void;
}

export function Log({ name, answer: { sources, shown, text }, onChoose }: LogProps) {
  const view = useRef<HTMLTextAreaElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (view.current && isAtEnd.current) view.current.scrollTop = view.current.scrollHeight;
  }, [text]);
  if (!shown) return <Nothing>There is no launcher of this machine now, and its log went with it.</Nothing>;
  return (
    <>
      <div class="bar">
        <label>
          Log
          <select value={keyOf(shown)} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
            {sources.map((source) => (
              <option key={keyOf(source)} value={keyOf(source)}>
                {source.label}
              </option>
            ))}
          </select>
        </label>
        <button
          type="button"
          onClick={() => saveFile(new Blob([text], { type: 'text/plain' }), `${name}-${shown.container}.log`)}>
          {icon('save')}
          Download
        </button>
        <p class="hint">{shown.pod}</p>
      </div>
      {text === '' && <Nothing>Nothing has been written yet.</Nothing>}
      <textarea
        ref={view}
        class="log"
        readOnly
        spellcheck={false}
        aria-label={shown.label}
        hidden={text === ''}
        value={readable(text)}
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          isAtEnd.current = scrollTop + clientHeight > scrollHeight - 8;
        }}
      />
    </>
  );
}

/** Colours and moves of a terminal are none here. */
const escapeSign = '\\x1b';
const controls = '\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f';
const terminalCodes = new RegExp(`${escapeSign}\\[[0-9;?]*[ -/]*[@-~]`, 'g');
const unseen = new RegExp(`[${controls}]`, 'g');

export function readable(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(terminalCodes, '').replace(unseen, '');
}
