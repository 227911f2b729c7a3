import { useRef } from 'preact/hooks';
import type { FieldProblem } from './refusal.ts';
import { lineOf } from './yaml-text.ts';

/** What is wrong with a text; `fields` are of the API. */
export interface TextProblem {
  readonly message: string;
  readonly line?: number | undefined;
  readonly fields: readonly FieldProblem[];
}

interface CodeEditorProps {
  readonly label: string;
  readonly text: string;
  readonly isReadOnly: boolean;
  readonly problem: TextProblem | undefined;
  readonly onChange: (text: string) => void;
}

/** A YAML text, and what is wrong with it; a button goes to the line. */
export function CodeEditor({ label, text, isReadOnly, problem, onChange }: CodeEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const go = (line: number) => field.current && select(field.current, line);
  return (
    <div class="code-editor">
      {problem && <Problem problem={problem} text={text} onGo={go} />}
      <textarea
        ref={field}
        class="code"
        aria-label={label}
        aria-invalid={problem !== undefined}
        readOnly={isReadOnly}
        rows={Math.min(40, Math.max(12, text.split('\n').length + 1))}
        spellcheck={false}
        autocapitalize="off"
        value={text}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </div>
  );
}

interface ProblemProps {
  readonly problem: TextProblem;
  readonly text: string;
  readonly onGo: (line: number) => void;
}

export function Problem({ problem: { message, line, fields }, text, onGo }: ProblemProps) {
  return (
    <div class="problem" role="alert">
      <p>
        {message} {line !== undefined && <LineButton line={line} onGo={onGo} />}
      </p>
      {fields.length > 0 && (
        <ul class="notes">
          {fields.map((each) => (
            <li key={`${each.field} ${each.message}`}>
              <code>{each.field}</code>: {each.message} <LineButton line={lineOf(text, each.field)} onGo={onGo} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function LineButton({ line, onGo }: { readonly line: number | undefined; readonly onGo: (line: number) => void }) {
  if (line === undefined) return null;
  return (
    <button type="button" onClick={() => onGo(line)}>
      line {line}
    </button>
  );
}

function select(field: HTMLTextAreaElement, line: number): void {
  const lines = field.value.split('\n');
  const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
  field.focus();
  field.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  field.scrollTop = (field.scrollHeight / lines.length) * Math.max(0, line - 4);
}
