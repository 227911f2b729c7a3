interface KeyBarProps {
  readonly keys: readonly { readonly label: string; readonly says: string; readonly press: () => void }[];
  readonly isDisabled: boolean;
}

/** Keys that a telephone has not got. The focus stays where it is, so that its keyboard stays open. */
export function KeyBar({ keys, isDisabled }: KeyBarProps) {
  return (
    <fieldset class="key-bar" aria-label="Keys" disabled={isDisabled}>
      {keys.map(({ label, says, press }) => (
        <button
          key={label}
          type="button"
          aria-label={says}
          onPointerDown={(event) => event.preventDefault()}
          onClick={press}>
          {label}
        </button>
      ))}
    </fieldset>
  );
}
