import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Choices, Input, PageState, Question } from './page-state.ts';

/** Keys, and what they do. */
const shortcuts: readonly (readonly [keys: readonly string[], does: string])[] = [
  [['?'], 'this list'],
  [['g', 'l'], 'all virtual machines'],
  [['g', 'i'], 'images'],
  [['g', 't'], 'instance types'],
  [['g', 'a'], 'the agent'],
  [['/'], 'find in the list'],
  [['n'], 'a new virtual machine'],
  [['j', 'k'], 'next and previous in the list'],
  [['x'], 'select the virtual machine in focus'],
  [['o', 'c', 's', 'w'], 'overview, console, screen and why of the virtual machine in focus'],
  [['d', 'p', 'e', 'l', 'y', 'u'], 'its devices, snapshots, events, logs, YAML and start-up'],
  [['Ctrl+Alt+Esc'], 'leave the terminal or the screen'],
];

/** What stands above the page. */
export function Dialogs({ state }: { readonly state: PageState }) {
  const question = state.question.value;
  return (
    <>
      {question && <QuestionDialog key={question.answer} question={question} />}
      {state.isHelpOpen.value && (
        <HelpDialog
          onClose={() => {
            state.isHelpOpen.value = false;
          }}
        />
      )}
    </>
  );
}

function QuestionDialog({
  question: { text, details = [], yes, isHarsh, choices, input, answer },
}: {
  readonly question: Question;
}) {
  const chosen = useRef(input?.value ?? choices?.options[0]?.value ?? '');
  return (
    <Modal labelledBy="question" onClose={(value) => answer(value === 'yes', chosen.current)}>
      <h2 id="question">{text}</h2>
      {details.length > 0 && (
        <ul class="notes">
          {details.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      {choices && choices.options.length > 1 && (
        <Choice
          choices={choices}
          onChange={(value) => {
            chosen.current = value;
          }}
        />
      )}
      {input && (
        <Written
          input={input}
          onChange={(value) => {
            chosen.current = value;
          }}
        />
      )}
      <div class="buttons">
        <button type="submit" value="no" formnovalidate autofocus={!input}>
          Cancel
        </button>
        <button type="submit" value="yes" class={isHarsh ? 'harsh' : 'primary'}>
          {yes}
        </button>
      </div>
    </Modal>
  );
}

interface WrittenProps {
  readonly input: Input;
  readonly onChange: (value: string) => void;
}

function Written({ input: { label, value, hint, pattern }, onChange }: WrittenProps) {
  return (
    <div class="field written">
      <label for="answer">{label}</label>
      <input
        id="answer"
        autofocus
        required
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        aria-describedby="answer-hint"
        title={hint}
        pattern={pattern}
        defaultValue={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
        onKeyDown={agreeByEnter}
      />
      <p id="answer-hint" class="hint">
        {hint}
      </p>
    </div>
  );
}

/** A browser would press the first button of the form, which is the other one. */
function agreeByEnter(event: KeyboardEvent & { readonly currentTarget: HTMLInputElement }): void {
  if (event.key !== 'Enter') return;
  event.preventDefault();
  const { form } = event.currentTarget;
  form?.requestSubmit(form.querySelector<HTMLButtonElement>('[value=yes]'));
}

interface ChoiceProps {
  readonly choices: Choices;
  readonly onChange: (value: string) => void;
}

function Choice({ choices: { label, options }, onChange }: ChoiceProps) {
  return (
    <label class="choice">
      {label}
      <select onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {options.map(({ value, text }) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function HelpDialog({ onClose }: { readonly onClose: () => void }) {
  return (
    <Modal labelledBy="help" onClose={onClose}>
      <h2 id="help">Keys</h2>
      <dl class="keys">
        {shortcuts.map(([keys, does]) => (
          <>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </>
        ))}
      </dl>
      <div class="buttons">
        <button type="submit" autofocus class="primary">
          Close
        </button>
      </div>
    </Modal>
  );
}

interface ModalProps {
  readonly labelledBy: string;
  /** With the value of the button that closed it; empty after Escape. */
  readonly onClose: (value: string) => void;
  readonly children: ComponentChildren;
}

/** The focus goes back to where it was. */
export function Modal({ labelledBy, onClose, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={labelledBy}
      onClose={({ currentTarget }) => onClose(currentTarget.returnValue)}>
      <form method="dialog">{children}</form>
    </dialog>
  );
}
