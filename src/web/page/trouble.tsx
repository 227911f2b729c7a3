import type { VmRow } from '../rows.ts';
import { notesOf, noteText, statusOf } from './row-model.ts';

/** On every side of it. */
export function Trouble({ row }: { readonly row: VmRow }) {
  const notes = notesOf(row).map(noteText);
  return (
    <div class="notice is-trouble" role="status">
      <span>
        <strong>{statusOf(row)}</strong>
        {notes.length > 0 && `: ${notes.map((note) => note.replace(/\.?$/, '.')).join(' ')}`}
      </span>
    </div>
  );
}
