import type { ComponentChildren } from 'preact';

/** Of an input: what names it, and what says what is wrong with it. */
interface A11y {
  readonly id: string;
  readonly 'aria-invalid': boolean;
  readonly 'aria-describedby': string;
}

interface FieldProps {
  readonly id: string;
  readonly label: string;
  readonly hint?: string;
  /** Empty: nothing is wrong. */
  readonly problem: string;
  readonly children: (a11y: A11y) => ComponentChildren;
}

/** A label, what is put in, and beneath it a hint or what is wrong. */
export function Field({ id, label, hint = '', problem, children }: FieldProps) {
  const field = `new-${id}`;
  return (
    <div class="field">
      <label for={field}>{label}</label>
      {children({ id: field, 'aria-invalid': problem !== '', 'aria-describedby': `${field}-note` })}
      <p id={`${field}-note`} class={problem === '' ? 'hint' : 'is-bad'}>
        {problem || hint}
      </p>
    </div>
  );
}

interface ChoiceProps {
  readonly a11y: A11y;
  readonly value: string;
  readonly options: readonly string[];
  /** For the empty one. */
  readonly none?: string;
  readonly onChange: (value: string) => void;
}

/** One of them; what is chosen is one of them, too, whatever it is. */
export function Choice({ a11y, value, options, none = '', onChange }: ChoiceProps) {
  const all = options.includes(value) ? options : [value, ...options];
  return (
    <select {...a11y} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
      {all.map((option) => (
        <option key={option} value={option}>
          {option === '' ? none : option.slice(option.indexOf('/') + 1)}
        </option>
      ))}
    </select>
  );
}

/** Any text; these are offered. */
export function Suggested({ a11y, value, options, onChange }: ChoiceProps) {
  const list = `${a11y.id}-list`;
  return (
    <>
      <input
        {...a11y}
        list={list}
        autocomplete="off"
        spellcheck={false}
        autocapitalize="off"
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value.trim())}
      />
      <datalist id={list}>
        {options.map((option) => (
          <option key={option} value={option} />
        ))}
      </datalist>
    </>
  );
}
