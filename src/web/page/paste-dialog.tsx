import { useRef, useState } from 'preact/hooks';
import { Modal } from './dialogs.tsx';
import { icon } from './elements.tsx';

interface PasteProps {
  readonly isDisabled: boolean;
  /** What to know before, line by line. */
  readonly hint: string;
  /** Why this text cannot be sent; empty: it can. */
  readonly problem: (text: string) => string;
  readonly onPaste: (text: string) => void;
}

/** A button, and a field for the text: a page may not read the clipboard by itself, and a telephone has no keys for it. */
export function PasteButton({ isDisabled, hint, problem, onPaste }: PasteProps) {
  const [isOpen, setOpen] = useState(false);
  const [text, setText] = useState('');
  const field = useRef<HTMLTextAreaElement>(null);
  const said = problem(text);
  const close = (answer: string) => {
    setOpen(false);
    if (answer === 'send' && text !== '' && said === '') onPaste(text);
    setText('');
  };
  return (
    <>
      <button type="button" disabled={isDisabled} onClick={() => setOpen(true)}>
        {icon('paste')}
        Paste…
      </button>
      {isOpen && (
        <Modal labelledBy="paste" onClose={close}>
          <h2 id="paste">Paste a text</h2>
          <p class="hint">{hint}</p>
          <textarea
            ref={field}
            class="code"
            aria-label="Text"
            rows={6}
            spellcheck={false}
            autofocus
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
          <p class="is-bad" role="alert">
            {said}
          </p>
          <div class="buttons">
            <button type="submit" value="no">
              Cancel
            </button>
            <button type="submit" value="send" class="primary" disabled={text === '' || said !== ''}>
              Send
            </button>
          </div>
        </Modal>
      )}
    </>
  );
}
